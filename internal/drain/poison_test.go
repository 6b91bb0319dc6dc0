package main_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acode-dev/acode/internal/pgtest"
	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/session"
)

// rewrite changes an event of a closed store directly, and recomputes the chain from
// there. No command of acode writes such an event, but the store of a later version might
// hold one.
func rewrite(t testing.TB, home string, id session.ID, seq int, change func(e *event)) {
	t.Helper()
	var sql strings.Builder
	sql.WriteString("DROP TRIGGER events_update; BEGIN;\n")
	prev := make([]byte, 32)
	for _, e := range readStore(t, home).events {
		if e.session != string(id) {
			continue
		}
		n := atoi(t, e.seq)
		if n == seq {
			change(&e)
		}
		if n >= seq {
			hash, err := e.chained(prev)
			must(t, err)
			e.hash = hash
			fmt.Fprintf(&sql, "UPDATE events SET type = CAST(x'%s' AS TEXT), actor = CAST(x'%s' AS TEXT), payload = CAST(x'%s' AS TEXT), hash = x'%s' WHERE session = (SELECT no FROM sessions WHERE id = '%s') AND seq = %d;\n",
				e.kind, e.actor, e.payload, e.hash, id, n)
		}
		prev = mustHex(t, e.hash)
	}
	fmt.Fprintf(&sql, "UPDATE sessions SET head = x'%x' WHERE id = '%s'; COMMIT;\n", prev, id)
	sql.WriteString("CREATE TRIGGER events_update BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;")
	sqlite(t, filepath.Join(home, "acode.db"), sql.String())
}

// corpus returns content that a journal may hold and databases refuse. All of it must
// arrive.
func corpus() map[string]string {
	return map[string]string{
		"escaped_nul":        `{"why":"a\u0000b"}`,
		"raw_nul":            "{\"why\":\"a\x00b\"}",
		"lone_surrogate":     `{"why":"\ud800"}`,
		"surrogates_swapped": `{"why":"\udfff\ud800","\udc00":1}`,
		"invalid_utf8":       "{\"why\":\"\xff\xfe\xc3\"}",
		"surrogate_in_utf8":  "{\"why\":\"\xed\xa0\x80\"}",
		"long_key":           `{"` + strings.Repeat("k", 16000) + `":1}`,
		"not_a_number":       `{"why":NaN,"x":-Infinity}`,
		"huge_number":        `{"why":1e999999999}`,
		"long_number":        `{"why":` + strings.Repeat("9", 16000) + `}`,
		"deep":               strings.Repeat("[", 8000) + strings.Repeat("]", 8000),
		"deep_objects":       strings.Repeat(`{"a":`, 2500) + "1" + strings.Repeat("}", 2500),
		"no_json":            "hello",
		"empty":              "",
		"null":               "null",
		"an_array":           `["v",1]`,
		"duplicate_keys":     `{"why":1,"why":{"why":2}}`,
		"byte_order_mark":    "\xef\xbb\xbf{}",
		"quotes":             `{"why":"'; DROP TABLE acode.events; -- \\x \\. $$"}`,
		"copy_marks":         "\\.\n\\N\t\r\n",
	}
}

// FR-053: content that PostgreSQL cannot hold as text or JSON is delivered byte for byte
// and delays no other session.
func TestPoisonIsDelivered(t *testing.T) {
	t.Parallel()
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			sv := shared(t)
			s := openStore(t, homeIn(scratch(t)))
			ids := s.begin(make([]int, len(corpus()))...)
			for _, id := range ids {
				s.regrow(id, 6)
			}
			must(t, s.close())
			i := 0
			for _, payload := range corpus() {
				rewrite(t, s.home, ids[i], 5, func(e *event) { e.payload = hex.EncodeToString([]byte(payload)) })
				i++
			}
			s = openStore(t, s.home)
			sy := s.syncer(w.wrap(s, asRemote(sv.connect(t, patience))), patience)
			must(t, sy.Drain(t.Context()))
			// This recomputes hashes and fills tables.
			must(t, sy.Settle(t.Context()))
			left := s.live(`SELECT count(*) FROM lanes l JOIN sessions s ON s.no = l.session_no WHERE l.verified < s.last_seq`)
			must(t, s.close())
			report(t, w.name, judge(t, s.home, sv.admin))
			if left != "0" {
				t.Errorf("%s: the server could not verify %s of %d sessions", w.name, left, len(ids))
			}
			t.Logf("%s: %d kinds of poison delivered and verified", w.name, len(ids))
		})
	}
}

// refusal is a row that a server must refuse, and a part of the reason.
type refusal struct {
	change func(e *event)
	says   string
	// standIn means that the server accepts a stand-in, because the type is kept.
	standIn bool
}

func refusals() map[string]refusal {
	text := func(s string) string { return hex.EncodeToString([]byte(s)) }
	return map[string]refusal{
		"long_actor":        {func(e *event) { e.actor = text(strings.Repeat("a", 201)) }, "23514", true},
		"long_type":         {func(e *event) { e.kind = text(strings.Repeat("T", 101)) }, "23514", false},
		"nul_in_actor":      {func(e *event) { e.actor = text("a\x00b") }, "22021", true},
		"invalid_utf8_type": {func(e *event) { e.kind = text("T\xff") }, "22021", false},
	}
}

// FR-051: a row that the server refuses is found among the others and parked with its
// reason. Its session waits, and the other sessions do not.
func TestRefusedRowsAreParked(t *testing.T) {
	t.Parallel()
	const seq, length = 17, 40
	for name, r := range refusals() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sv := shared(t)
			s := openStore(t, homeIn(scratch(t)))
			ids := s.begin(12, length, 9)
			must(t, s.close())
			rewrite(t, s.home, ids[1], seq, r.change)
			s = openStore(t, s.home)
			if err := s.deliver(sv); !errors.Is(err, session.ErrParked) {
				t.Errorf("Drain: got %v, want parked", err)
			}
			l := readStoreOf(t, s).lanes[string(ids[1])]
			if l.state != "parked" || l.parked != seq || l.acked != seq-1 || !strings.Contains(l.reason, r.says) {
				t.Errorf("lane: got %+v, want parked at %d with %s", l, seq, r.says)
			}
			found := judge(t, s.home, sv.admin)
			if others := without(found, string(ids[1])); len(others) > 0 {
				t.Errorf("other sessions: %v", others)
			}
			if lost := len(found) - len(without(found, "lost: event")); lost != length-seq+1 {
				t.Errorf("held back: got %d events, want %d", lost, length-seq+1)
			}
			reach := seq - 1
			if r.standIn {
				reach = length
			}
			goOn(t, sv, s.home, ids[1], reach)
		})
	}
}

// readStoreOf closes a store and reads it.
func readStoreOf(t testing.TB, s *store) journal {
	t.Helper()
	must(t, s.close())
	return readStore(t, s.home)
}

// goOn delivers with the policy that a stand-in replaces a parked event, and checks how
// far delivery comes.
func goOn(t *testing.T, sv *server, home string, id session.ID, reach int) {
	t.Helper()
	s := openStore(t, home)
	sy := outbox.New(outbox.Options{Source: s.out, Remote: asRemote(sv.connect(t, patience)), Now: time.Now, OnParked: outbox.Continue, Rand: func() float64 { return 0 }})
	if err := sy.Drain(t.Context()); err != nil && !errors.Is(err, session.ErrParked) {
		t.Errorf("Drain with stand-ins: %v", err)
	}
	l := readStoreOf(t, s).lanes[string(id)]
	there := pgtest.Psql(t, sv.admin, `SELECT count(*) FROM acode.events WHERE session_id = '`+string(id)+`'`)
	if l.acked != reach || there != fmt.Sprint(reach) {
		t.Errorf("with a stand-in: acked %d, %s on the server, want %d", l.acked, there, reach)
	}
}

// Large content is delivered as a blob, and sealed content stays in the store: a note of
// 1 MB, and output of 100 MB.
func TestLargePayloads(t *testing.T) {
	t.Parallel()
	sv := shared(t)
	s := openStore(t, homeIn(scratch(t)))
	w := s.create(4)
	for _, n := range []int{17 << 10, 60 << 10, 1 << 20} {
		_, err := w.Append(t.Context(), session.Draft{Type: session.CheckpointCreated, Data: session.CheckpointCreatedData{Why: strings.Repeat("k", n)}})
		must(t, err)
	}
	const huge = 100 << 20
	ref, err := w.Stage(t.Context(), io.LimitReader(&zeros{}, huge), huge)
	must(t, err)
	_, err = w.Append(t.Context(), session.Draft{Type: session.CheckpointCreated, Data: session.CheckpointCreatedData{Why: ref.Hash}})
	must(t, err)
	must(t, w.Close())
	others := s.begin(5, 5)
	must(t, s.deliver(sv))
	must(t, s.close())
	report(t, "large payloads", judge(t, s.home, sv.admin))
	size := pgtest.Psql(t, sv.admin, `SELECT coalesce(sum(bytes), 0), coalesce(max(bytes), 0) FROM acode.blobs`)
	t.Logf("large payloads: %d sessions beside, blobs on the server (bytes, largest): %s; 100 MB sealed: %v", len(others), size, ref.Sealed)
	if ref.Bytes != huge || !ref.Sealed {
		t.Errorf("Stage: got %+v, want %d sealed bytes", ref, huge)
	}
}

// badOutput is a plan whose commands print difficult bytes.
const badOutput = `version: 1
task: Print difficult bytes
tasks:
  - id: only
    steps:
      - {id: nul, run: "printf 'a\\000b'"}
      - {id: bytes, run: "printf '\\377\\376\\303(\\355\\240\\200' ; printf '\\033[31m' >&2"}
      - {id: long, run: "head -c 300000 /dev/zero | tr '\\\\0' '\\\\377'"}
      - {id: text, run: "seq 100000"}
      - {id: fails, run: "printf '\\000\\377' >&2; exit 0"}
`

// The real programs deliver any output of commands to the server.
func TestCommandOutput(t *testing.T) {
	t.Parallel()
	sv := shared(t)
	s := newSite(t, scratch(t), sv.role)
	must(t, os.WriteFile(filepath.Join(s.root, "plan.yml"), []byte(badOutput), 0o600))
	if exit, said := s.run("run", "--plan", "../plan.yml"); exit != 0 {
		t.Fatalf("run: exit %d: %s", exit, said)
	}
	if exit, said := s.run("sync", "now"); exit != 0 {
		t.Fatalf("sync now: exit %d: %s", exit, said)
	}
	report(t, "output", judge(t, homeIn(s.root), sv.admin))
	if exit, said := s.run("sync", "verify"); exit != 0 {
		t.Errorf("sync verify: exit %d: %s", exit, said)
	}
}
