package history_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/acode-dev/acode/internal/history"
	"github.com/acode-dev/acode/session"
)

// A history is a real chain: contiguous seqs, strictly increasing times and ids of
// version 7, each hash over the previous one, each payload within its limit.
func TestDraw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events, m := history.DrawModel(t)
		var head session.Hash
		var last int64
		for i, e := range events {
			if e.Seq != uint64(i+1) || e.TimeUS <= last || e.Hash != e.ChainHash(head) || e.Session != m.Session {
				t.Fatalf("event %d does not follow: %+v", i+1, e)
			}
			if e.ID[6]>>4 != 7 || e.ID[8]>>6 != 2 || len(e.Payload) > session.MaxPayloadBytes {
				t.Fatalf("event %d: id %x, payload of %d bytes, want version 7 and a small payload", i+1, e.ID, len(e.Payload))
			}
			head, last = e.Hash, e.TimeUS
		}
		if events[0].Type != session.SessionCreated {
			t.Errorf("first event: got %s, want %s", events[0].Type, session.SessionCreated)
		}
		if _, err := session.ParseUUID(string(m.Session)); err != nil {
			t.Errorf("session id: %v", err)
		}
	})
}
