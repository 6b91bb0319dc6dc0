package local

import (
	"bytes"
	"context"
	"slices"

	"github.com/acode-dev/acode/session"
)

// Fork describes how a session continues under a new id.
type Fork struct {
	From session.ID
	// id of the new session, from NewID
	ID session.ID
	// seq of the last event that the server has too
	Shared uint64

	// Unknown names steps in progress whose commands may have run under their old key,
	// each with the reason why acode cannot know.
	Unknown map[session.StepID]string
}

// ForkOff copies the whole history of a session to a new session, which records the last
// event that it shares with the server. It cancels the old session unless that has ended.
// Both happen in one commit.
//
// The keys of steps name the new session, so completed steps count as completed there and
// do not run again. The caller holds the session's lock. The returned session is only for
// information.
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
	forked := s.newWriter(f.ID)
	made, short, err := forked.takeOver(ctx, old, f)
	if err != nil {
		return nil, err
	}
	closed, err := old.batchOf(ctx, closing(old.sess, short))
	if err != nil {
		return nil, err
	}
	s.wr.last = nil // each batch must read the clock from the store, also the second one
	err = s.wr.tx(ctx, func(ctx context.Context) error {
		if err := made.run(ctx); err != nil || len(closed.ps) == 0 {
			return err
		}
		return closed.run(ctx)
	})
	s.wr.last = nil
	if err != nil {
		return nil, storeError("fork off", err)
	}
	for _, b := range []*batch{made, closed} {
		if b.touched {
			b.w.writeHead(b.commit)
		}
		if b.w.head != nil {
			_ = b.w.head.Close() // see writeHead
		}
	}
	return forked.sess, nil
}

// closing returns the drafts that end the old session. It returns none for a session that
// has ended.
func closing(old *session.Session, short string) []session.Draft {
	if old.State.Terminal() {
		return nil
	}
	var out []session.Draft
	for _, all := range []map[session.StepID]*session.StepState{old.Steps, old.Ops} {
		for id, st := range all {
			if st.Status == session.InProgress {
				out = append(out, session.Draft{Type: id.Event(session.StepUnknown), Data: session.StepUnknownData{
					StepID: id, Key: st.Key, Attempt: st.Attempt, Why: wentOnAs(short)}})
			}
		}
	}
	return append(out, session.Draft{Type: session.StateChanged, Actor: "user", Data: session.StateChangedData{
		From: old.State, To: session.Cancelled, Reason: session.ReasonUser, Detail: wentOnAs(short), Code: session.ErrCancelled}})
}

func wentOnAs(short string) string { return "the session went on as " + short }

// takeOver returns a batch that makes the old session's history that of w, and the short
// id of w.
func (w *Writer) takeOver(ctx context.Context, old *Writer, f Fork) (*batch, string, error) {
	short, err := w.st.newShort(ctx)
	if err != nil {
		return nil, "", err
	}
	point := &session.ForkPoint{Session: f.From, Seq: f.Shared}
	var created session.SessionCreatedData
	ps := make([]prepared, 1, old.sess.LastSeq)
	chain := chain{id: f.From}
	span := []any{position(old.no, 0), position(old.no, old.sess.LastSeq)}
	err = readRows(ctx, w.st.wr, "read events", f.From, eventsQuery, span, func(r row) error {
		e, err := scanEvent(r, f.From)
		if err == nil {
			err = chain.next(e)
		}
		if err == nil {
			err = w.st.expand(ctx, w.st.wr, &e)
		}
		if err != nil {
			return err
		}
		if e.Seq == f.Shared {
			point.Hash = e.Hash.String()
		}
		if e.Seq == 1 {
			return e.Decode(&created)
		}
		p, err := w.copied(e)
		ps = append(ps, p)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	if chain.seq != old.sess.LastSeq {
		return nil, "", corrupt(session.ErrCorrupt, f.From, chain.seq, "the journal ends at event %d of %d", chain.seq, old.sess.LastSeq)
	}
	created.Short, created.ForkedFrom = short, point
	if ps[0], err = w.prepare(ctx, session.Draft{Type: session.SessionCreated, Data: created}); err != nil {
		return nil, "", err
	}
	b, err := w.batchOf(ctx, unknowns(old.sess, f))
	if err != nil {
		return nil, "", err
	}
	b.ps = append(ps, b.ps...)
	return b, short, nil
}

// copied makes an event of another session an event of w. Its key then names w. Its
// content was redacted when it was recorded. No text in a payload looks like a key,
// because quotes in texts are escaped.
func (w *Writer) copied(e session.Event) (prepared, error) {
	key := func(id session.ID) []byte { return []byte(`"key":"v1:` + string(id) + `:`) }
	p := prepared{draft: session.Draft{Type: e.Type, Actor: e.Actor}}
	return p, w.place(&p, bytes.ReplaceAll(e.Content(), key(e.Session), key(w.sess.ID)))
}

// unknowns returns a StepUnknown draft for each step in progress whose outcome f calls
// unknown.
func unknowns(old *session.Session, f Fork) (out []session.Draft) {
	for id, why := range f.Unknown {
		if st := old.At(id); st != nil && st.Status == session.InProgress {
			key := session.KeyOf(f.ID, id, st.Attempt)
			out = append(out, session.Draft{Type: id.Event(session.StepUnknown), Data: session.StepUnknownData{StepID: id, Key: key.String(), Attempt: st.Attempt, Why: why}})
		}
	}
	return out
}

// ForkOf returns the session that continues session id. found is false when there is
// none.
func (s *Store) ForkOf(ctx context.Context, id session.ID) (m session.Summary, found bool, err error) {
	err = s.read(ctx, func(q querier) error {
		return readRows(ctx, q, "look for forks", "", `SELECT s.id, s.short, s.state, s.last_seq, e.payload FROM sessions s JOIN events e ON e.pos = (s.no << 40) + 1
			WHERE instr(e.payload, '"forked_from":') > 0 OR substr(e.payload, 1, ?) = ? ORDER BY s.no`, []any{len(payloadPrefix), payloadPrefix}, func(r row) error {
			var one session.Summary
			e := session.Event{Seq: 1, Type: session.SessionCreated}
			if err := r.Scan(&one.ID, &one.Short, &one.State, &one.LastSeq, &e.Payload); err != nil {
				return err
			}
			if err := s.expand(ctx, q, &e); err != nil {
				return err
			}
			var d session.SessionCreatedData
			err := e.Decode(&d)
			if d.ForkedFrom != nil && d.ForkedFrom.Session == id {
				m, found = one, true
			}
			return err
		})
	})
	return m, found, err
}

// CloseLane ends the lane of a session that continues as short, once the server has its
// every event. The change is durable when CloseLane returns.
func (s *Store) CloseLane(ctx context.Context, l session.Lane, short string) error {
	return s.decide(ctx, "close lane", func(ctx context.Context) error {
		no, err := sessionNumber(ctx, s.wr, l.Session)
		if err != nil {
			return err
		}
		err = s.wr.exec(ctx, upsertLane, no, int64(l.Acked), int64(l.Verified), int64(l.Epoch), string(l.State), wentOnAs(short), 0, int64(session.NeverUS), 0, l.Remote)
		if err != nil {
			return err
		}
		return s.wr.exec(ctx, `DELETE FROM outbox WHERE session_no = ?`, no)
	})
}

// WentOnLanes lists the closed lanes of sessions that continue as others.
func (s *Store) WentOnLanes(ctx context.Context) ([]session.Lane, error) {
	all, err := look(ctx, s, lanesOf(watchedQuery))
	return slices.DeleteFunc(all, func(l session.Lane) bool { return !l.WentOn() }), err
}
