package local

import (
	"context"
	"fmt"

	"github.com/acode-dev/acode/session"
)

// Fork says how a session goes on under a new id.
type Fork struct {
	From   session.ID
	ID     session.ID // the new one, of NewID
	Shared uint64     // seq of the last event that the server has too

	// Unknown are commands in progress that may have run under their old key, with the reason
	// why nobody can know.
	Unknown map[session.StepID]string
}

// ForkOff makes the whole history of a session that of a new one, which names the place where
// it left the server's, and cancels the old one unless it is over. That is one commit. Keys of
// steps are the new session's, so that what was done counts as done there, and nothing of it is
// done again. The caller holds the session's lock. The result only informs.
func (s *Store) ForkOff(ctx context.Context, f Fork) (*session.Session, error) {
	old, err := s.Load(ctx, f.From)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wr == nil {
		return nil, readOnly()
	}
	forked := &Writer{st: s, sess: &session.Session{ID: f.ID}, sums: newDigests(s.keys, f.ID), steps: ordinals[session.StepID]{}, files: ordinals[string]{}}
	drafts, err := s.forkDrafts(ctx, old, f)
	if err != nil {
		return nil, err
	}
	made, err := forked.batchOf(ctx, drafts)
	if err != nil {
		return nil, err
	}
	closed, err := old.batchOf(ctx, closing(old.sess, drafts))
	if err != nil {
		return nil, err
	}
	s.wr.last = nil // each batch takes the clock from the store, the first one's included
	err = s.wr.tx(ctx, func(ctx context.Context) error {
		if err := made.run(ctx); err != nil {
			return err
		}
		return closed.run(ctx)
	})
	s.wr.last = nil
	if err != nil {
		return nil, storeError("fork off", err)
	}
	for _, b := range []draftBatch{made, closed} {
		if b.touched {
			b.w.writeHead(b.commit)
		}
		if b.w.head != nil {
			_ = b.w.head.Close() // see writeHead
		}
	}
	return forked.sess, nil
}

// draftBatch is a transaction's part that is one session's.
type draftBatch struct {
	*batch
	ps []prepared
}

func (w *Writer) batchOf(ctx context.Context, drafts []session.Draft) (draftBatch, error) {
	d := draftBatch{batch: &batch{w: w, c: w.st.wr, seenSteps: ordinals[session.StepID]{}, seenFiles: ordinals[string]{}}}
	for _, draft := range drafts {
		p, err := w.prepare(ctx, draft)
		if err != nil {
			return d, err
		}
		d.ps = append(d.ps, p)
	}
	return d, nil
}

func (d draftBatch) run(ctx context.Context) error {
	if len(d.ps) == 0 {
		return nil
	}
	return d.batch.run(ctx, d.ps, 0)
}

// closing drafts the end of the old session. One that is over stays as it is.
func closing(old *session.Session, drafts []session.Draft) []session.Draft {
	created, ok := drafts[0].Data.(session.SessionCreatedData)
	if !ok || old.State.Terminal() {
		return nil
	}
	var out []session.Draft
	for id, st := range old.Steps {
		if st.Status == session.InProgress {
			out = append(out, session.Draft{Type: session.StepUnknown, Data: session.StepUnknownData{
				StepID: id, Key: st.Key, Attempt: st.Attempt, Why: wentOnAs(created.Short)}})
		}
	}
	return append(out, session.Draft{Type: session.StateChanged, Actor: "user", Data: session.StateChangedData{
		From: old.State, To: session.Cancelled, Reason: session.ReasonUser, Detail: wentOnAs(created.Short)}})
}

func wentOnAs(short string) string { return "the session went on as " + short }

// forkDrafts reads the old session's history as that of the new one.
func (s *Store) forkDrafts(ctx context.Context, old *Writer, f Fork) ([]session.Draft, error) {
	short, err := s.newShort(ctx)
	if err != nil {
		return nil, err
	}
	point := &session.ForkPoint{Session: f.From, Seq: f.Shared}
	r := rewriter{from: f.From, to: f.ID}
	var drafts []session.Draft
	var prev session.Hash
	for after := uint64(0); after < old.sess.LastSeq; {
		events, err := readEvents(ctx, s.wr.link, old.no, f.From, after, tailBatch)
		if err != nil {
			return nil, err
		}
		if len(events) == 0 {
			return nil, corrupt(session.ErrCorrupt, f.From, after, "the journal ends at event %d of %d", after, old.sess.LastSeq)
		}
		for _, e := range events {
			if e.Seq != after+1 || e.Hash != e.ChainHash(prev) {
				return nil, corrupt(session.ErrCorrupt, f.From, after, "event %d is not what was chained", after+1)
			}
			if after, prev = e.Seq, e.Hash; e.Seq == f.Shared {
				point.Hash = e.Hash.String()
			}
			if err := s.expand(ctx, s.wr.link, &e); err != nil {
				return nil, err
			}
			d, err := r.draft(e)
			if err != nil {
				return nil, err
			}
			drafts = append(drafts, d)
		}
	}
	created, ok := drafts[0].Data.(session.SessionCreatedData)
	if !ok {
		return nil, corrupt(session.ErrCorrupt, f.From, 0, "the first event makes no session")
	}
	created.Short, created.ForkedFrom = short, point
	drafts[0].Data = created
	return append(drafts, unknowns(old.sess, f)...), nil
}

// unknowns drafts what nobody can know of the steps in progress.
func unknowns(old *session.Session, f Fork) (out []session.Draft) {
	for id, why := range f.Unknown {
		if st := old.Steps[id]; st != nil && st.Status == session.InProgress {
			key := session.Key{Session: f.ID, Step: id, Operation: session.OpMain, Attempt: st.Attempt}
			out = append(out, session.Draft{Type: session.StepUnknown, Data: session.StepUnknownData{StepID: id, Key: key.String(), Attempt: st.Attempt, Why: why}})
		}
	}
	return out
}

// rewriter makes events of one session drafts of another.
type rewriter struct{ from, to session.ID }

func (r rewriter) key(key string) (string, error) {
	k, err := session.ParseKey(key)
	if err != nil || k.Session != r.from {
		return "", fmt.Errorf("the key %q is not one of the session", key)
	}
	k.Session = r.to
	return k.String(), nil
}

func (r rewriter) draft(e session.Event) (session.Draft, error) {
	d := session.Draft{Type: e.Type, Actor: e.Actor}
	var err error
	switch e.Type {
	case session.SessionCreated:
		d.Data, err = decodeAs[session.SessionCreatedData](e, nil)
	case session.StateChanged:
		d.Data, err = decodeAs[session.StateChangedData](e, nil)
	case session.ExecutionAcquired:
		d.Data, err = decodeAs[session.ExecutionAcquiredData](e, nil)
	case session.ChangesAccepted:
		d.Data, err = decodeAs[session.ChangesAcceptedData](e, nil)
	case session.InputsChanged:
		d.Data, err = decodeAs[session.InputsChangedData](e, nil)
	case session.StepStarted:
		d.Data, err = decodeAs(e, func(d *session.StepStartedData) (err error) { d.Key, err = r.key(d.Key); return })
	case session.StepCompleted:
		d.Data, err = decodeAs(e, func(d *session.StepCompletedData) (err error) { d.Key, err = r.key(d.Key); return })
	case session.StepFailedEvent:
		d.Data, err = decodeAs(e, func(d *session.StepFailedData) (err error) { d.Key, err = r.key(d.Key); return })
	case session.StepUnknown:
		d.Data, err = decodeAs(e, func(d *session.StepUnknownData) (err error) { d.Key, err = r.key(d.Key); return })
	case session.ApprovalRequested:
		d.Data, err = decodeAs[session.ApprovalRequestedData](e, nil)
	case session.ApprovalGranted:
		d.Data, err = decodeAs[session.ApprovalGrantedData](e, nil)
	case session.ApprovalDenied:
		d.Data, err = decodeAs[session.ApprovalDeniedData](e, nil)
	case session.CheckpointCreated:
		d.Data, err = decodeAs[session.CheckpointCreatedData](e, nil)
	default:
		err = &session.Error{Code: session.ErrNewer, Message: fmt.Sprintf("this acode does not know events of type %q; nothing was changed", e.Type)}
	}
	return d, err
}

// decodeAs decodes a payload; change nil changes nothing of it.
func decodeAs[D any](e session.Event, change func(*D) error) (D, error) {
	var d D
	err := e.Decode(&d)
	if err == nil && change != nil {
		if cerr := change(&d); cerr != nil {
			err = corrupt(session.ErrCorrupt, e.Session, e.Seq-1, "event %d: %v", e.Seq, cerr)
		}
	}
	return d, err
}

// ForkOf gives the session that id was forked off as; found is false when there is none.
func (s *Store) ForkOf(ctx context.Context, id session.ID) (m session.Summary, found bool, err error) {
	err = s.read(ctx, func(q querier) error {
		type candidate struct {
			m session.Summary
			e session.Event
		}
		var all []candidate
		err := readRows(ctx, q, "look for forks", "", `SELECT s.id, s.short, s.state, s.last_seq, e.payload FROM sessions s JOIN events e ON e.pos = (s.no << 40) + 1
			WHERE instr(e.payload, '"forked_from":') > 0 OR substr(e.payload, 1, ?) = ? ORDER BY s.no`, []any{len(payloadPrefix), payloadPrefix}, func(r row) error {
			c := candidate{e: session.Event{Seq: 1, Type: session.SessionCreated}}
			defer func() { all = append(all, c) }()
			return r.Scan(&c.m.ID, &c.m.Short, &c.m.State, &c.m.LastSeq, &c.e.Payload)
		})
		if err != nil {
			return err
		}
		for _, c := range all {
			if err := s.expand(ctx, q, &c.e); err != nil {
				return err
			}
			d, err := decodeAs[session.SessionCreatedData](c.e, nil)
			if err != nil {
				return err
			}
			if d.ForkedFrom != nil && d.ForkedFrom.Session == id {
				m, found = c.m, true
			}
		}
		return nil
	})
	return m, found, err
}

// CloseLane settles the lane of a session that went on as short, and whose every event the
// server has. It is durable when it returns.
func (s *Store) CloseLane(ctx context.Context, l session.Lane, short string) error {
	return s.decide(ctx, "close lane", func(ctx context.Context) error {
		var no int64
		if err := s.wr.queryRow(ctx, `SELECT no FROM sessions WHERE id = ?`, []any{string(l.Session)}, &no); err != nil {
			return rowError("read session", l.Session, err)
		}
		err := s.wr.exec(ctx, upsertLane, no, int64(l.Acked), int64(l.Verified), int64(l.Epoch), string(l.State), wentOnAs(short), 0, int64(session.NeverUS), 0, l.Remote)
		if err != nil {
			return err
		}
		return s.wr.exec(ctx, `DELETE FROM outbox WHERE session_no = ?`, no)
	})
}

const wentOnQuery = `SELECT ` + laneColumns + ` FROM lanes l JOIN sessions s ON s.no = l.session_no
	WHERE l.state IN ('parked', 'fenced', 'forked') ORDER BY s.no`

// WentOnLanes lists the settled lanes of sessions that went on as others.
func (s *Store) WentOnLanes(ctx context.Context) (out []session.Lane, err error) {
	err = s.read(ctx, func(q querier) error {
		all, err := readLanes(ctx, q, wentOnQuery)
		for _, l := range all {
			if l.WentOn() {
				out = append(out, l.Lane)
			}
		}
		return err
	})
	return out, err
}
