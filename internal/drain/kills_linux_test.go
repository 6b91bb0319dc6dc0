package main_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acode-dev/acode/internal/crash"
	"github.com/acode-dev/acode/internal/pgtest"
)

// roleSyncer is the process that delivers in the background of a run.
const roleSyncer = "syncer"

// role distinguishes the process that delivers from the process that executes.
func role(p crash.Process) string {
	if len(p.Argv) > 2 && slices.Contains(p.Argv[1:], "drain") {
		return roleSyncer
	}
	return crash.DefaultRole(p)
}

// kills is a series: a program that delivers, and the role whose calls are counted.
type kills struct {
	name string
	args []string
	role string
	// make creates the events to deliver; nil means that the run creates them.
	make func(s site)
}

func allKills() []kills {
	return []kills{
		{"acode sync now", []string{"sync", "now"}, crash.RoleAcode, backlog},
		{"acode syncer --once", []string{"syncer", "--once"}, crash.RoleAcode, backlog},
		{"the drain of acode run", []string{"run", "--plan", "../plan.yml"}, roleSyncer, nil},
	}
}

// backlog makes a store with sessions that are not delivered.
func backlog(s site) {
	st := openStore(s.t, homeIn(s.root))
	for _, n := range []int{8, 30, 3} {
		must(s.t, st.create(n).Close())
	}
	must(s.t, st.close())
}

// plan is the plan of the runs of a series.
const plan = `version: 1
task: Write files to deliver
tasks:
  - id: only
    steps:
      - {id: one, write: {path: one.txt, content: "one\n"}}
      - {id: two, run: "echo two; sleep 0.3"}
      - {id: three, write: {path: three.txt, content: "three\n"}}
      - {id: four, run: "echo four"}
`

// killer runs the trials of a series.
type killer struct {
	t      testing.TB
	series kills
	sv     *server
	tracer *crash.Tracer
	// first is the folder of the store with which trials begin.
	first string
	next  int
	tally struct {
		trials, struck, before, after int
		found                         breaches
	}
}

func newKiller(t testing.TB, k kills) *killer {
	t.Helper()
	sv := shared(t)
	r := &killer{t: t, series: k, sv: sv, tracer: crash.NewTracer(), first: scratch(t)}
	t.Cleanup(func() { _ = r.tracer.Close() })
	if k.make != nil {
		k.make(r.site(r.first))
	}
	return r
}

func (k *killer) site(root string) site {
	s := newSite(k.t, root, socket(k.t, k.sv))
	must(k.t, os.WriteFile(filepath.Join(root, "plan.yml"), []byte(plan), 0o600))
	return s
}

// begin returns a new site with a copy of the first store, and clears the server.
func (k *killer) begin() site {
	k.t.Helper()
	k.sv.clear()
	k.next++
	root := filepath.Join(scratch(k.t), fmt.Sprint(k.next))
	copyTree(k.t, k.first, root)
	return k.site(root)
}

// trace runs the program of the series under the tracer, and waits for all its
// descendants.
func (k *killer) trace(s site, at crash.Point) (crash.Result, string) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out bytes.Buffer
	_, err := k.tracer.Run(ctx, crash.Spec{Argv: append([]string{s.program}, k.series.args...), Env: s.environ(), Dir: s.ws(), Roots: []string{homeIn(s.root)},
		Stdout: &out, Stderr: &out, Role: role, At: at})
	must(k.t, err)
	res, err := k.tracer.Wait(ctx)
	must(k.t, err)
	return res, out.String()
}

// points lists the kills at each call of an undisturbed delivery.
func (k *killer) points() (out []crash.Point) {
	k.t.Helper()
	s := k.begin()
	res, said := k.trace(s, crash.Point{})
	if res.ExitCode != 0 {
		k.t.Fatalf("%s: exit %d: %s", k.series.name, res.ExitCode, said)
	}
	if found := judge(k.t, homeIn(s.root), k.sv.admin); len(found) > 0 {
		k.t.Fatalf("%s, undisturbed: %v", k.series.name, found[:min(3, len(found))])
	}
	for n := range res.Calls[k.series.role] {
		for _, when := range []crash.When{crash.Before, crash.Inside, crash.After} {
			out = append(out, crash.Point{Role: k.series.role, N: n + 1, When: when, Victim: crash.VictimSelf})
		}
	}
	k.t.Logf("%s: undisturbed: calls %v", k.series.name, slices.Sorted(maps.Keys(res.Calls)))
	return out
}

// trial kills once, and then lets acode deliver undisturbed.
func (k *killer) trial(at crash.Point) {
	k.t.Helper()
	s := k.begin()
	res, said := k.trace(s, at)
	k.tally.trials++
	var found breaches
	if res.Struck {
		k.tally.struck++
	} else if res.ExitCode != 0 {
		found.add("exit %d without a kill: %.300s", res.ExitCode, said)
	}
	if k.series.make == nil && res.ExitCode != 0 {
		found.add("the run ended with %d when its drain was killed: %.300s", res.ExitCode, said)
	}
	early := closed(k.t, homeIn(s.root), oursSQL)
	mid, delivered := ahead(k.t, early, pgtest.Psql(k.t, k.sv.admin, theirsSQL+` GROUP BY 1, 2`))
	if delivered == 0 {
		k.tally.before++
	} else {
		k.tally.after++
	}
	found = append(found, mid...)
	if exit, said := s.run("sync", "now"); exit != 0 {
		found.add("sync now after the kill: exit %d: %.300s", exit, said)
	}
	found = append(found, judge(k.t, homeIn(s.root), k.sv.admin)...)
	if exit, said := s.run("sync", "verify"); exit != 0 {
		found.add("sync verify at the end: exit %d: %.300s", exit, said)
	}
	for _, f := range found {
		k.tally.found.add("kill %s call %d (%s): %s", at.When, at.N, res.At, f)
	}
	must(k.t, os.RemoveAll(s.root))
}

// FR-053, FR-054: each event arrives once, at whichever call of a delivery acode is
// killed.
func TestKills(t *testing.T) {
	t.Parallel()
	for _, series := range allKills() {
		t.Run(strings.ReplaceAll(series.name, " ", "_"), func(t *testing.T) {
			k := newKiller(t, series)
			all := k.points()
			points := sample(random(t), all, setting(t, "ACODE_DRAIN_KILLS", 4))
			for _, p := range points {
				k.trial(p)
			}
			c := k.tally
			t.Logf("%s: %d of %d points: %d killed, %d before anything was delivered and %d after, %d breaches", series.name, c.trials, len(all), c.struck, c.before, c.after, len(c.found))
			report(t, series.name, c.found)
			if c.struck < len(points)/2 {
				t.Errorf("%s: got %d kills at %d points, want one at most of them", series.name, c.struck, len(points))
			}
			control(t, k, points[0])
		})
	}
}

// control checks that a program that does nothing fails.
func control(t *testing.T, k *killer, p crash.Point) {
	t.Helper()
	s := k.begin()
	s.program = "/bin/true"
	k.trace(s, p)
	s.run("sync", "now")
	if found := judge(t, homeIn(s.root), k.sv.admin); len(found) == 0 {
		t.Errorf("%s: /bin/true passes", k.series.name)
	}
}
