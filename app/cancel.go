package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/workspace"
)

// Cancel ends a session for good. If no process executes the session, Cancel writes the
// end itself; else it asks the executing process. ref is as in Status; by is the person
// who asks, and reason is their reason.
func (s *Site) Cancel(ctx context.Context, ref, by, reason string) (Decision, error) {
	id, err := s.subject(ctx, ref)
	if err != nil {
		return Decision{}, err
	}
	r := session.Request{Session: id, Kind: session.RequestCancel, Reason: reason, By: by + " at " + s.Now().UTC().Format("2006-01-02 15:04:05Z")}
	out, err := s.decide(ctx, r, func(w *local.Writer, asked int64, out *Decision) error {
		r.ID = asked
		return s.cancelNow(ctx, w, r, out)
	})
	return out, errors.Join(err, s.forgetOver(ctx, id))
}

// EndCommands ends all commands of a session, or only those of step if step is not empty.
// The state of the session does not change. ref is as in Status. It returns ErrUsage if
// step has no running command.
func (s *Site) EndCommands(ctx context.Context, ref, step string) (Decision, error) {
	id, err := s.subject(ctx, ref)
	if err != nil {
		return Decision{}, err
	}
	sess, err := s.store.View(ctx, id)
	if err != nil {
		return Decision{}, err
	}
	if held, err := s.hold(id, s.commandLine()); err == nil {
		if err := errors.Join(s.fence(ctx, sess), held.Release()); err != nil {
			return Decision{}, err
		}
	} // else the process that executes the session continues with the next step
	got, err := s.endCommands(ctx, id, step)
	if step != "" && err == nil && got.ended+len(got.beyond) == 0 {
		return Decision{}, &session.Error{Code: session.ErrUsage, Message: fmt.Sprintf("no command of %s runs in session %s; nothing was changed", step, sess.Short),
			Next: session.Do(session.MoveStatus, sess.Short)}
	}
	if err := errors.Join(append(got.unread, err)...); err != nil {
		return Decision{}, err
	}
	if len(got.beyond) > 0 {
		return Decision{}, &session.Error{Code: session.ErrCommand, Message: notEnded(got.beyond), Next: session.Words("end it as that user, or wait for it")}
	}
	return Decision{Session: sess, Recorded: true, Ended: got.ended}, nil
}

// fence stops the supervisor from starting commands for a process that no longer executes
// the session. A slow or stopped supervisor may hold a request without a claim. When
// fence returns, every command that has begun has a claim. The caller holds the session's
// lock.
func (s *Site) fence(ctx context.Context, of *session.Session) error {
	dir := s.commandDir(of.ID)
	if _, err := os.Stat(dir); err != nil {
		return nil // no command was ever requested
	}
	err := command.NewRunner(command.Config{Dir: dir, Epoch: of.Epoch + 1}).Announce(ctx)
	if errors.Is(err, session.ErrFenced) || errors.Is(err, session.ErrCorrupt) { // ErrFenced keeps later requests out too; readers of the records report damage
		return nil
	}
	return err
}

// notEnded is the message for processes that run on after their command was cancelled.
func notEnded(beyond []string) string {
	return "a process of another user could not be ended: " + strings.Join(beyond, ", ")
}

// endings is the result of ending the commands of a session.
type endings struct {
	ended int
	// processes that run on because acode may not signal them
	beyond []string
	// one error for each command whose record cannot be read
	unread []error
}

// endCommands ends every command of the session that still runs, or only those of step if
// step is not empty.
func (s *Site) endCommands(ctx context.Context, id session.ID, step string) (got endings, err error) {
	records, unread := command.Records(s.commandDir(id))
	got.unread = unread
	asked := map[string]bool{}
	for _, r := range records {
		if k, err := session.ParseKey(r.Key); step != "" && (err != nil || step != k.Step.String() && step != k.Step.Step) {
			continue
		}
		switch r.State {
		case session.CommandRunning, session.CommandUnattended, session.CommandLingering:
			if err := command.Cancel(ctx, s.commandDir(id), r.Key); err != nil {
				return got, err
			}
			s.Log.Info("command ended on request", "event", "command_cancelled", "key", r.Key)
			asked[r.Key] = true
		}
	}
	if len(asked) == 0 {
		return got, nil
	}
	records, _ = command.Records(s.commandDir(id)) // got.unread has the errors already
	for _, r := range records {
		switch {
		case !asked[r.Key]:
		case !r.Cancelled || len(r.Left) == 0:
			got.ended++
		default:
			for _, l := range r.Left {
				got.beyond = append(got.beyond, s.Redactor.String(l))
			}
		}
	}
	return got, nil
}

// passOver turns records that are only damaged into warnings, because a session may be
// cancelled although the outcome of a command is lost. It returns an error for each
// command that runs or may run.
func passOver(unread []error) (warnings []string, err error) {
	for _, one := range unread {
		var e *session.Error
		if errors.As(one, &e) && e.Code == session.ErrCorrupt && !errors.Is(one, command.ErrHeld) {
			warnings = append(warnings, "damaged and ignored: "+e.Place)
		} else {
			err = errors.Join(err, one)
		}
	}
	return warnings, err
}

// cancelNow ends the commands of the session that w writes, and cancels the session in
// answer to r. No other process may execute the session. out gets the warnings and the
// number of ended commands.
func (s *Site) cancelNow(ctx context.Context, w *local.Writer, r session.Request, out *Decision) error {
	sess := w.Session()
	if sess.State.Terminal() {
		return &session.Error{Code: session.ErrTerminal, Message: fmt.Sprintf("the session is %s already; nothing was changed", sess.State)}
	}
	if err := s.fence(ctx, sess); err != nil {
		return err
	}
	got, err := s.endCommands(ctx, r.Session, "")
	if err == nil {
		out.Warnings, err = passOver(got.unread)
	}
	if err != nil {
		return err
	}
	out.Ended = got.ended
	if len(got.beyond) > 0 {
		out.Warnings = append(out.Warnings, notEnded(got.beyond))
	}
	s.sweepAfter(sess.State)
	out.Warnings = append(out.Warnings, s.halfway(ctx, sess)...)
	return s.record(ctx, w, r)
}

// record writes the outcomes of the steps in progress and the cancelled state.
func (s *Site) record(ctx context.Context, w *local.Writer, r session.Request) error {
	p, err := w.Plan(ctx)
	if err != nil {
		return err
	}
	s.Learn(p)
	sess := w.Session()
	runner := command.NewRunner(command.Config{Dir: s.commandDir(sess.ID), Session: sess.ID, Epoch: sess.Epoch + 1, Now: s.Now})
	look := &resume.Resumer{Journal: w, Plan: p, Commands: recordsOnly{runner}}
	seen, err := look.LookAtCommands(ctx)
	if err != nil {
		return err
	}
	ops, err := look.Operations(ctx, w.Work)
	if err != nil {
		return err
	}
	next, err := resume.Plan(p, sess, seen, resume.Choices{Redact: s.Redactor.String})
	if err != nil {
		return err
	}
	e := &engine.Engine{
		Journal: w, Blobs: w, Plan: p, Commands: runner,
		Notify: func(session.Notice) {}, Redact: s.Redactor.String, Masked: s.Redactor.Reader, Captured: s.captured, Log: s.Log.With("session_id", sess.Short),
	}
	if root, err := workspace.Open(sess.Workspace, s.Now); err == nil { // a workspace that is gone has no files to look at
		defer root.Close()
		root.Redact = s.Redactor
		e.Files = root
	}
	return e.Cancel(ctx, next, r, ops...)
}

// forgetOver removes the raw outputs of a session that is over. No receipt will mask and
// keep them any more.
func (s *Site) forgetOver(ctx context.Context, id session.ID) error {
	sess, err := s.store.View(ctx, id)
	if err != nil || !sess.State.Terminal() {
		return nil // a session that cannot be read keeps its outputs
	}
	return command.ForgetAll(s.commandDir(id))
}

// halfway warns of the files that a step in progress has already changed. They stay as
// they are.
func (s *Site) halfway(ctx context.Context, sess *session.Session) (warnings []string) {
	for _, all := range []map[session.StepID]*session.StepState{sess.Steps, sess.Ops} {
		warnings = append(warnings, s.halfDone(ctx, sess, all)...)
	}
	return warnings
}

func (s *Site) halfDone(ctx context.Context, sess *session.Session, all map[session.StepID]*session.StepState) (warnings []string) {
	for id, st := range all {
		if st.Status != session.InProgress {
			continue
		}
		switch changed, not, err := s.reached(ctx, sess, st.StartSeq); {
		case err != nil:
			warnings = append(warnings, fmt.Sprintf("%s was in progress, and its changes cannot be read: %v", id, err))
		case len(changed) > 0 && len(not) > 0:
			warnings = append(warnings, fmt.Sprintf("%s was half done, and stays so: it changed %s, and not %s", id, session.Few(changed, fewRows), session.Few(not, fewRows)))
		case len(changed) > 0:
			warnings = append(warnings, fmt.Sprintf("%s was done but not recorded, and stays so: it changed %s", id, session.Few(changed, fewRows)))
		}
	}
	return warnings
}

// reached returns the files that the attempt in event seq has changed, and those that it
// has not.
func (s *Site) reached(ctx context.Context, sess *session.Session, seq uint64) (changed, not []string, err error) {
	var d session.StepStartedData
	if err := s.eventAt(ctx, sess.ID, seq, &d); err != nil || len(d.Files) == 0 {
		return nil, nil, err
	}
	root, err := workspace.Open(sess.Workspace, s.Now)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	return root.Reached(ctx, d.Key, d.Files)
}

// recordsOnly does not ask the supervisor about a command without a record. A frozen
// supervisor would delay the cancel, and it starts nothing for a session that is over.
type recordsOnly struct{ *command.Runner }

// Trace is Look.
func (r recordsOnly) Trace(ctx context.Context, key string) (session.CommandRecord, error) {
	return r.Look(ctx, key)
}
