package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/acode-dev/acode/session"
)

// book is the one place that appends to the journal and reads its session. A commit takes
// along what all branches have handed over by then. It happens on the goroutine of one of
// them, so that a branch alone waits for no other goroutine.
type book struct {
	e *Engine

	// held by who commits or reads the session itself
	turn sync.Mutex
	// last seq before a commit that failed; 0 when none did
	doubt uint64
	// of that commit
	doubted []*entry
	// gates that wait for an answer
	asking int

	// guards what follows
	mu    sync.Mutex
	queue []*entry
	// the acquisition, with which the first commit begins
	begin []session.Draft
	// as of the last commit; those that somebody asked for
	steps map[session.StepID]session.StepState
	// likewise, all that the session knows; nil: nobody asked
	files map[string]session.FileState
	// held while something is shown
	notify sync.Mutex
}

// entry is what a branch hands over for one commit.
type entry struct {
	b      *branch
	drafts []session.Draft
	done   bool
	err    error
}

func newBook(e *Engine, begin []session.Draft) *book {
	return &book{e: e, begin: begin, steps: map[session.StepID]session.StepState{}}
}

// look shows the session as it is between two commits. read keeps nothing of it.
func (k *book) look(read func(*session.Session)) {
	k.turn.Lock()
	defer k.turn.Unlock()
	read(k.e.Journal.Session())
}

// step gives where a step stands; pending when nothing is known of it. It waits for a
// commit only the first time.
func (k *book) step(id session.StepID) session.StepState {
	k.mu.Lock()
	st, known := k.steps[id]
	k.mu.Unlock()
	if known {
		return st
	}
	k.look(func(s *session.Session) { st = k.note(s, id) })
	return st
}

// fresh notes a step of which nothing is known, as the continuation found.
func (k *book) fresh(id session.StepID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.steps[id]; !known {
		k.steps[id] = session.StepState{StepID: id, Status: session.Pending}
	}
}

// note keeps where a step stands in s.
func (k *book) note(s *session.Session, id session.StepID) session.StepState {
	st := session.StepState{StepID: id, Status: session.Pending}
	if known := s.Steps[id]; known != nil {
		st = *known
		if st.Approval != nil {
			answer := *st.Approval
			st.Approval = &answer
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.steps[id] = st
	return st
}

// known gives the files that the session knows. It waits for a commit only the first
// time.
func (k *book) known() []session.FileState {
	k.mu.Lock()
	asked := k.files != nil
	k.mu.Unlock()
	if !asked {
		k.look(func(s *session.Session) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.files = make(map[string]session.FileState, len(s.Files))
			for path, f := range s.Files {
				k.files[path] = *f
			}
		})
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Collect(maps.Values(k.files))
}

// follow notes what drafts have changed.
func (k *book) follow(drafts []session.Draft) {
	s := k.e.Journal.Session()
	for _, d := range drafts {
		id, files := about(d)
		if id != (session.StepID{}) {
			k.note(s, id)
		}
		k.mu.Lock()
		for _, f := range files {
			if k.files != nil {
				k.files[f.Path] = *s.Files[f.Path]
			}
		}
		k.mu.Unlock()
	}
}

// about gives the step that a draft is about, and the files that it makes known.
func about(d session.Draft) (id session.StepID, files []session.FileState) {
	switch data := d.Data.(type) {
	case session.StepStartedData:
		return data.StepID, nil
	case session.StepCompletedData:
		return data.StepID, data.Files
	case session.StepFailedData:
		return data.StepID, data.Files
	case session.StepUnknownData:
		return data.StepID, nil
	case session.ApprovalRequestedData:
		return data.StepID, nil
	case session.ApprovalGrantedData:
		return data.StepID, nil
	case session.ApprovalDeniedData:
		return data.StepID, nil
	case session.ChangesAcceptedData:
		return session.StepID{}, data.Files
	}
	return session.StepID{}, nil
}

// status says where a step stands.
func (k *book) status(id session.StepID) (status session.Status) {
	k.look(func(s *session.Session) { status = s.Status(id) })
	return status
}

// commit makes drafts of b durable, which a signal does not cut short: its outcome would
// be unknown. Where another branch's commit is on its way, the next one takes them along.
func (k *book) commit(ctx context.Context, b *branch, drafts []session.Draft) error {
	n := &entry{b: b, drafts: drafts}
	k.mu.Lock()
	if len(drafts) == 0 && len(k.begin) == 0 {
		k.mu.Unlock()
		return nil
	}
	k.queue = append(k.queue, n)
	k.mu.Unlock()
	k.turn.Lock()
	defer k.turn.Unlock()
	if !n.done {
		k.mu.Lock()
		batch := k.queue
		k.queue = nil
		k.mu.Unlock()
		k.write(context.WithoutCancel(ctx), batch)
	}
	return n.err
}

// write commits a batch. Where the journal refuses it, each branch's drafts are tried
// alone, so that a branch loses nothing by the mistake of another one.
func (k *book) write(ctx context.Context, batch []*entry) {
	err := k.append(ctx, batch, k.e.Journal.Append)
	if len(batch) > 1 && refused(err) {
		for _, n := range batch {
			k.write(ctx, []*entry{n})
		}
		return
	}
	for _, n := range batch {
		n.done, n.err = true, err
		if err == nil {
			n.err = k.committed(n)
		}
	}
}

// refused reports whether the journal said no to drafts and is as it was before them.
func refused(err error) bool { return errors.Is(err, session.ErrConflict) }

// append commits a batch in its order, behind the acquisition where that is not durable
// yet.
func (k *book) append(ctx context.Context, batch []*entry, to func(context.Context, ...session.Draft) ([]session.Event, error)) error {
	s := k.e.Journal.Session()
	c, state, asking := k.e.crew, s.State, k.asking
	all := slices.Clip(k.begin)
	for _, d := range all {
		if to, ok := d.Data.(session.StateChangedData); ok {
			state = to.To
		}
	}
	for _, n := range batch {
		c.disown(n.b, n.drafts)
		for i, d := range n.drafts {
			if data, ok := d.Data.(session.StateChangedData); ok {
				if asking = stillAsking(asking, data); asking > 0 && data.To == session.Executing || data.To == state {
					continue // another gate waits, or waited before
				}
				data.From, state = state, data.To
				d.Data = data
			}
			n.drafts[i] = d
			all = append(all, d)
		}
	}
	k.doubt, k.doubted = s.LastSeq, batch
	if _, err := to(ctx, all...); err != nil {
		return err
	}
	k.doubt, k.doubted, k.asking = 0, nil, asking
	k.follow(all)
	k.mu.Lock()
	k.begin = nil
	k.mu.Unlock()
	return nil
}

// stillAsking counts the gates that wait for an answer after a change of the state.
func stillAsking(asking int, c session.StateChangedData) int {
	switch c.To {
	case session.AwaitingApproval:
		return asking + 1
	case session.Executing:
		return max(0, asking-1)
	}
	return asking
}

// committed shows and removes what waited for the commit that has just happened (E2).
func (k *book) committed(n *entry) error {
	b, s := n.b, k.e.Journal.Session()
	k.e.crew.wrote(b, n.drafts)
	b.pending = nil
	for _, said := range b.onCommit {
		if said.Item != nil {
			said.Took = took(s.Steps[said.Item.ID])
		}
		k.show(said)
	}
	b.onCommit = nil
	for _, key := range b.spent {
		if err := k.e.Commands.Forget(key); err != nil {
			return err
		}
	}
	b.spent = nil
	return nil
}

// show gives a notice.
func (k *book) show(n session.Notice) {
	k.notify.Lock()
	defer k.notify.Unlock()
	k.e.Notify(n)
}

// answer turns a request of somebody else into an event, or drops it when it no longer
// fits.
func (k *book) answer(ctx context.Context, r session.Request, question string) (denied bool, err error) {
	k.turn.Lock()
	defer k.turn.Unlock()
	d := k.e.Journal.Session().Answered(r, k.e.epoch, question)
	if _, err = k.e.Journal.AppendAnswering(ctx, r.ID, d...); err == nil {
		k.follow(d)
	}
	return r.Kind == session.RequestDeny && len(d) > 0, err
}

// answering is commit for drafts of b that answer a request, while no other branch runs.
func (k *book) answering(ctx context.Context, b *branch, request int64, drafts []session.Draft) error {
	k.turn.Lock()
	defer k.turn.Unlock()
	n := &entry{b: b, drafts: drafts}
	err := k.append(ctx, []*entry{n}, func(ctx context.Context, all ...session.Draft) ([]session.Event, error) {
		return k.e.Journal.AppendAnswering(ctx, request, all...)
	})
	if err != nil {
		return err
	}
	return k.committed(n)
}

// willBe is the state of the session once drafts are committed.
func (k *book) willBe(drafts []session.Draft) (state session.State) {
	k.look(func(s *session.Session) { state = s.State })
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, d := range slices.Concat(k.begin, drafts) {
		if c, ok := d.Data.(session.StateChangedData); ok {
			state = c.To
		}
	}
	return state
}

// happened reports whether a commit that failed has taken place all the same, as the
// journal knows now.
func (k *book) happened() (yes bool, err error) {
	k.turn.Lock()
	defer k.turn.Unlock()
	if k.doubt == 0 || k.e.Journal.Session().LastSeq <= k.doubt {
		return false, nil
	}
	k.mu.Lock()
	k.begin = nil
	k.mu.Unlock()
	for _, n := range k.doubted {
		k.follow(n.drafts)
		err = errors.Join(err, k.committed(n))
	}
	k.doubt, k.doubted = 0, nil
	return true, err
}
