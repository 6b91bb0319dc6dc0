package session

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
)

// ReplayOrder describes the order in which a replay applied its events. acode logs it
// (FR-037).
type ReplayOrder struct {
	First, Last [16]byte
	Count       int
	// Digest is the hex SHA-256 of the ids in order.
	Digest string
}

// Order sorts events by time, then id (FR-034, FR-035). It returns ErrOrder if their seqs
// have another order (FR-038).
func Order(events []Event) (ReplayOrder, error) {
	slices.SortStableFunc(events, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.TimeUS, b.TimeUS), bytes.Compare(a.ID[:], b.ID[:]))
	})
	h := sha256.New()
	for i, e := range events {
		if i > 0 && e.Seq != events[i-1].Seq+1 {
			return ReplayOrder{}, &Error{Code: ErrOrder, Message: fmt.Sprintf("by time, event %d follows event %d", e.Seq, events[i-1].Seq), Place: fmt.Sprintf("seq %d", e.Seq)}
		}
		h.Write(e.ID[:])
	}
	o := ReplayOrder{Count: len(events), Digest: hex.EncodeToString(h.Sum(nil))}
	if len(events) > 0 {
		o.First, o.Last = events[0].ID, events[len(events)-1].ID
	}
	return o, nil
}

// Replay computes the state that results from events, beginning with the first event of
// the session (FR-036). It sorts events in place. At the first event that does not fit it
// returns ErrOrder, ErrCorrupt or ErrConflict, with the place. The returned session then
// holds the state before that event.
func Replay(events []Event) (*Session, ReplayOrder, error) {
	order, err := Order(events)
	s := &Session{}
	if err != nil {
		return s, order, err
	}
	for _, e := range events {
		if _, err := s.Apply(e); err != nil {
			return s, order, err
		}
	}
	return s, order, nil
}
