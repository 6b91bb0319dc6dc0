package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/acode-dev/acode/internal/pgtest"
	"github.com/acode-dev/acode/internal/pgwire"
)

// programCuts is a series of cuts of acode as people start it.
type programCuts struct {
	t     testing.TB
	sv    *server
	proxy *pgwire.Proxy
	// first is the folder of the store with which trials begin.
	first string
	next  int
	tally tally
}

func newProgramCuts(t testing.TB) *programCuts {
	t.Helper()
	sv := shared(t)
	c := &programCuts{t: t, sv: sv, proxy: pgwire.New(t, hostOf(t, sv.role)), first: scratch(t)}
	s := openStore(t, homeIn(c.first))
	s.begin(sessionEvents, 150, 3)
	must(t, s.close())
	return c
}

// deliver runs acode sync now at a site, through the proxy.
func (c *programCuts) deliver(s site, f pgwire.Fault) (exit int, said string) {
	c.t.Helper()
	c.proxy.Set(f)
	return s.run("sync", "now")
}

// begin returns a new site with a copy of the first store, and clears the server.
func (c *programCuts) begin() site {
	c.t.Helper()
	c.sv.clear()
	c.next++
	root := filepath.Join(scratch(c.t), fmt.Sprint(c.next))
	copyTree(c.t, c.first, root)
	return newSite(c.t, root, at(c.t, c.sv.role, c.proxy.Addr()))
}

// points lists every byte of an undisturbed delivery, in both directions.
func (c *programCuts) points() (out []point) {
	c.t.Helper()
	s := c.begin()
	if exit, said := c.deliver(s, pgwire.Fault{}); exit != 0 {
		c.t.Fatalf("sync now: exit %d: %s", exit, said)
	}
	if found := judge(c.t, homeIn(s.root), c.sv.admin); len(found) > 0 {
		c.t.Fatalf("sync now, undisturbed: %v", found[:min(len(found), 3)])
	}
	n := c.proxy.Counts()
	for b := range n.ToServer {
		out = append(out, point{pgwire.CutAfter(pgwire.ToServer, b), fmt.Sprintf("after byte %d to the server", b)})
	}
	for b := range n.ToClient {
		out = append(out, point{pgwire.CutAfter(pgwire.ToClient, b), fmt.Sprintf("after byte %d to the client", b)},
			point{pgwire.LoseReply(b), fmt.Sprintf("committed, after byte %d to the client", b)})
	}
	return out
}

// trial cuts one delivery of a program and lets the next one through.
func (c *programCuts) trial(p point, program string) {
	c.t.Helper()
	s := c.begin()
	if program != "" {
		s.program = program
	}
	exit, said := c.deliver(s, p.fault)
	c.tally.trials++
	c.tally.cut += c.proxy.Counts().Cuts
	theirs := pgtest.Psql(c.t, c.sv.admin, theirsSQL+` GROUP BY 1, 2`)
	found, there := ahead(c.t, closed(c.t, homeIn(s.root), oursSQL), theirs)
	if there == 0 {
		c.tally.before++
	} else {
		c.tally.after++
	}
	if exit == 0 && there != sessionEvents+150+3 {
		found.add("reported: exit 0, and the server has %d events", there)
	}
	if exit != 0 && said == "" {
		found.add("reported: exit %d without output", exit)
	}
	if exit, said := c.deliver(s, pgwire.Fault{}); exit != 0 {
		found.add("stuck: sync now after the cut: exit %d: %s", exit, said)
	}
	if exit, said := s.run("sync", "verify"); exit != 0 {
		found.add("sync verify at the end: exit %d: %.300s", exit, said)
	}
	for _, f := range append(found, judge(c.t, homeIn(s.root), c.sv.admin)...) {
		c.tally.found.add("%s: %s", p.name, f)
	}
	must(c.t, os.RemoveAll(s.root))
}

// FR-053, FR-054: the guarantees of the syncer also hold for the program that people
// start.
func TestProgramCuts(t *testing.T) {
	t.Parallel()
	c := newProgramCuts(t)
	all := c.points()
	points := sample(random(t), all, min(setting(t, "ACODE_DRAIN_CUTS", 4), 500))
	for _, p := range points {
		c.trial(p, "")
	}
	t.Logf("acode sync now: %d of %d points: %v", len(points), len(all), c.tally)
	report(t, "acode sync now", c.tally.found)
	if c.tally.cut < len(points)*8/10 {
		t.Errorf("acode sync now: got %d cuts at %d points", c.tally.cut, len(points))
	}
	c.tally = tally{}
	if c.trial(points[0], "/bin/true"); len(c.tally.found) == 0 {
		t.Error("acode sync now: /bin/true passes")
	}
}
