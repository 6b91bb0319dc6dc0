package remote_test

import (
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/acode-dev/acode/session"
)

// The chain hash in SQL equals the one in Go: for the worked example of docs/format.md,
// and for texts with multi-byte characters.
func TestChainHash(t *testing.T) {
	s := commonSite(t)
	example := session.Event{Session: "01890a5d-ac96-774b-bcce-b302099a8057", Seq: 1, TimeUS: 1893553445000000, Type: session.SessionCreated, Actor: "acode", Payload: []byte(`{"v":1}`)}
	for i := range example.ID {
		example.ID[i] = byte(i)
	}
	wide := example
	wide.Actor, wide.Type, wide.Seq, wide.Epoch, wide.TimeUS = "Jürgen 漢字", "Größe", 1<<40, 1<<33, -5
	wide.Payload = []byte{0, 0xff, '\\', 'x'}
	prev := example.ChainHash(session.Hash{})
	if got := prev.String(); got != "9e61d03c17c945aa98519f38d2faf92fdb484495499fc17a600af40e198e26cd" {
		t.Fatalf("ChainHash of the worked example: %s", got)
	}
	for _, c := range []struct {
		e    session.Event
		prev session.Hash
	}{{example, session.Hash{}}, {wide, prev}} {
		got := s.value(fmt.Sprintf(`SELECT encode(acode.chain_hash('\x%s', '%s', '%s', %d, %d, %d, '%s', '%s', '\x%x'), 'hex')`,
			c.prev, hex.EncodeToString(c.e.ID[:]), c.e.Session, c.e.Seq, c.e.TimeUS, c.e.Epoch, c.e.Type, c.e.Actor, c.e.Payload))
		if want := c.e.ChainHash(c.prev).String(); got != want {
			t.Errorf("chain_hash of seq %d: got %s, want %s", c.e.Seq, got, want)
		}
	}
}
