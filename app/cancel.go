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

// Cancel ends a session for good: itself when nobody executes it, else by asking its
// process. ref is as in Status; by is who wants that, and reason why.
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

// EndCommands ends the commands of a session, or only that of step where it is not empty,
// and leaves the session as it is. ref is as in Status. It returns ErrUsage where no
// command of step runs.
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
	} // else whoever executes it goes on, and starts what comes next
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

// fence keeps what a process asked for that no longer executes a session from starting:
// the supervisor, slow or stopped, may have the request and no claim yet. What has begun
// is claimed when it returns. The caller has the lock of it, which nobody can have
// acquired since.
func (s *Site) fence(ctx context.Context, of *session.Session) error {
	dir := s.commandDir(of.ID)
	if _, err := os.Stat(dir); err != nil {
		return nil // nobody was asked for a command
	}
	err := command.NewRunner(command.Config{Dir: dir, Epoch: of.Epoch + 1}).Announce(ctx)
	if errors.Is(err, session.ErrFenced) || errors.Is(err, session.ErrCorrupt) { // later ones are kept out too; who reads the records names damage
		return nil
	}
	return err
}

// notEnded says of commands that their time is over and they are not.
func notEnded(beyond []string) string {
	return "what runs with another user's rights could not be ended: " + strings.Join(beyond, ", ")
}

// endings is what came of ending the commands of a session.
type endings struct {
	ended int
	// runs on, because it may not be signalled
	beyond []string
	// of these commands nobody can tell
	unread []error
}

// endCommands ends every command of the session that still runs, or only that of step
// where it is not empty.
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
	records, _ = command.Records(s.commandDir(id)) // what could not be read is known
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

// passOver makes warnings of records that are only damaged: a session can be given up
// although nobody will know what one of its commands did. What runs, or may run, is still
// an error.
func passOver(unread []error) (warnings []string, err error) {
	for _, one := range unread {
		var e *session.Error
		if errors.As(one, &e) && e.Code == session.ErrCorrupt && !errors.Is(one, command.ErrHeld) {
			warnings = append(warnings, "damaged, and passed over: "+e.Place)
		} else {
			err = errors.Join(err, one)
		}
	}
	return warnings, err
}

// cancelNow ends what runs of the session that w writes and cancels it, in answer to r;
// no other process executes it. out gets what else that did.
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

// record writes what became of the steps in progress and that the session is cancelled.
func (s *Site) record(ctx context.Context, w *local.Writer, r session.Request) error {
	p, err := w.Plan(ctx)
	if err != nil {
		return err
	}
	s.Learn(p)
	sess := w.Session()
	runner := command.NewRunner(command.Config{Dir: s.commandDir(sess.ID), Session: sess.ID, Epoch: sess.Epoch + 1, Now: s.Now})
	seen, err := (&resume.Resumer{Journal: w, Plan: p, Commands: recordsOnly{runner}}).LookAtCommands(ctx)
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
	if root, err := workspace.Open(sess.Workspace, s.Now); err == nil { // else it is gone
		defer root.Close()
		root.Redact = s.Redactor.String
		e.Files = root
	}
	return e.Cancel(ctx, next, r)
}

// forgetOver removes the raw outputs of a session that is over, of which no receipt will
// keep what secrets leave.
func (s *Site) forgetOver(ctx context.Context, id session.ID) error {
	sess, err := s.store.View(ctx, id)
	if err != nil || !sess.State.Terminal() {
		return nil // whoever could not be looked at keeps them
	}
	return command.ForgetAll(s.commandDir(id))
}

// halfway says which files a step has changed that was in progress: nobody puts them
// back.
func (s *Site) halfway(ctx context.Context, sess *session.Session) (warnings []string) {
	for id, st := range sess.Steps {
		if st.Status != session.InProgress {
			continue
		}
		switch changed, not, err := s.reached(ctx, sess, st.StartSeq); {
		case err != nil:
			warnings = append(warnings, fmt.Sprintf("%s was in progress, and what it changed cannot be seen: %v", id, err))
		case len(changed) > 0 && len(not) > 0:
			warnings = append(warnings, fmt.Sprintf("%s was half done, and stays so: it changed %s, and not %s", id, session.Few(changed, fewRows), session.Few(not, fewRows)))
		case len(changed) > 0:
			warnings = append(warnings, fmt.Sprintf("%s was done but not recorded, and stays so: it changed %s", id, session.Few(changed, fewRows)))
		}
	}
	return warnings
}

// reached gives the files that the attempt that began with event seq has changed, and
// those that it has not.
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

// recordsOnly asks no supervisor about a command without a record: one that is frozen
// would keep a cancel waiting, and starts nothing of a session that is over.
type recordsOnly struct{ *command.Runner }

// Trace is Look.
func (r recordsOnly) Trace(ctx context.Context, key string) (session.CommandRecord, error) {
	return r.Look(ctx, key)
}
