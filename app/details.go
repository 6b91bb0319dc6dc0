package app

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/acode-dev/acode/session"
)

// Details is a session with every step, or with the calls of its agent.
type Details struct {
	Status
	// Titles are the titles of the tasks in plan order.
	Titles []string
	Steps  []StepDetails
}

// StepDetails is a step in Details.
type StepDetails struct {
	// Item.Took is how long the latest attempt took, 0 if it is not over.
	Item session.Item
	// BeganUS is the time of the intent of a call, 0 for a step.
	BeganUS int64
	// Code is the code of a failure.
	Code session.Code
	// Message explains a failure or an unknown outcome.
	Message string
	// Output is the last lines that the step wrote.
	Output []string
	// Decided lists who decided about an unknown outcome of this attempt and of the one
	// before.
	Decided []string
}

// Details returns a session with every step, and the last output of failed steps. With
// more it returns longer output, also of steps that are done. ref is as in Status.
func (s *Site) Details(ctx context.Context, ref string, more bool) (Details, error) {
	var v Details
	id, err := s.subject(ctx, ref)
	if err != nil {
		return v, err
	}
	row, sess, p, next, err := s.freshOutlook(ctx, id)
	if err != nil {
		return v, err
	}
	if v.Status, err = s.status(ctx, row, sess, p, next); err != nil {
		return v, err
	}
	for _, t := range p.Tasks {
		v.Titles = append(v.Titles, s.Redactor.String(cmp.Or(t.Title, t.ID)))
	}
	for _, it := range next.Items {
		step := StepDetails{Item: it}
		if st := sess.Steps[it.ID]; st != nil {
			step.Code, step.Message, step.Item.Attempt = st.Code, st.Message, st.Attempt // Item has the number of the next attempt
			if st.EndedUS > 0 {
				step.Item.Took = time.Duration(st.EndedUS-st.StartedUS) * time.Microsecond
			}
			if st.Status == session.StepFailed || st.Status == session.StepUncertain || st.Status == session.StepDone && more {
				step.Output = s.wrote(ctx, id, st.LastSeq, more)
			}
			if it.Kind == session.KindRun {
				if step.Decided, err = s.decided(ctx, id, st, more); err != nil {
					return v, err
				}
			}
		}
		v.Steps = append(v.Steps, step)
	}
	if p.Agent != nil {
		v.Steps, err = s.calls(ctx, id, more)
	}
	return v, err
}

// fewCalls is how many calls of an agent a short answer has.
const fewCalls = 20

// calls returns the newest calls of an agent's session, in the order of their intents.
// With more it returns all of them, with the output of each.
func (s *Site) calls(ctx context.Context, id session.ID, more bool) ([]StepDetails, error) {
	var calls []StepDetails
	ended := map[session.StepID]session.Event{}
	for e, err := range s.events(ctx, id, 0) {
		if err != nil {
			return nil, err
		}
		var began session.OperationStartedData
		switch e.Type {
		case session.OperationStarted:
			if err := e.Decode(&began); err != nil {
				return nil, err
			}
			calls = append(calls, s.callBegan(began, e.TimeUS))
			if first := len(calls) - fewCalls; first > 0 && !more {
				delete(ended, calls[first-1].Item.ID)
			}
		case session.OperationCompleted, session.OperationFailed, session.OperationUnknown:
			var of struct{ session.StepID }
			if err := e.Decode(&of); err != nil {
				return nil, err
			}
			ended[of.StepID] = e
		}
	}
	if first := len(calls) - fewCalls; first > 0 && !more {
		calls = calls[first:]
	}
	for i := range calls {
		if e, ok := ended[calls[i].Item.ID]; ok {
			if err := s.callEnded(ctx, &calls[i], e, more); err != nil {
				return nil, err
			}
		}
	}
	return calls, nil
}

// callBegan describes a call that runs.
func (s *Site) callBegan(d session.OperationStartedData, atUS int64) StepDetails {
	it := session.Item{ID: d.StepID, Task: 1, Kind: d.Kind, Status: session.InProgress, Attempt: d.Attempt}
	if d.Call != nil {
		it.Title, it.Label = d.Call.Tool, s.Redactor.String(d.Call.Label)
	}
	return StepDetails{Item: it, BeganUS: atUS}
}

func (s *Site) callEnded(ctx context.Context, c *StepDetails, e session.Event, more bool) error {
	var d struct {
		Code    session.Code `json:"code"`
		Message string       `json:"message"`
		Why     string       `json:"why"`
	}
	if err := e.Decode(&d); err != nil {
		return err
	}
	c.Code, c.Message = d.Code, s.Redactor.String(cmp.Or(d.Message, d.Why))
	c.Item.Status = callStatus(e.Type)
	c.Item.Took = time.Duration(e.TimeUS-c.BeganUS) * time.Microsecond
	if more || c.Item.Status != session.StepDone {
		c.Output = s.wrote(ctx, e.Session, e.Seq, more)
	}
	return nil
}

// callStatus returns the status of a call after an event of it.
func callStatus(t session.EventType) session.Status {
	switch t {
	case session.OperationCompleted:
		return session.StepDone
	case session.OperationFailed:
		return session.StepFailed
	case session.OperationUnknown:
		return session.StepUncertain
	}
	return session.InProgress
}

// decided returns who decided about an unknown outcome. It looks at the receipt of this
// attempt, and at the unknown outcome of the attempt before with its output.
func (s *Site) decided(ctx context.Context, id session.ID, st *session.StepState, more bool) (lines []string, err error) {
	var began session.StepStartedData
	if err := s.eventAt(ctx, id, st.StartSeq, &began); err != nil {
		return nil, err
	}
	if began.After > 0 {
		var doubt session.StepUnknownData
		if err := s.eventAt(ctx, id, began.After, &doubt); err != nil {
			return nil, err
		}
		lines = append(lines, fmt.Sprintf("attempt %d had an unknown outcome (%s); the %s decided to run the step again", doubt.Attempt, doubt.Why, began.By))
		for _, l := range s.wrote(ctx, id, began.After, more) {
			lines = append(lines, "| "+l)
		}
	}
	var receipt struct {
		By string `json:"by"`
	}
	if st.Status == session.StepDone || st.Status == session.StepFailed {
		err = s.eventAt(ctx, id, st.LastSeq, &receipt)
	}
	then := map[session.Status]string{session.StepDone: "it happened", session.StepFailed: "it failed"}[st.Status]
	switch receipt.By {
	case "check", "policy", "person":
		lines = append(lines, fmt.Sprintf("the %s decided about its unknown outcome: %s", receipt.By, then))
	}
	return lines, err
}

// eventAt decodes event seq of a session, of any type, into data. It does nothing if seq
// is 0.
func (s *Site) eventAt(ctx context.Context, id session.ID, seq uint64, data any) error {
	if seq == 0 {
		return nil
	}
	events, err := s.store.Events(ctx, id, seq-1, 1)
	if err != nil || len(events) == 0 {
		return err
	}
	return events[0].Decode(data)
}

// wrote returns the last lines of output that the receipt in event seq keeps. For a
// command this is standard error, or standard output if standard error is empty. With
// more it returns both, and more lines of each.
func (s *Site) wrote(ctx context.Context, id session.ID, seq uint64, more bool) []string {
	outputs, err := s.outputs(ctx, id, seq, more)
	if err != nil {
		return []string{"its output cannot be read: " + err.Error()}
	}
	return s.ends(ctx, outputs, more)
}

// ends returns the last lines of the first output that is not empty. With more it returns
// more lines, of every output.
func (s *Site) ends(ctx context.Context, outputs []session.Output, more bool) []string {
	count, limit := 20, 4<<10
	if more {
		count, limit = 200, 0
	}
	var lines []string
	for _, o := range outputs {
		text, err := s.content(ctx, o)
		if err != nil {
			return []string{"its output cannot be read: " + err.Error()}
		}
		lines = append(lines, session.LastLines(text, count, limit)...)
		if len(lines) > 0 && !more {
			break
		}
	}
	return lines
}

// outputs returns the outputs that a receipt keeps, in the order in which they are shown.
func (s *Site) outputs(ctx context.Context, id session.ID, seq uint64, more bool) ([]session.Output, error) {
	var receipt struct {
		Command *session.CommandResult `json:"command"`
		Matches *session.Output        `json:"matches"`
	}
	err := s.eventAt(ctx, id, seq, &receipt)
	switch c := receipt.Command; {
	case c != nil && more:
		return []session.Output{c.Stdout, c.Stderr}, err
	case c != nil:
		return []session.Output{c.Stderr, c.Stdout}, err
	case receipt.Matches != nil:
		return []session.Output{*receipt.Matches}, err
	}
	return nil, err
}

// content returns the stored text of an output.
func (s *Site) content(ctx context.Context, o session.Output) (string, error) {
	if o.Blob.Hash == "" {
		return o.Text, nil
	}
	r, err := s.store.OpenBlob(ctx, o.Blob.Hash)
	if err != nil {
		return "", err
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	return string(text), err
}
