package remote_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/remote"
	"github.com/acode-dev/acode/session"
)

var _ outbox.Remote = (*remote.Server)(nil)

// lane is a session on its way to a server.
type lane struct {
	*site
	r *remote.Server
}

// conform runs a case as a role of its own.
func conform(t *testing.T, s *site, name string, run func(t *testing.T, l *lane)) {
	t.Run(name, func(t *testing.T) { run(t, &lane{site: s, r: s.open(s.role("acode_writer"))}) })
}

// send delivers and wants the mark to be that of want at seq.
func (l *lane) send(t *testing.T, d session.Delivery, want session.Mark) {
	t.Helper()
	got, err := l.r.Deliver(t.Context(), d)
	if err != nil {
		t.Fatalf("Deliver: %v", err)
	}
	want.Session = d.Session
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("Deliver: mark differs (-want +got):\n%s", diff)
	}
}

// rows returns a summary of the server's data.
func (l *lane) rows() string {
	return l.value(`SELECT (SELECT count(*) FROM acode.events) || ' ' || (SELECT count(*) FROM acode.forks) || ' '
		|| coalesce((SELECT string_agg(session_id || last_seq::text || encode(head, 'hex'), ',' ORDER BY session_id) FROM acode.heads), '')`)
}

// holds wants the server to hold exactly the chain.
func (l *lane) holds(t *testing.T, c *chain) {
	t.Helper()
	var want strings.Builder
	for _, e := range c.events {
		fmt.Fprintf(&want, "%d %d %s %s %d %s %x\n", e.Seq, e.TimeUS, e.Type, e.Actor, e.Epoch, e.Hash, e.Payload)
	}
	got := l.value(fmt.Sprintf(`SELECT coalesce(string_agg(concat_ws(' ', seq, time_us, type, actor, epoch, encode(hash, 'hex'), encode(payload, 'hex')), E'\n' ORDER BY seq), '')
		FROM acode.events WHERE session_id = '%s'`, c.id))
	if diff := cmp.Diff(strings.TrimSpace(want.String()), strings.TrimSpace(got)); diff != "" {
		t.Errorf("events differ (-want +got):\n%s", diff)
	}
	if n := l.value(fmt.Sprintf(`SELECT count(*) FROM acode.events WHERE session_id = '%s' AND id::text LIKE '00000000-0000-%%'`, c.id)); n != fmt.Sprint(len(c.events)) {
		t.Errorf("%s ids as sent, want %d", n, len(c.events))
	}
}

// FR-053, FR-054: every delivery has its effect exactly once.
func TestDelivery(t *testing.T) {
	s := commonSite(t)
	conform(t, s, "in_order", func(t *testing.T, l *lane) {
		c := newChain(7).acquire().grow(2)
		for i := 1; i <= 10; i++ {
			l.send(t, c.from(i, i), session.Mark{Seq: uint64(i), Head: c.hashAt(uint64(i)), Epoch: c.events[i-1].Epoch, Verdict: session.DeliveryTaken, Inserted: 1})
		}
		l.holds(t, c)
	})
	conform(t, s, "backlog_over_epochs", func(t *testing.T, l *lane) {
		c := newChain(3).acquire().grow(4).acquire().acquire().grow(2)
		l.send(t, c.from(1, 12), session.Mark{Seq: 12, Head: c.head(), Epoch: 3, Verdict: session.DeliveryTaken, Inserted: 12})
		l.holds(t, c)
	})
	conform(t, s, "empty_is_the_mark", func(t *testing.T, l *lane) {
		c := newChain(3)
		l.send(t, c.from(0, 0), session.Mark{Verdict: session.DeliveryTaken})
		l.send(t, c.from(1, 3), session.Mark{Seq: 3, Head: c.head(), Verdict: session.DeliveryTaken, Inserted: 3})
		l.send(t, c.from(0, 0), session.Mark{Seq: 3, Head: c.head(), Verdict: session.DeliveryTaken})
	})
	conform(t, s, "repeat", func(t *testing.T, l *lane) {
		c := newChain(5)
		l.send(t, c.from(1, 5), session.Mark{Seq: 5, Head: c.head(), Verdict: session.DeliveryTaken, Inserted: 5})
		l.send(t, c.from(1, 5), session.Mark{Seq: 5, Head: c.head(), Verdict: session.DeliveryTaken, Duplicate: 5})
		l.send(t, c.from(2, 3), session.Mark{Seq: 5, Head: c.head(), Verdict: session.DeliveryTaken, Duplicate: 2})
		l.holds(t, c)
	})
	conform(t, s, "overlap", func(t *testing.T, l *lane) {
		c := newChain(9)
		l.send(t, c.from(1, 5), session.Mark{Seq: 5, Head: c.hashAt(5), Verdict: session.DeliveryTaken, Inserted: 5})
		l.send(t, c.from(3, 9), session.Mark{Seq: 9, Head: c.head(), Verdict: session.DeliveryTaken, Inserted: 4, Duplicate: 3})
		l.holds(t, c)
	})
	conform(t, s, "gap", func(t *testing.T, l *lane) {
		c := newChain(9)
		l.send(t, c.from(2, 3), session.Mark{Verdict: session.DeliveryGap})
		l.send(t, c.from(1, 5), session.Mark{Seq: 5, Head: c.hashAt(5), Verdict: session.DeliveryTaken, Inserted: 5})
		l.send(t, c.from(7, 9), session.Mark{Seq: 5, Head: c.hashAt(5), Verdict: session.DeliveryGap})
		l.holds(t, c.split(5))
	})
}

// A chain that is not the server's is filed and changes nothing else.
func TestForks(t *testing.T) {
	s := commonSite(t)
	conform(t, s, "forked_at_the_mark", func(t *testing.T, l *lane) {
		c := newChain(5)
		other := c.split(3).grow(4)
		l.send(t, c.from(1, 5), session.Mark{Seq: 5, Head: c.head(), Verdict: session.DeliveryTaken, Inserted: 5})
		l.send(t, other.from(6, 7), session.Mark{Seq: 5, Head: c.head(), Verdict: session.DeliveryForked})
		l.holds(t, c)
		l.filed(t, c.id, "forked 6,7")
	})
	conform(t, s, "forked_below_the_mark", func(t *testing.T, l *lane) {
		c := newChain(5)
		other := c.split(3).grow(4)
		l.send(t, c.from(1, 5), session.Mark{Seq: 5, Head: c.head(), Verdict: session.DeliveryTaken, Inserted: 5})
		for range 2 {
			l.send(t, other.from(2, 7), session.Mark{Seq: 5, Head: c.head(), Verdict: session.DeliveryForked, Duplicate: 2})
		}
		l.holds(t, c)
		l.filed(t, c.id, "forked 4,5,6,7")
	})
	conform(t, s, "fork_in_pieces", func(t *testing.T, l *lane) {
		c := newChain(5)
		other := c.split(3).grow(9)
		mark := session.Mark{Seq: 5, Head: c.head(), Verdict: session.DeliveryForked}
		gap := session.Mark{Seq: 5, Head: c.head(), Verdict: session.DeliveryGap}
		l.send(t, c.from(1, 5), session.Mark{Seq: 5, Head: c.head(), Verdict: session.DeliveryTaken, Inserted: 5})
		l.send(t, other.from(7, 9), gap)
		l.send(t, other.from(4, 7), mark)
		l.send(t, other.from(9, 12), gap)
		for range 2 {
			l.send(t, other.from(8, 10), mark)
		}
		l.send(t, other.from(11, 12), mark)
		l.send(t, c.split(5).grow(3).from(8, 8), gap)
		l.holds(t, c)
		l.filed(t, c.id, "forked 4,5,6,7,8,9,10,11,12")
	})
	conform(t, s, "fenced", func(t *testing.T, l *lane) {
		c := newChain(2).acquire().grow(1)
		late := c.split(4).grow(2)
		l.send(t, c.acquire().from(1, 5), session.Mark{Seq: 5, Head: c.head(), Epoch: 2, Verdict: session.DeliveryTaken, Inserted: 5})
		l.send(t, late.from(5, 6), session.Mark{Seq: 5, Head: c.head(), Epoch: 2, Verdict: session.DeliveryFenced})
		l.holds(t, c)
		l.filed(t, c.id, "fenced 5,6")
	})
	conform(t, s, "stale_epoch_that_links", func(t *testing.T, l *lane) {
		c := newChain(1).acquire().acquire()
		l.send(t, c.from(1, 3), session.Mark{Seq: 3, Head: c.head(), Epoch: 2, Verdict: session.DeliveryTaken, Inserted: 3})
		stale := c.split(3).add(session.StepStarted, 1, []byte(`{}`))
		l.send(t, stale.from(4, 4), session.Mark{Seq: 3, Head: c.head(), Epoch: 2, Verdict: session.DeliveryFenced})
		l.filed(t, c.id, "fenced 4")
	})
}

// filed wants the forks of a session.
func (l *lane) filed(t *testing.T, id session.ID, want string) {
	t.Helper()
	got := l.value(fmt.Sprintf(`SELECT min(reason) || ' ' || string_agg(seq::text, ',' ORDER BY seq) FROM acode.forks WHERE session_id = '%s'`, id))
	if got != want {
		t.Errorf("forks: got %q, want %q", got, want)
	}
	linked := l.value(fmt.Sprintf(`SELECT bool_and(hash = acode.chain_hash(prev, id, session_id, seq, time_us, epoch, type, actor, payload))
		FROM acode.forks WHERE session_id = '%s'`, id))
	if linked != "t" {
		t.Errorf("forks: their hashes are not those of their content")
	}
}

// A request that can be no delivery is refused and changes nothing.
func TestRefusals(t *testing.T) {
	s := commonSite(t)
	conform(t, s, "malformed", func(t *testing.T, l *lane) {
		before := l.rows()
		jump := newChain(2)
		jump.add(session.StepStarted, 1, []byte(`{}`))
		twice := newChain(1).acquire().add(session.ExecutionAcquired, 3, []byte(`{}`))
		long := newChain(1).add(session.StepStarted, 0, make([]byte, session.MaxPayloadBytes+1))
		nul := newChain(1).add("Step\x00Started", 0, []byte(`{}`))
		bad := newChain(1).add("Step\xff", 0, []byte(`{}`))
		hole := newChain(3)
		hole.events = append(hole.events[:1], hole.events[2])
		for name, c := range map[string]*chain{"epoch rises without acquisition": jump, "epoch rises by two": twice,
			"payload too long": long, "type with NUL": nul, "type not UTF-8": bad, "hole": hole} {
			_, err := l.r.Deliver(t.Context(), c.from(1, len(c.events)))
			var f *session.SyncFault
			if !errors.As(err, &f) || f.Class != session.FaultRefused || !f.Safe {
				t.Errorf("%s: got %v, want a refusal that took nothing", name, err)
			}
		}
		if after := l.rows(); after != before {
			t.Errorf("a refused delivery changed the server: %s, was %s", after, before)
		}
	})
	conform(t, s, "foreign_owner", func(t *testing.T, l *lane) {
		c := newChain(5)
		l.send(t, c.from(1, 3), session.Mark{Seq: 3, Head: c.hashAt(3), Verdict: session.DeliveryTaken, Inserted: 3})
		before := l.rows()
		other := l.open(l.role("acode_writer"))
		for name, d := range map[string]session.Delivery{"extend": c.from(4, 5), "fork": c.split(2).grow(2).from(3, 4)} {
			_, err := other.Deliver(t.Context(), d)
			var f *session.SyncFault
			if !errors.As(err, &f) || f.SQLState != "AC001" || f.Class != session.FaultRefused {
				t.Errorf("%s another's session: got %v, want AC001", name, err)
			}
		}
		if _, err := other.Deliver(t.Context(), c.from(0, 0)); err == nil {
			t.Errorf("the mark of another role's session was returned")
		}
		if after := l.rows(); after != before {
			t.Errorf("another role changed the session: %s, was %s", after, before)
		}
	})
}

// 10,000 events, in batches.
func TestManyEvents(t *testing.T) {
	s := commonSite(t)
	conform(t, s, "ten_thousand", func(t *testing.T, l *lane) {
		c := newChain(10_000)
		for i := 0; i < 10_000; i += 2500 {
			l.send(t, c.from(i+1, i+2500), session.Mark{Seq: uint64(i + 2500), Head: c.hashAt(uint64(i + 2500)), Verdict: session.DeliveryTaken, Inserted: 2500})
		}
		if got := l.value(fmt.Sprintf(`SELECT count(*) || ' ' || count(DISTINCT seq) || ' ' || max(seq) FROM acode.events WHERE session_id = '%s'`, c.id)); got != "10000 10000 10000" {
			t.Errorf("events: got %s, want 10,000 of them", got)
		}
	})
}

// S5: content that PostgreSQL's own types refuse is stored as it is.
func TestPoison(t *testing.T) {
	s := commonSite(t)
	conform(t, s, "payloads", func(t *testing.T, l *lane) {
		c := newChain(1)
		for _, p := range poison() {
			c.add(session.StepCompleted, 0, p)
		}
		l.send(t, c.from(1, len(c.events)), session.Mark{Seq: uint64(len(c.events)), Head: c.head(), Verdict: session.DeliveryTaken, Inserted: len(c.events)})
		l.holds(t, c)
	})
}

func poison() [][]byte {
	return [][]byte{
		[]byte(`{"a":"\u0000"}`), []byte(`{"a":"\ud800"}`), []byte(`{"a":1e400000}`), []byte(`{"a":NaN}`), {}, nil, {0}, {0xff, 0xfe},
		[]byte(strings.Repeat("[", 8000) + strings.Repeat("]", 8000)), []byte(`{"` + strings.Repeat("k", 16000) + `":1}`),
		[]byte("\\.\n"), []byte(`{"task":"t","step":"s","attempt":99999999999999999999}`), []byte(`"text"`), []byte(`null`), []byte(`{} trailing`),
	}
}

// A server restored from a backup has a smaller mark; the missing events are sent again.
func TestRestoredServer(t *testing.T) {
	s := newSite(t)
	conform(t, s, "restored", func(t *testing.T, l *lane) {
		c := newChain(8)
		l.send(t, c.from(1, 5), session.Mark{Seq: 5, Head: c.hashAt(5), Verdict: session.DeliveryTaken, Inserted: 5})
		l.exec(`DROP TABLE IF EXISTS kept_events, kept_heads, kept_counts; CREATE TABLE kept_events AS TABLE acode.events; CREATE TABLE kept_heads AS TABLE acode.heads; CREATE TABLE kept_counts AS TABLE acode.counts`)
		l.send(t, c.from(6, 8), session.Mark{Seq: 8, Head: c.head(), Verdict: session.DeliveryTaken, Inserted: 3})
		l.exec(`SET session_replication_role = replica; TRUNCATE acode.events, acode.heads, acode.counts; INSERT INTO acode.counts SELECT * FROM kept_counts; INSERT INTO acode.events SELECT * FROM kept_events; INSERT INTO acode.heads SELECT * FROM kept_heads`)
		h, err := l.r.Hello(t.Context(), device)
		if err != nil || h.Events != 5 {
			t.Fatalf("Hello: got %+v, %v, want 5 events", h, err)
		}
		l.send(t, c.from(0, 0), session.Mark{Seq: 5, Head: c.hashAt(5), Verdict: session.DeliveryTaken})
		l.send(t, c.from(6, 8), session.Mark{Seq: 8, Head: c.head(), Verdict: session.DeliveryTaken, Inserted: 3})
		l.holds(t, c)
	})
}
