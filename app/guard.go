package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/lock"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/workspace"
)

// Held are the changes of protected paths that one call made and acode put back. They
// wait for a person.
type Held struct {
	Session *session.Session
	Op      session.StepID
	Changes []HeldChange
	// seqs are those of the events ChangesHeld.
	seqs []uint64
	// now is the present state of the paths, to which the shown differences belong.
	now []session.Guarded
}

// HeldChange is one change of Held.
type HeldChange struct {
	session.HeldChange
	// Lines show for a person how the present file would change, with secrets masked.
	Lines []string
}

// applies reports whether the change can be applied.
func (c HeldChange) applies() bool {
	switch c.Kind {
	case session.GuardOther, session.GuardUnchecked:
		return false
	case session.GuardFile:
		return c.Blob.Hash != ""
	}
	return true
}

// names lists the paths in a sentence.
func (h Held) names() string {
	var names []string
	for _, c := range h.Changes {
		names = append(names, c.Path+" ("+c.Change+")")
	}
	return session.Few(names, fewRows)
}

// holds returns the held changes of a session that wait for a person, by call.
func (s *Site) holds(ctx context.Context, sess *session.Session) (all []Held, err error) {
	var seqs []uint64
	for _, st := range sess.Steps {
		seqs = append(seqs, st.Held...)
	}
	slices.Sort(seqs)
	for _, seq := range seqs {
		var d session.ChangesHeldData
		if err := s.eventAt(ctx, sess.ID, seq, &d); err != nil {
			return nil, err
		}
		at := slices.IndexFunc(all, func(h Held) bool { return h.Op == d.StepID })
		if at < 0 {
			at, all = len(all), append(all, Held{Session: sess, Op: d.StepID})
		}
		h := &all[at]
		h.seqs = append(h.seqs, seq)
		for _, c := range d.Held {
			h.Changes = slices.DeleteFunc(h.Changes, func(o HeldChange) bool { return o.Path == c.Path })
			h.Changes = append(h.Changes, HeldChange{HeldChange: c})
		}
	}
	return all, nil
}

// heldNotes returns a line for each call whose changes wait for a person.
func (s *Site) heldNotes(ctx context.Context, sess *session.Session) (notes []string, err error) {
	all, err := s.holds(ctx, sess)
	wait := "they wait for a person"
	if sess.State.Terminal() {
		wait = "no one decided about them"
	}
	for _, h := range all {
		notes = append(notes, fmt.Sprintf("%s changed paths that other programs trust; acode put them back, and %s: %s", h.Op, wait, h.names()))
	}
	return notes, err
}

// Held returns the held changes that a verdict is about, with their differences to the
// present files. It returns nil if the verdict is about a question of a plan or of an
// agent, which goes first unless the verdict names a call.
func (s *Site) Held(ctx context.Context, v Verdict) (*Held, error) {
	id, err := s.waiting(ctx, v.Ref)
	if err != nil {
		return nil, err
	}
	sess, err := s.store.View(ctx, id)
	if err != nil {
		return nil, err
	}
	p, err := s.store.Plan(ctx, sess)
	if err != nil || v.Step == "" && asksQuestion(sess) {
		return nil, err
	}
	all, err := s.holds(ctx, sess)
	if err != nil {
		return nil, err
	}
	if v.Step != "" {
		all = slices.DeleteFunc(all, func(h Held) bool { return v.Step != h.Op.String() && v.Step != h.Op.Op })
	}
	switch {
	case len(all) == 1:
		return &all[0], s.showHeld(ctx, &all[0])
	case len(all) == 0 && (p.Agent == nil || sess.Steps[session.CallsStep()].Approval != nil):
		return nil, nil
	case len(all) == 0:
		return nil, &session.Error{Code: session.ErrUsage, Message: fmt.Sprintf("no held changes of session %s wait for a person; nothing was changed", sess.Short), Next: session.Do(session.MoveStatus, sess.Short)}
	}
	text := fmt.Sprintf("held changes of %d calls of session %s wait for a person; nothing was changed", len(all), sess.Short)
	for _, h := range all {
		text += fmt.Sprintf("\n  %s: %s", h.Op, h.names())
	}
	return nil, &session.Error{Code: session.ErrUsage, Message: text, Next: session.Words("name the call that you answer")}
}

// showHeld fills in the differences to the present files.
func (s *Site) showHeld(ctx context.Context, h *Held) error {
	root, err := workspace.Open(h.Session.Workspace, s.Now)
	if err != nil {
		return err
	}
	defer root.Close()
	h.now = root.GuardedAt(ctx, h.paths())
	for i, now := range h.now {
		c := &h.Changes[i]
		c.Lines = []string{c.Path + ": cannot be applied: " + looks(c.Guarded)}
		if c.applies() {
			c.Lines = s.heldLines(ctx, root, now, c.Guarded)
		}
	}
	return nil
}

func (h Held) paths() (paths []string) {
	for _, c := range h.Changes {
		paths = append(paths, c.Path)
	}
	return paths
}

// heldLines describes for a person how now would become made.
func (s *Site) heldLines(ctx context.Context, root *workspace.Root, now, made session.Guarded) (lines []string) {
	switch {
	case now.Same(made):
		return []string{made.Path + ": is already so"}
	case now.Hash != made.Hash:
		before, berr := open(now, root.GuardedContent)
		after, aerr := open(made, func(g session.Guarded) (io.ReadCloser, error) { return s.store.OpenBlob(ctx, g.Blob.Hash) })
		if diff := workspace.Diff(s.Redactor.Bytes(before), s.Redactor.Bytes(after), made.Path); berr == nil && aerr == nil && diff != "" {
			lines = strings.Split(strings.TrimRight(diff, "\n"), "\n")
		}
	}
	if now.Kind != made.Kind || now.Mode != made.Mode || now.Target != made.Target || len(lines) == 0 {
		lines = append([]string{fmt.Sprintf("%s: is %s, would be %s", made.Path, looks(now), looks(made))}, lines...)
	}
	return lines
}

// open reads the content of a file to show it. Anything else has no content.
func open(g session.Guarded, from func(session.Guarded) (io.ReadCloser, error)) ([]byte, error) {
	if g.Kind != session.GuardFile || g.Size > maxShown {
		return nil, nil
	}
	r, err := from(g)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// looks describes a state in words.
func looks(g session.Guarded) string {
	switch g.Kind {
	case session.GuardLink:
		return "a link to " + g.Target
	case session.GuardFile:
		return fmt.Sprintf("a file of %d bytes with mode %04o", g.Size, g.Mode)
	case session.GuardDirectory:
		return fmt.Sprintf("a directory with mode %04o", g.Mode)
	case session.GuardOther:
		return "no file, directory or link"
	case session.GuardUnchecked:
		return "it has more directories than are searched"
	}
	return g.Kind
}

// DecideHeld applies or drops held changes that Held returned. Applied files are durable
// when it returns. It returns ErrFileChanged, with nothing applied, if the files are no
// longer as they were shown, and ErrLocked while a call runs in the workspace.
func (s *Site) DecideHeld(ctx context.Context, h Held, v Verdict) error {
	locks, err := s.takeHeld(h.Session)
	if err != nil {
		return s.named(err)
	}
	w, err := s.store.Load(ctx, h.Session.ID)
	if err == nil {
		err = errors.Join(s.decideHeld(ctx, w, h, v), w.Close())
	}
	for _, l := range slices.Backward(locks) {
		err = errors.Join(err, l.Release())
	}
	return err
}

// takeHeld takes the locks of a session and its workspace. Agents wait for them.
func (s *Site) takeHeld(sess *session.Session) ([]release, error) {
	self, err := lock.Self(s.commandLine(), s.Now())
	if err != nil {
		return nil, err
	}
	self.Session, self.Turns = sess.ID, true
	held, err := acquire(s.lockFile(sess.ID), self)
	if err != nil {
		return nil, err
	}
	run, err := lock.AcquireRun(s.workspaceLocks(sess.Workspace), self, s.commandRuns)
	if err != nil {
		return nil, errors.Join(err, held.Release())
	}
	return []release{held, run}, nil
}

func (s *Site) decideHeld(ctx context.Context, w *local.Writer, h Held, v Verdict) error {
	sess := w.Session()
	if sess.State.Terminal() {
		return &session.Error{Code: session.ErrTerminal, Message: fmt.Sprintf("session %s is %s, so no one can decide about its held changes any more; nothing was changed", sess.Short, sess.State),
			Next: session.Words("if you want the changes that are shown above, make them yourself")}
	}
	decided := func(seq uint64) bool { return !slices.Contains(sess.Steps[h.Op.Of()].Held, seq) }
	if slices.ContainsFunc(h.seqs, decided) {
		return &session.Error{Code: session.ErrConflict, Message: fmt.Sprintf("the changes of %s were decided meanwhile; nothing was changed", h.Op), Next: session.Do(session.MoveStatus, sess.Short)}
	}
	d := session.HeldDecidedData{StepID: h.Op.Of(), Seqs: h.seqs, Answer: "dropped", By: v.By, Reason: v.Reason}
	if v.Grant {
		d.Answer = "applied"
		for _, op := range sess.Operations() {
			if op.Status == session.InProgress {
				return &session.Error{Code: session.ErrLocked, Retryable: true, Message: fmt.Sprintf("the call %s has no outcome yet, and then its changes are put back; nothing was changed", op.Op),
					Next: session.Then("settle it first", session.MoveResume, sess.Short)}
			}
		}
		if err := s.applyHeld(ctx, w, h); err != nil {
			return err
		}
	}
	_, err := w.Append(ctx, session.Draft{Type: session.HeldDecided, Actor: "user", Data: d})
	return err
}

// applyHeld makes the files as the command left them, as far as that can be applied. A
// kill before its event leaves the changes waiting, and they can be applied again.
func (s *Site) applyHeld(ctx context.Context, w *local.Writer, h Held) error {
	if !slices.ContainsFunc(h.Changes, HeldChange.applies) {
		return &session.Error{Code: session.ErrUsage, Message: fmt.Sprintf("none of the changes of %s can be applied; nothing was changed", h.Op.Op), Next: session.Words("drop them with a denial")}
	}
	root, err := workspace.Open(h.Session.Workspace, s.Now)
	if err != nil {
		return err
	}
	defer root.Close()
	var want []session.Guarded
	for i, now := range root.GuardedAt(ctx, h.paths()) {
		if !now.Same(h.now[i]) {
			return &session.Error{Code: session.ErrFileChanged, Place: now.Path, Message: "the file changed after its difference was shown; nothing was applied", Next: session.Do(session.MoveApprove, h.Session.Short)}
		}
		if c := h.Changes[i]; c.applies() && !now.Same(c.Guarded) {
			want = append(want, c.Guarded)
		}
	}
	slices.SortFunc(want, func(a, b session.Guarded) int { return strings.Compare(a.Path, b.Path) })
	return root.Place(ctx, want, func(g session.Guarded) (io.ReadCloser, error) { return w.Open(ctx, g.Blob.Hash) })
}
