package main_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acode-dev/acode/internal/pgtest"
	"github.com/acode-dev/acode/session"
)

// A server that commits without waiting for its disk loses acknowledged commits, unless
// each delivery asks it to wait. Acknowledged events survive kill -9.
func TestAcknowledgedSurvivesCrashes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Options{Conf: map[string]string{"synchronous_commit": "off", "wal_writer_delay": "10s", "checkpoint_timeout": "1h", "autovacuum": "off"}})
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) { crashes(t, c, w, setting(t, "ACODE_DRAIN_CRASHES", 2)) })
	}
	c.exec(`CREATE OR REPLACE FUNCTION acode.be_durable() RETURNS void LANGUAGE plpgsql AS 'BEGIN END'`)
	c.clear()
	s := openStore(t, homeIn(scratch(t)))
	found := crashed(t, c, s, ways()[0])
	if !strings.Contains(fmt.Sprint(found), "early: ") {
		t.Errorf("a server without durable commits: got %v, want lost acknowledged events", found)
	}
	t.Logf("planted a server that does not wait for its disk: found %d times, first: %v", len(found), found[:1])
	// This drain notices the loss and sends the events again.
	must(t, drain(t.Context(), s, asRemote(c.connect(t, patience))))
	must(t, s.close())
	report(t, "after the loss", judge(t, s.home, c.admin))
}

// crashes repeatedly kills a server as soon as it has acknowledged.
func crashes(t *testing.T, c *cluster, w way, n int) {
	c.clear()
	s := openStore(t, homeIn(scratch(t)))
	for range n {
		report(t, w.name, crashed(t, c, s, w))
	}
	must(t, s.close())
	report(t, w.name, judge(t, s.home, c.admin))
	t.Logf("%s: %d crashes right after an acknowledgement, nothing lost", w.name, n)
}

// crashed delivers a session, kills the server, and checks its content after the restart.
func crashed(t *testing.T, c *cluster, s *store, w way) breaches {
	t.Helper()
	must(t, s.create(20).Close())
	r, err := openRemote(c.role)
	must(t, err)
	err = drain(t.Context(), s, w.wrap(s, asRemote(r)))
	c.pg.Kill9()
	must(t, err)
	// The connections are gone.
	_ = r.Close()
	c.pg.Start()
	found, _ := s.midway(c.admin, "")
	return found
}

// FR-051: acode reports a server without room, and delivers everything when it has room
// again.
func TestServerDiskFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o755))
	// The server's account must be able to enter it.
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	disk := outage{name: "a disk that is full", states: []session.SyncState{session.SyncDiskFull}, says: "53100"}
	o := pgtest.Options{Conf: map[string]string{"autovacuum": "off", "max_wal_size": "32MB", "min_wal_size": "32MB", "bgwriter_lru_maxpages": "0"}}
	disk.begin = refuseRoom
	if smallDisk(t, dir, 160) {
		o.Dir = dir
		disk.begin = func(x *scene) func() { return fill(x, filepath.Join(dir, "filler")) }
	}
	disk.show(t, newCluster(t, o))
}

// fill fills the disk and returns a function that frees it.
func fill(x *scene, filler string) func() {
	x.t.Helper()
	f, err := os.Create(filler)
	must(x.t, err)
	_, err = io.Copy(f, &zeros{})
	if !errors.Is(err, syscall.ENOSPC) {
		x.t.Fatalf("fill the disk: got %v, want no space", err)
	}
	must(x.t, f.Close())
	// This is more than fits into the pages of the table.
	x.grow(2000)
	return func() { must(x.t, os.Remove(filler)) }
}

// refuseRoom simulates a full disk if a real one cannot be mounted: the server returns
// the same error.
func refuseRoom(x *scene) func() {
	x.c.exec(`CREATE FUNCTION public.no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$;
		CREATE TRIGGER no_room BEFORE INSERT ON acode.events FOR EACH STATEMENT EXECUTE FUNCTION public.no_room()`)
	return func() { x.c.exec(`DROP TRIGGER no_room ON acode.events; DROP FUNCTION public.no_room()`) }
}

// zeros is an endless reader.
type zeros struct{}

// Read implements io.Reader.
func (*zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
