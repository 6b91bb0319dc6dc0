package engine

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/acode-dev/acode/session"
)

const (
	// maxGuarded and maxGuardedAll limit the content that is kept of a protected file and
	// of all protected files. A change of a file that was not kept cannot be put back.
	maxGuarded    = 1 << 20
	maxGuardedAll = 16 << 20
	// putBackTries is how often changes are put back if something makes them again.
	putBackTries = 3
)

// guard holds the state of the protected paths while commands of an agent run. A command
// that starts beside others has the state from before the first of them. Otherwise a
// change of one command would be the state to which that of another is put back.
type guard struct {
	// held during a search and while changes are put back
	mu sync.Mutex
	// the commands that run
	running map[session.StepID]bool
	// names the blob with the state; empty if no command runs
	state string
	// keys of ended commands whose processes still ran; then state stays
	left []string
	// contents that are stored already, by their hashes
	kept map[string]session.BlobRef
	// what the last blob holds
	last     []session.Guarded
	lastText string
	lastBlob string
}

func newGuard() *guard {
	return &guard{running: map[session.StepID]bool{}, kept: map[string]session.BlobRef{}}
}

// leave notes that a command has ended.
func (g *guard) leave(id session.StepID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if delete(g.running, id); len(g.running) == 0 && len(g.left) == 0 {
		g.state = ""
	}
}

// lingers notes that processes of an ended command still run. What they change until they
// end is put back after the next command.
func (g *guard) lingers(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left = append(g.left, key)
}

// forget drops what may have been lost with a commit that failed.
func (g *guard) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.kept)
	g.last, g.lastText, g.lastBlob = nil, "", ""
}

// expect notes the calls that were in progress before this process took the session.
func (b *branch) expect(ctx context.Context, open []session.Item) error {
	for i := range open {
		if it := &open[i]; it.Kind == session.KindRun {
			d, err := b.intent(ctx, it)
			if err != nil {
				return err
			}
			if b.guard.running[it.ID] = true; b.guard.state == "" {
				b.guard.state = d.Guard
			}
		}
	}
	return nil
}

// guarding returns the name of the state of the protected paths before the command of a
// call. It is empty for other steps.
func (b *branch) guarding(ctx context.Context, it *session.Item) (state string, err error) {
	if it.Call == nil {
		return "", nil
	}
	g := b.guard
	g.mu.Lock()
	defer g.mu.Unlock()
	alive := func(key string) bool {
		left, err := b.Commands.Left(ctx, key)
		return err != nil || len(left) > 0
	}
	if !slices.ContainsFunc(g.left, alive) {
		g.left = nil // the state is of use once more, for the command that starts now
	}
	if g.state == "" && !b.inProgress(it) {
		if g.state, err = b.guarded(ctx); err != nil {
			return "", err
		}
	}
	g.running[it.ID] = true
	return g.state, nil
}

// guarded stores the present state of the protected paths with their contents.
func (b *branch) guarded(ctx context.Context) (state string, err error) {
	var all []session.Guarded
	for range putBackTries {
		if all, err = b.Files.Guarded(ctx); err != nil {
			return "", err
		}
		if err = b.keepGuarded(ctx, all); !errors.Is(err, session.ErrFileChanged) {
			break
		}
	}
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(all)
	if err != nil {
		return "", &session.Error{Code: session.ErrInternal, Message: "the state of the protected paths cannot be encoded", Cause: err}
	}
	g := b.guard
	if g.lastBlob != "" && g.lastText == string(text) {
		return g.lastBlob, nil
	}
	ref, err := b.Blobs.Stage(ctx, strings.NewReader(string(text)), int64(len(text)))
	if err != nil {
		return "", err
	}
	g.last, g.lastText, g.lastBlob = all, string(text), ref.Hash
	return ref.Hash, nil
}

// keepGuarded stores the contents of protected files, within limits.
func (b *branch) keepGuarded(ctx context.Context, all []session.Guarded) error {
	total := int64(0)
	for i := range all {
		f := &all[i]
		if f.Kind != session.GuardFile || f.Hash == "" || f.Size > maxGuarded || total+f.Size > maxGuardedAll {
			continue
		}
		total += f.Size
		ref, known := b.guard.kept[f.Hash]
		if !known {
			var err error
			if ref, err = b.stageGuarded(ctx, *f); err != nil {
				return err
			}
			b.guard.kept[f.Hash] = ref
		}
		f.Blob = ref
	}
	return nil
}

func (b *branch) stageGuarded(ctx context.Context, f session.Guarded) (session.BlobRef, error) {
	r, err := b.Files.GuardedContent(f)
	if err != nil {
		return session.BlobRef{}, err
	}
	defer r.Close()
	return b.Blobs.Stage(ctx, r, f.Size)
}

// guardState reads the state that a blob holds.
func (b *branch) guardState(ctx context.Context, blob string) (all []session.Guarded, err error) {
	if g := b.guard; g.lastBlob == blob {
		return g.last, nil
	}
	r, err := b.Blobs.Open(ctx, blob)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if err := json.NewDecoder(r).Decode(&all); err != nil {
		return nil, &session.Error{Code: session.ErrCorrupt, Message: "the state of the protected paths is unreadable", Place: "blob " + blob, Cause: err}
	}
	return all, nil
}

// putBack puts the protected paths back to their state before the command of a call,
// after it has recorded the changes. It returns all changes of the call. A change that
// cannot be put back does not prevent the receipt, which says so.
func (b *branch) putBack(ctx context.Context, it *session.Item) ([]session.HeldChange, error) {
	if it.Call == nil || b.Files == nil { // nil if a cancelled session's workspace is gone
		return nil, nil
	}
	d, err := b.intent(ctx, it)
	if err != nil || d.Guard == "" {
		return nil, err
	}
	b.guard.mu.Lock()
	defer b.guard.mu.Unlock()
	was, err := b.guardState(ctx, d.Guard)
	if err != nil {
		return nil, err
	}
	var left []session.HeldChange
	for range putBackTries {
		var want []session.Guarded
		if left, want, err = b.Files.HeldChanges(ctx, was); err != nil {
			return nil, err
		}
		if len(left) > 0 {
			err = b.hold(ctx, it, left)
		}
		if errors.Is(err, session.ErrFileChanged) {
			continue
		}
		if err != nil {
			return nil, err
		}
		err := b.Files.Place(ctx, want, func(g session.Guarded) (io.ReadCloser, error) { return b.Blobs.Open(ctx, g.Blob.Hash) })
		if err != nil {
			b.Log.Warn("protected paths could not be put back", "event", "put_back_failed", "op", it.ID.String(), "error", err.Error())
		}
		if len(left) == 0 {
			return b.heldBy(ctx, it)
		}
	}
	if left, _, err = b.Files.HeldChanges(ctx, was); err != nil {
		return nil, err
	}
	held, err := b.heldBy(ctx, it)
	for i := range held {
		held[i].Stays = slices.ContainsFunc(left, func(l session.HeldChange) bool { return l.Path == held[i].Path })
	}
	return held, err
}

// hold records changes with their contents, except those that are recorded already.
func (b *branch) hold(ctx context.Context, it *session.Item, changes []session.HeldChange) error {
	known, err := b.heldBy(ctx, it)
	if err != nil {
		return err
	}
	var fresh []session.HeldChange
	for _, c := range changes {
		if slices.ContainsFunc(known, func(k session.HeldChange) bool { return k.Path == c.Path && k.Same(c.Guarded) }) {
			continue
		}
		if c.Kind == session.GuardFile && c.Hash != "" {
			if c.Blob, err = b.stageGuarded(ctx, c.Guarded); err != nil {
				return err
			}
		}
		fresh = append(fresh, c)
	}
	if len(fresh) == 0 {
		return nil
	}
	b.Log.Warn("changes of protected paths are put back", "event", "changes_held", "op", it.ID.String(), "count", len(fresh))
	return b.commit(ctx, session.Draft{Type: session.ChangesHeld, Data: session.ChangesHeldData{StepID: it.ID, Key: b.key(it, it.Attempt), Held: fresh}})
}

// heldBy returns the recorded changes of a call, the last one of each path.
func (b *branch) heldBy(ctx context.Context, it *session.Item) (held []session.HeldChange, err error) {
	var seqs []uint64
	b.book.look(func(s *session.Session) {
		if st := s.Steps[it.ID.Of()]; st != nil {
			seqs = slices.Clone(st.Held)
		}
	})
	for _, seq := range seqs {
		e, err := b.Journal.Event(ctx, seq)
		if err != nil {
			return nil, err
		}
		var d session.ChangesHeldData
		if err := e.Decode(&d); err != nil {
			return nil, err
		}
		if d.StepID != it.ID {
			continue
		}
		for _, c := range d.Held {
			held = slices.DeleteFunc(held, func(h session.HeldChange) bool { return h.Path == c.Path })
			held = append(held, c)
		}
	}
	return held, nil
}
