package main_test

import (
	"strings"
	"testing"
	"time"
)

// A syncer that does nothing fails every judge of the series with server outages: it
// shows nothing, acknowledges nothing, and loses everything. The series of cuts and kills
// check this themselves.
func TestIdleSyncerFails(t *testing.T) {
	t.Parallel()
	c := &cluster{server: shared(t)}
	x := &scene{t: t, c: c, s: openStore(t, homeIn(scratch(t)))}
	must(t, x.s.create(5).Close())
	must(t, idle(t.Context(), x.s, asRemote(c.connect(t, patience))))
	if state, reason, _ := x.state(); state != "" || reason != "" {
		t.Errorf("state: got %s (%s) without a syncer", state, reason)
	}
	if age, pending := x.s.age(); pending != 5 || age <= 0 || age > time.Minute {
		t.Errorf("age: got %v of %d events, want that of all 5", age, pending)
	}
	must(t, x.s.close())
	mustFind(t, "outages, crashes and poison", judge(t, x.s.home, c.admin), "lost: event 1 ", "lane of ", "head of ", "lost: blob ")

	s := openStore(t, x.s.home)
	ids := s.begin(9)
	must(t, s.close())
	mustFind(t, "copied stores", filed(t, s.home, c.admin, string(ids[0]), 0), "is in no fork")
}

// mustFind checks that each of the words is among the breaches.
func mustFind(t *testing.T, what string, found breaches, words ...string) {
	t.Helper()
	for _, w := range words {
		if len(without(found, w)) == len(found) {
			t.Errorf("%s: a syncer that does nothing passes %q: %v", what, strings.TrimSpace(w), found)
		}
	}
}

// The judge finds every kind of damage on a server.
func TestJudgeFindsDamage(t *testing.T) {
	t.Parallel()
	sv := shared(t)
	s := openStore(t, homeIn(scratch(t)))
	ids := s.begin(12, 7)
	must(t, s.deliver(sv))
	must(t, s.close())
	report(t, "undamaged", judge(t, s.home, sv.admin))
	id := string(ids[0])
	for _, c := range []struct{ name, sql, words string }{
		{"a payload", `UPDATE acode.events SET payload = payload || ' ' WHERE session_id = '` + id + `' AND seq = 4`, "does not follow"},
		{"an actor", `UPDATE acode.events SET actor = 'somebody' WHERE session_id = '` + id + `' AND seq = 5`, "differs: "},
		{"an event", `DELETE FROM acode.events WHERE session_id = '` + id + `' AND seq = 6`, "lost: "},
		{"the mark", `UPDATE acode.heads SET last_seq = last_seq - 1 WHERE session_id = '` + id + `'`, "head of "},
		{"the head", `UPDATE acode.heads SET head = acode.zero_hash() WHERE session_id = '` + id + `'`, "head of "},
		{"a session", `INSERT INTO acode.heads (session_id, owner, device, last_seq, epoch, head, first_prev, verified_head)
			VALUES (gen_random_uuid(), 'x', 'x', 0, 0, acode.zero_hash(), acode.zero_hash(), acode.zero_hash())`, "stray: head"},
		{"a fork", `INSERT INTO acode.forks (session_id, seq, reason, owner, id, time_us, epoch, type, actor, device, prev, hash, payload)
			SELECT session_id, seq, 'forked', 'x', id, time_us, epoch, type, actor, device, acode.zero_hash(), hash, payload FROM acode.events LIMIT 1`, "stray: fork"},
		{"a blob", `DELETE FROM acode.blobs`, "lost: blob"},
		{"a chunk", `UPDATE acode.blob_chunks SET data = data || '\x00'`, "half a blob"},
	} {
		backup := `CREATE TABLE public.e AS TABLE acode.events; CREATE TABLE public.h AS TABLE acode.heads; CREATE TABLE public.b AS TABLE acode.blobs; CREATE TABLE public.c AS TABLE acode.blob_chunks`
		sv.exec(`SET session_replication_role = replica; ` + backup + `; ` + c.sql)
		mustFind(t, c.name, judge(t, s.home, sv.admin), c.words)
		sv.clear()
		sv.exec(`SET session_replication_role = replica; INSERT INTO acode.events SELECT * FROM public.e; INSERT INTO acode.heads SELECT * FROM public.h;
			INSERT INTO acode.blobs SELECT * FROM public.b; INSERT INTO acode.blob_chunks SELECT * FROM public.c; DROP TABLE public.e, public.h, public.b, public.c`)
	}
	report(t, "repaired", judge(t, s.home, sv.admin))
}
