package app

import (
	"cmp"
	"context"
	"fmt"

	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
)

// sameModels compares the models of the remaining prompts with those that were asked
// before (FR-012). A model that is configured otherwise is used only if this resume names
// it or a person agrees. Otherwise sameModels returns ErrEnvironment.
func (w *work) sameModels(ctx context.Context) error {
	sess := w.writer.Session()
	agreed := map[session.ModelSetup]bool{}
	for id, step := range w.plan.All() {
		if step.Prompt == nil || sess.Status(id) == session.StepDone {
			continue
		}
		model, err := w.model(cmp.Or(w.choices.Model, step.Prompt.Model))
		if err != nil {
			return err
		}
		now := model.Setup()
		before, err := w.modelBefore(ctx, id, now.Name)
		if err != nil {
			return err
		}
		if before == (session.ModelSetup{}) || before == now || agreed[now] {
			continue
		}
		text := fmt.Sprintf("%s continues with another model: it was %s, it is %s", id, setupText(before), setupText(now))
		if before.Name == now.Name {
			text = fmt.Sprintf("the model %s of %s is configured otherwise than when it was asked last", setupText(now), id)
		}
		if agreed[now], err = w.permits(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// permits decides about a changed model. It returns ErrEnvironment unless this resume
// names the model or a person agrees.
func (w *work) permits(ctx context.Context, text string) (bool, error) {
	if w.choices.Model != "" {
		w.warn(text)
		return true, nil
	}
	yes, err := w.door.OtherModel(ctx, text)
	if yes || err != nil && session.CodeOf(err) != session.ErrEnvironment {
		return yes, err
	}
	again := resume.Again(w.writer.Session(), w.Workspace)
	next := again.After("restore its configuration, or name the model that you want")
	next.Do = session.MoveChooseModel
	return false, &session.Error{Code: session.ErrEnvironment, Message: text + "; the session is unchanged", Next: next}
}

func setupText(m session.ModelSetup) string { return m.Name + " (" + m.Provider + ")" }

// modelBefore returns the model that a step asked last. For a step that asked none, it
// returns the one with this name that another step asked last. It is zero if there is
// none.
func (w *work) modelBefore(ctx context.Context, id session.StepID, name string) (found session.ModelSetup, err error) {
	sess := w.writer.Session()
	if st := sess.Steps[id]; st != nil && st.Talk != nil && st.Talk.Turn > 0 {
		found, _, err = w.lastAsked(ctx, st)
		return found, err
	}
	last := uint64(0)
	for _, st := range sess.Steps {
		if st.Talk == nil || st.LastSeq < last {
			continue
		}
		m, seq, err := w.lastAsked(ctx, st)
		if err != nil {
			return found, err
		}
		if m.Name == name && seq > last {
			found, last = m, seq
		}
	}
	return found, nil
}

// lastAsked returns the model of the last request of a step, and its seq.
func (w *work) lastAsked(ctx context.Context, st *session.StepState) (m session.ModelSetup, seq uint64, err error) {
	for seq = st.LastSeq; seq > 0; seq-- {
		e, err := w.writer.Event(ctx, seq)
		if err != nil {
			return m, 0, err
		}
		var d session.ModelAskedData
		if e.Type != session.ModelAsked {
			continue
		}
		if err := e.Decode(&d); err != nil {
			return m, 0, err
		}
		if d.Of() == st.StepID {
			return d.Model, seq, nil
		}
	}
	return m, 0, nil
}
