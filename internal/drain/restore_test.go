package main_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acode-dev/acode/internal/pgtest"
	"github.com/acode-dev/acode/session"
)

// regrow appends n events to a closed session.
func (s *store) regrow(id session.ID, n int) {
	s.t.Helper()
	w, err := s.st.Load(s.t.Context(), id)
	must(s.t, err)
	s.grow(w, n)
	must(s.t, w.Close())
}

// begin creates sessions of the given lengths.
func (s *store) begin(lengths ...int) (ids []session.ID) {
	s.t.Helper()
	for _, n := range lengths {
		w := s.create(n)
		ids = append(ids, w.Session().ID)
		must(s.t, w.Close())
	}
	return ids
}

// deliver drains with its own client.
func (s *store) deliver(sv *server) error {
	s.t.Helper()
	r, err := openRemote(sv.role)
	must(s.t, err)
	defer func() { _ = r.Close() }()
	return drain(s.t.Context(), s, asRemote(r))
}

// A server that was restored from an earlier backup has everything again after the next
// drain. This holds with and without new events, and with and without a running syncer
// (FR-054).
func TestServerRestored(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Options{})
	t.Run("at_rest", func(t *testing.T) { restoredAtRest(t, c) })
	t.Run("under_a_syncer", func(t *testing.T) { restoredUnderSyncer(t, c) })
}

func restoredAtRest(t *testing.T, c *cluster) {
	root := scratch(t)
	s := openStore(t, homeIn(root))
	ids := s.begin(12, 40, 5)
	must(t, s.deliver(c.server))
	backup := c.pg.BaseBackup("early")
	s.regrow(ids[1], 30)
	more := s.begin(7)
	must(t, s.deliver(c.server))
	for _, news := range []bool{false, true} {
		c.pg.Restore(backup)
		// As a control, the idle syncer repairs nothing.
		must(t, idle(t.Context(), s, nil))
		found, _ := s.midway(c.admin, "")
		mustFind(t, "restored", found, "early: ")
		if news {
			s.regrow(more[0], 4)
		}
		must(t, s.deliver(c.server))
		found, _ = s.midway(c.admin, "")
		report(t, fmt.Sprintf("restored, with news: %v", news), found)
	}
	must(t, s.close())
	report(t, "restored", judge(t, s.home, c.admin))
	if exit, said := newSite(t, root, c.role).run("sync", "verify"); exit != 0 {
		t.Errorf("sync verify: exit %d: %s", exit, said)
	}
}

func restoredUnderSyncer(t *testing.T, c *cluster) {
	x := newScene(t, c)
	backup := c.pg.BaseBackup("later")
	x.grow(25)
	x.awaitDelivery("events after the backup are delivered")
	c.pg.Restore(backup)
	x.syncer.Kick()
	eventually(t, "the server has everything again", func() bool { found, _ := x.s.midway(c.admin, ""); return len(found) == 0 })
	x.awaitDelivery("everything is delivered again")
	report(t, "restored under a syncer", x.finish())
}

// twin copies a closed store to a second home.
func twin(t testing.TB, home string) string {
	t.Helper()
	to := homeIn(scratch(t))
	copyTree(t, home, to)
	return to
}

// filed compares the forks of a session with the events of a store above seq. No event
// may be missing, and there may be no other.
func filed(t testing.TB, home, admin, id string, above int) (b breaches) {
	t.Helper()
	out := pgtest.Psql(t, admin, strings.Replace(strings.Split(serverSQL, ";")[0], "acode.events", "acode.forks", 1))
	there := map[event]bool{}
	for line := range strings.Lines(out) {
		there[parseEvent(strings.TrimSpace(line))] = true
	}
	for _, e := range readStore(t, home).events {
		if e.session != id || atoi(t, e.seq) <= above {
			continue
		}
		if !there[e] {
			b.add("lost: event %s of the divergent %s is in no fork", e.seq, id)
		}
		delete(there, e)
	}
	for e := range there {
		b.add("stray: fork of event %s of %s", e.seq, e.session)
	}
	return b
}

// without removes the breaches that contain word.
func without(found breaches, word string) (out breaches) {
	for _, f := range found {
		if !strings.Contains(f, word) {
			out = append(out, f)
		}
	}
	return out
}

// A store was copied to a second home. One of the two continues, the other is forked or
// fenced, and neither loses events.
func TestStoreCopied(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]int{"forked": 1, "fenced": 12} {
		t.Run(name, func(t *testing.T) { copied(t, shared(t), name, ahead) })
	}
}

// copied lets the first of two stores continue by the given number of events, and then
// the second.
func copied(t *testing.T, sv *server, name string, events int) {
	root := scratch(t)
	a := openStore(t, homeIn(root))
	id := a.begin(10, 20)[0]
	must(t, a.deliver(sv))
	must(t, a.close())
	other := twin(t, a.home)
	a, b := openStore(t, a.home), openStore(t, other)
	a.regrow(id, events)
	must(t, a.deliver(sv))
	b.regrow(id, 3)
	apart := b.begin(6)[0]
	err := b.deliver(sv)
	if !errors.Is(err, session.ErrForked) && !errors.Is(err, session.ErrFenced) {
		t.Errorf("%s: the second store: got %v, want forked or fenced", name, err)
	}
	if state := b.live(`SELECT l.state FROM lanes l JOIN sessions s ON s.no = l.session_no WHERE s.id = '` + string(id) + `'`); state != name {
		t.Errorf("state of the lane: got %s, want %s", state, name)
	}
	a.regrow(id, 2)
	// The first store continues.
	must(t, a.deliver(sv))
	must(t, errors.Join(a.close(), b.close()))
	report(t, name+": forks", filed(t, b.home, sv.admin, string(id), 10))
	found := without(judge(t, a.home, sv.admin), "fork of "+string(id))
	// Only the second store has it.
	report(t, name+": the first store", without(without(found, string(apart)), "stray: blob"))
	if found := judge(t, b.home, sv.admin); len(without(found, string(id))) > 0 {
		t.Errorf("%s: the second store: its other sessions: %v", name, without(found, string(id)))
	}
	if exit, said := newSite(t, filepath.Dir(b.home), sv.role).run("sync", "now"); exit != 23 {
		t.Errorf("%s: sync now of the second store: exit %d, want 23: %s", name, exit, said)
	}
}

// acode notices a store that was restored from an older copy, and keeps the events of the
// server.
func TestStoreRestored(t *testing.T) {
	t.Parallel()
	sv := shared(t)
	s := openStore(t, homeIn(scratch(t)))
	ids := s.begin(10, 20)
	must(t, s.deliver(sv))
	must(t, s.close())
	older := twin(t, s.home)
	s = openStore(t, s.home)
	s.regrow(ids[0], 15)
	must(t, s.deliver(sv))
	must(t, s.close())
	// With new events the older copy diverges.
	for _, news := range []int{0, 3} {
		o := openStore(t, older)
		if news > 0 {
			o.regrow(ids[0], news)
		}
		apart := o.begin(4)
		if err := o.deliver(sv); !errors.Is(err, session.ErrForked) && !errors.Is(err, session.ErrFenced) {
			t.Errorf("the older copy with %d events of its own: got %v, want forked", news, err)
		}
		if left := o.live(`SELECT s.last_seq - l.acked FROM lanes l JOIN sessions s ON s.no = l.session_no WHERE s.id = '` + string(apart[0]) + `'`); left != "0" {
			t.Errorf("another session of the older copy: got %s events left, want 0", left)
		}
		must(t, o.close())
		if exit, said := newSite(t, filepath.Dir(older), sv.role).run("sync", "verify"); exit != 1 {
			t.Errorf("sync verify of the older copy: exit %d, want 1: %s", exit, said)
		}
	}
	found := judge(t, s.home, sv.admin)
	// Events that only the older copy has are no loss.
	for _, f := range without(found, "stray: ") {
		t.Errorf("the store as it was: %s", f)
	}
}
