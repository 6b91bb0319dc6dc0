package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/acode-dev/acode/lock"
	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/workspace"
)

// take acquires the locks of the session and the workspace. Site.Close releases them.
func (w *work) take(id session.ID) ([]release, error) {
	self := w.self
	if self.PID == 0 {
		var err error
		if self, err = lock.Self(w.commandLine(), w.Now()); err != nil {
			return nil, err
		}
	}
	self.Session = id
	sessionLock, err := acquire(w.lockFile(id), self)
	if err != nil {
		return nil, err
	}
	run, err := w.takeWorkspace(self)
	if err != nil {
		return nil, errors.Join(w.named(err), sessionLock.Release())
	}
	directory, err := lock.AcquireDirectory(w.Workspace, w.Settings.Config.Workspace.Share)
	if err != nil {
		return nil, errors.Join(err, run.Release(), sessionLock.Release())
	}
	return []release{sessionLock, run, directory}, nil
}

// named replaces the lock file in err with the short id of the session that holds the
// lock.
func (s *Site) named(err error) error {
	var e *session.Error
	var held *lock.HeldError
	if !errors.As(err, &e) || !errors.As(err, &held) || held.Holder.Session == "" {
		return err
	}
	h := held.Holder
	other, verr := s.store.View(context.Background(), h.Session)
	if verr != nil { // the session is not stored yet
		return err
	}
	out := &session.Error{Code: e.Code, Retryable: e.Retryable, Next: e.Next}
	out.Next.Session, out.Next.Text = other.Short, strings.ReplaceAll(e.Next.Text, string(h.Session), other.Short)
	by := fmt.Sprintf(": %s since %s: %s; nothing", h.Process(), h.Since.UTC().Format(time.RFC3339), h.Command)
	if key, kerr := session.ParseKey(h.Key); kerr == nil {
		by = ": " + key.Step.String() + "; nothing"
	}
	out.Message = strings.NewReplacer("another session", "session "+other.Short, string(h.Session), other.Short, " ("+h.Key+")", "", "; nothing", by).Replace(e.Message)
	return out
}

// takeWorkspace takes the workspace's lock, which belongs to its path. A shared workspace
// has a shared lock.
func (w *work) takeWorkspace(self lock.Holder) (*lock.Lock, error) {
	dir := w.workspaceLocks(w.Workspace)
	if w.Settings.Config.Workspace.Share {
		return lock.AcquireShared(dir, self)
	}
	return lock.AcquireRun(dir, self, w.commandRuns)
}

// commandRuns reports whether the command of a holder still runs. A command with a
// damaged record does not count: its own session handles that.
func (s *Site) commandRuns(h lock.Holder) (bool, error) {
	rec, err := s.records(h.Session).Look(context.Background(), h.Key)
	if errors.Is(err, session.ErrCorrupt) {
		return false, nil
	}
	return rec.State == session.CommandRunning || rec.State == session.CommandUnattended, err
}

// takeWithin takes the locks. It waits for their holders until ctx ends or wait is over.
func (w *work) takeWithin(ctx context.Context, id session.ID, wait time.Duration) ([]release, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for said := false; ; {
		taken, err := w.take(id)
		if !errors.Is(err, session.ErrLocked) || wait == 0 {
			return taken, err
		}
		if !said {
			said = true
			w.door.Waits(wait, w.lockedOut(ctx, id, err))
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-tick.C:
		}
	}
}

// lockedOut returns an error that names the process which executes the session, if err is
// ErrLocked.
func (s *Site) lockedOut(ctx context.Context, id session.ID, err error) error {
	if !errors.Is(err, session.ErrLocked) {
		return err
	}
	h, held, rerr := lock.Read(s.lockFile(id))
	sess, verr := s.store.View(ctx, id)
	if rerr != nil || verr != nil {
		return err
	}
	again := resume.Again(sess, s.Workspace)
	if again.Text, again.Do = "wait for it with", session.MoveWait; !held { // another holds the workspace, or the holder has just ended
		return &session.Error{Code: session.ErrLocked, Message: "session " + sess.Short + " was not resumed", Cause: err, Retryable: true, Next: again}
	}
	if s.pausing(ctx, sess) {
		return &session.Error{Code: session.ErrLocked, Retryable: true, Next: again,
			Message: fmt.Sprintf("Session is locked by another process: %s was paused, and %s, which executed it, ends in about three seconds", sess.Short, h.Process())}
	}
	return &session.Error{Code: session.ErrLocked, Retryable: true, Next: again,
		Message: fmt.Sprintf("Session is locked by another process: %s is executed by %s since %s: %s", sess.Short, h.Process(), h.Since.UTC().Format(time.RFC3339), h.Command)}
}

// pausing reports whether a pause is the session's last event. The executing process may
// then still wait for a second Ctrl-C.
func (s *Site) pausing(ctx context.Context, sess *session.Session) bool {
	last, err := s.store.Events(ctx, sess.ID, sess.LastSeq-1, 1)
	return err == nil && sess.State == session.Paused && len(last) == 1 && last[0].Type == session.StateChanged
}

// hold takes only the session's lock, for a change that executes nothing. doing describes
// this process to others. ErrLocked names the holder.
func (s *Site) hold(id session.ID, doing string) (*lock.Lock, error) {
	self, err := lock.Self(doing, s.Now())
	if err != nil {
		return nil, err
	}
	self.Session = id
	return acquire(s.lockFile(id), self)
}

// acquire takes the lock of a file, and makes its directory if necessary.
func acquire(path string, h lock.Holder) (*lock.Lock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, &session.Error{Code: session.DiskCode(err, session.ErrStoreIO), Message: "the directory of locks cannot be created; nothing was changed", Place: path, Cause: err}
	}
	return lock.Acquire(path, h)
}

// Locks names the holders that keep a session from being executed.
type Locks struct {
	Session *session.Session
	// Holder is nil if no process executes the session.
	Holder *Holder
	Notes  []string
	// Beside is the move that ends another session's command in the workspace; zero if
	// there is none.
	Beside session.Hint
}

// Locks returns the holders of a session's locks. ref is as in Status.
func (s *Site) Locks(ctx context.Context, ref string) (Locks, error) {
	id, err := s.subject(ctx, ref)
	if err != nil {
		return Locks{}, err
	}
	sess, err := s.store.View(ctx, id)
	if err != nil {
		return Locks{}, err
	}
	h, held, err := lock.Read(s.lockFile(id))
	if err != nil {
		return Locks{}, err
	}
	others, beside, err := s.othersHere(ctx, sess)
	if err != nil {
		return Locks{}, err
	}
	out := Locks{Session: sess, Notes: append(s.commandNotes(id), others...), Beside: beside}
	if held {
		out.Holder, out.Notes = &h, append(holderNotes(h), out.Notes...)
	}
	return out, nil
}

// othersHere names the other sessions that keep sess from being executed in its
// workspace.
func (s *Site) othersHere(ctx context.Context, sess *session.Session) (notes []string, beside session.Hint, err error) {
	executing, supervisor, err := lock.Holders(s.workspaceLocks(sess.Workspace))
	if err != nil {
		return nil, beside, err
	}
	short := func(h lock.Holder) string {
		other, err := s.store.View(ctx, h.Session)
		if err != nil {
			return string(h.Session) // the session is not stored yet
		}
		return other.Short
	}
	for _, h := range executing {
		if h.Session != sess.ID {
			notes = append(notes, fmt.Sprintf("session %s executes in this workspace: %s since %s: %s", short(h), h.Process(), h.Since.UTC().Format(time.RFC3339), h.Command))
		}
	}
	if supervisor.PID != 0 && supervisor.Session != sess.ID && len(notes) == 0 {
		beside = session.Then("a command of session "+short(supervisor)+" still runs in this workspace; to end it", session.MoveCancelCommand, short(supervisor))
	}
	return notes, beside, nil
}

// tidy removes the remains of an acode that was killed here, before session id continues.
// These are incomplete contents, and the raw outputs of another session that is over.
// Errors are only logged. tidy reports whether the locks show a killed process.
func (w *work) tidy(ctx context.Context, id session.ID) (killed bool) {
	var errs []error
	for _, taken := range w.locks {
		l, ok := taken.(*lock.Lock)
		if !ok || l.Killed().PID == 0 {
			continue
		}
		killed = true
		if l.Killed().Session != id {
			errs = append(errs, w.forgetOver(ctx, l.Killed().Session))
		}
	}
	if killed {
		errs = append(errs, w.store.Sweep())
	}
	w.logLeftovers(errors.Join(errs...))
	return killed
}

// sweepAfter removes files that a killed process left, if the session's state is under
// way although no process executes it. A power cut may have removed the evidence from the
// locks.
func (s *Site) sweepAfter(state session.State) {
	if underWay(state) {
		s.logLeftovers(s.store.Sweep())
	}
}

// logLeftovers logs an error of removing a killed process's files; nil is none.
func (s *Site) logLeftovers(err error) {
	if err != nil {
		s.Log.Warn("cannot remove the files of a killed process", "event", "leftovers_kept", "error", err.Error())
	}
}

// sweepWorkspace removes temporary files of earlier steps. A power cut can bring them
// back.
func (w *work) sweepWorkspace(root *workspace.Root) {
	w.logLeftovers(root.Sweep(w.written(), w.keysOver))
}

// written returns the directories in which the session wrote files.
func (w *work) written() []string {
	all := map[string]bool{}
	for name, f := range w.writer.Session().Files {
		if f.Wrote {
			all[path.Dir(name)] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// keysOver returns the keys of all attempts except those in progress. The temporary files
// of the latter show how far they came.
func (w *work) keysOver() (keys []string) {
	s := w.writer.Session()
	for id, st := range s.Steps {
		last := st.Attempt
		if st.Status == session.InProgress {
			last--
		}
		for n := range last {
			keys = append(keys, session.Key{Session: s.ID, Step: id, Operation: session.OpMain, Attempt: n + 1}.String())
		}
	}
	return keys
}
