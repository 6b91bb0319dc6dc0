package engine

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/acode-dev/acode/session"
)

// book is the one place that appends to the journal and reads its session. A commit takes along what all
// branches have handed over by then. It happens on the goroutine of one of them, so that a branch alone
// waits for no other goroutine.
type book struct {
	e *Engine

	turn    sync.Mutex // held by who commits or reads the session
	doubt   uint64     // last seq before a commit that failed; 0 when none did
	doubted []*entry   // of that commit
	asking  int        // gates that wait for an answer

	mu     sync.Mutex // guards what follows
	queue  []*entry
	begin  []session.Draft // the acquisition, with which the first commit begins
	notify sync.Mutex      // held while something is shown
}

// entry is what a branch hands over for one commit.
type entry struct {
	b      *branch
	drafts []session.Draft
	done   bool
	err    error
}

func newBook(e *Engine, begin []session.Draft) *book { return &book{e: e, begin: begin} }

// look shows the session as it is between two commits. read keeps nothing of it.
func (k *book) look(read func(*session.Session)) {
	k.turn.Lock()
	defer k.turn.Unlock()
	read(k.e.Journal.Session())
}

// step gives where a step stands; the zero value when nothing is known of it.
func (k *book) step(id session.StepID) (st session.StepState) {
	k.look(func(s *session.Session) {
		if known := s.Steps[id]; known != nil {
			st = *known
			if st.Approval != nil {
				answer := *st.Approval
				st.Approval = &answer
			}
		}
	})
	return st
}

// status says where a step stands.
func (k *book) status(id session.StepID) (status session.Status) {
	k.look(func(s *session.Session) { status = s.Status(id) })
	return status
}

// commit makes drafts of b durable, which a signal does not cut short: its outcome would be unknown. Where
// another branch's commit is on its way, the next one takes them along.
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

// write commits a batch. Where the journal refuses it, each branch's drafts are tried alone, so that a branch
// loses nothing by the mistake of another one.
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

// append commits a batch in its order, behind the acquisition where that is not durable yet.
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
		for i, d := range n.drafts {
			switch data := d.Data.(type) {
			case session.StateChangedData:
				if asking = stillAsking(asking, data); asking > 0 && data.To == session.Executing || data.To == state {
					continue // another gate waits, or waited before
				}
				data.From, state = state, data.To
				d.Data = data
			case session.StepCompletedData:
				data.Files, data.Manifest = c.own(n.b, data.StepID, data.Files), c.latest(data.Manifest)
				d.Data = data
			case session.StepFailedData:
				data.Files, data.Manifest = c.own(n.b, data.StepID, data.Files), c.latest(data.Manifest)
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
	if st := s.Steps[b.at.StepID]; st != nil {
		b.at = *st
		b.at.Approval = nil // others answer it
	}
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

// answer turns a request of somebody else into an event, or drops it when it no longer fits.
func (k *book) answer(ctx context.Context, r session.Request, question string) (denied bool, err error) {
	k.turn.Lock()
	defer k.turn.Unlock()
	d := k.e.Journal.Session().Answered(r, k.e.epoch, question)
	_, err = k.e.Journal.AppendAnswering(ctx, r.ID, d...)
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

// happened reports whether a commit that failed has taken place all the same, as the journal knows now.
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
		err = errors.Join(err, k.committed(n))
	}
	k.doubt, k.doubted = 0, nil
	return true, err
}
