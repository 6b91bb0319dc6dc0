package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/acode-dev/acode/session"
)

// book is the only place that appends to the journal and reads its session. A commit
// takes the drafts that all branches have handed over so far. It happens on the goroutine
// of one branch, so that a single branch waits for no other goroutine.
type book struct {
	e *Engine

	// held while a branch commits or reads the session
	turn sync.Mutex
	// last seq before a commit that failed; 0 if none failed
	doubt uint64
	// entries of that commit
	doubted []*entry
	// number of gates that wait for an answer
	asking int

	// guards the fields below
	mu    sync.Mutex
	queue []*entry
	// the acquisition, which is part of the first commit
	begin []session.Draft
	// steps as of the last commit, but only those that were asked for
	steps map[session.StepID]session.StepState
	// files that the session knows as of the last commit; nil until asked for
	files map[string]session.FileState
	// held while a notice is shown
	notify sync.Mutex
}

// entry holds the drafts that a branch hands over for one commit.
type entry struct {
	b      *branch
	drafts []session.Draft
	done   bool
	err    error
}

func newBook(e *Engine, begin []session.Draft) *book {
	return &book{e: e, begin: begin, steps: map[session.StepID]session.StepState{}}
}

// look calls read with the session between two commits. read must not keep any part of
// it.
func (k *book) look(read func(*session.Session)) {
	k.turn.Lock()
	defer k.turn.Unlock()
	read(k.e.Journal.Session())
}

// step returns the state of a step; pending if the session does not know it. It waits for
// a running commit only the first time.
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

// fresh records that the session does not know a step, as the continuation found.
func (k *book) fresh(id session.StepID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.steps[id]; !known {
		k.steps[id] = session.StepState{StepID: id, Status: session.Pending}
	}
}

// note stores the state of a step in s.
func (k *book) note(s *session.Session, id session.StepID) session.StepState {
	st := session.StepState{StepID: id, Status: session.Pending}
	if known := s.At(id); known != nil {
		st = *known
		if st.Approval != nil {
			answer := *st.Approval
			st.Approval = &answer
		}
		if st.Talk != nil {
			talk := *st.Talk
			st.Talk = &talk
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.steps[id] = st
	return st
}

// known returns the files that the session knows. It waits for a running commit only the
// first time.
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

// follow stores the states that drafts changed.
func (k *book) follow(drafts []session.Draft) {
	s := k.e.Journal.Session()
	for _, d := range drafts {
		id, files := about(d)
		if id != (session.StepID{}) {
			k.note(s, id)
		}
		if id.Op != "" { // the step may be a conversation
			k.note(s, id.Of())
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

// about returns the step of a draft, and the files that the draft makes known.
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
		return data.Of(), nil
	case session.ApprovalGrantedData:
		return data.Of(), nil
	case session.ApprovalDeniedData:
		return data.Of(), nil
	case session.ChangesHeldData:
		return data.Of(), nil
	case session.MessageAddedData:
		return data.Of(), nil
	case session.ContextReducedData:
		return data.Of(), nil
	case session.ModelAskedData:
		return data.Of(), nil
	case session.ModelAnsweredData:
		return data.Of(), nil
	case session.ModelFailedData:
		return data.Of(), nil
	case session.ChangesAcceptedData:
		return session.StepID{}, data.Files
	}
	return session.StepID{}, nil
}

// status returns the status of a step.
func (k *book) status(id session.StepID) (status session.Status) {
	k.look(func(s *session.Session) { status = s.Status(id) })
	return status
}

// commit makes drafts of b durable. A signal does not interrupt it, because then the
// outcome would be unknown. While another branch commits, drafts wait and share the next
// commit.
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

// write commits a batch. If the journal refuses it, write commits the drafts of each
// branch alone, so that no branch loses drafts by a mistake of another.
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

// refused reports whether the journal refused drafts and stayed unchanged.
func refused(err error) bool { return errors.Is(err, session.ErrConflict) }

// append commits a batch in its order. The acquisition comes first if it is not durable
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
					continue // another gate waits, or already waited
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

// stillAsking returns the number of waiting gates after a change of the state.
func stillAsking(asking int, c session.StateChangedData) int {
	switch c.To {
	case session.AwaitingApproval:
		return asking + 1
	case session.Executing, session.Planning:
		return max(0, asking-1)
	}
	return asking
}

// committed shows the notices and removes the outputs that waited for this commit (E2).
func (k *book) committed(n *entry) error {
	b, s := n.b, k.e.Journal.Session()
	k.e.crew.wrote(b, n.drafts)
	b.pending = nil
	for _, said := range b.onCommit {
		if said.Item != nil {
			said.Took = took(s.At(said.Item.ID))
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
	for _, key := range b.received {
		if err := k.e.Replies.Forget(key); err != nil {
			return err
		}
	}
	b.received = nil
	return nil
}

// show passes a notice to Notify.
func (k *book) show(n session.Notice) {
	k.notify.Lock()
	defer k.notify.Unlock()
	k.e.Notify(n)
}

// answer turns a request of another process into an event. It drops a request that no
// longer fits.
func (k *book) answer(ctx context.Context, r session.Request, again session.ApprovalRequestedData) (denied bool, err error) {
	k.turn.Lock()
	defer k.turn.Unlock()
	d := k.e.Journal.Session().Answered(r, k.e.epoch, again)
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

// willBe returns the state of the session after a commit of drafts.
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

// happened reports whether a failed commit did take place, according to the recovered
// journal.
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
