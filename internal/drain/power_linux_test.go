package main_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/internal/disk"
	"github.com/acode-dev/acode/internal/pgtest"
)

// FR-053, FR-054: the power of a store's disk is cut at any moment, while sessions
// execute and are delivered. Each event arrives once, and the server never has an event
// that the store has lost.
func TestPowerCuts(t *testing.T) {
	t.Parallel()
	if !disk.Alone() {
		out, err := disk.AloneCommand("-test.run=^TestPowerCuts$", "-test.v", "-test.timeout=2h").CombinedOutput()
		t.Logf("%s", out)
		must(t, err)
		return
	}
	n := setting(t, "ACODE_DRAIN_DISKS", 2)
	for _, k := range disk.Kinds() {
		if err := k.Possible(); err != nil {
			t.Logf("power cuts on %s are left out: %v", k.Name, err)
			continue
		}
		t.Run(k.Name, func(t *testing.T) { newPower(t, k).cuts(n) })
	}
}

// power cuts the power of a disk that holds an installation of acode.
type power struct {
	t    testing.TB
	kind disk.Kind
	dir  string
	sv   *server
	rng  *rand.Rand
	// first has a workspace and no store yet.
	first *disk.Disk
	disk  *disk.Disk
	found breaches

	// struck counts cuts before the end. ahead counts cuts while the server had events.
	struck, ahead int
}

func newPower(t testing.TB, k disk.Kind) *power {
	t.Helper()
	p := &power{t: t, kind: k, dir: t.TempDir(), sv: shared(t), rng: random(t)}
	var err error
	p.disk, err = k.Format(t.Context(), p.dir)
	must(t, err)
	p.mounted(func(s site) {
		must(t, os.WriteFile(filepath.Join(s.root, "plan.yml"), []byte(plan), 0o600))
		f, err := os.Open(s.root)
		must(t, err)
		must(t, unix.Syncfs(int(f.Fd())))
		must(t, f.Close())
	})
	p.first = p.disk.Fork()
	return p
}

// mounted calls do while the disk is mounted.
func (p *power) mounted(do func(s site)) {
	p.t.Helper()
	m, err := p.kind.Mount(p.disk, p.dir)
	must(p.t, err)
	defer func() { must(p.t, m.Close()) }()
	do(newSite(p.t, filepath.Join(m.Dir(), "root"), p.sv.role))
}

// live runs acode until the disk has seen the given number of writes, and then cuts the
// power. It returns acode's exit status, or -1 if the cut came first.
func (p *power) live(writes int, args ...string) (exit int) {
	p.t.Helper()
	n := 0
	p.mounted(func(s site) {
		reached, release := p.disk.Stop(p.disk.Len() + writes)
		cmd := exec.Command(s.program, args...)
		cmd.Dir, cmd.Env = s.ws(), s.environ()
		must(p.t, cmd.Start())
		ended := make(chan struct{})
		go func() {
			// The status is checked below.
			_ = cmd.Wait()
			close(ended)
		}()
		exit = -1
		select {
		case <-reached:
			p.struck++
		case <-ended:
			exit = cmd.ProcessState.ExitCode()
			release()
			_, release = p.disk.Stop(0)
		}
		n = p.disk.Len()
		p.kill()
		release()
		<-ended
		for p.kill() > 0 {
			<-time.After(time.Millisecond)
		}
	})
	p.disk = p.disk.Cut(n, p.rng)
	return exit
}

// kill ends the processes that use the disk, and returns their number. A process that
// waits for a stopped disk dies when the disk is released, without a further result.
func (p *power) kill() (n int) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	must(p.t, err)
	for _, dir := range dirs {
		// A process that has ended has no environment.
		environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
		cwd, _ := os.Readlink(filepath.Join(dir, "cwd"))
		if pid := atoi(p.t, filepath.Base(dir)); pid != os.Getpid() && (strings.Contains(string(environ), p.dir) || strings.HasPrefix(cwd, p.dir)) {
			_ = unix.Kill(pid, unix.SIGKILL)
			n++
		}
	}
	return n
}

// trial executes a plan, cuts the power a few times, and lets acode finish undisturbed.
func (p *power) trial(writes int) breaches {
	p.t.Helper()
	p.sv.clear()
	p.disk = p.first.Fork()
	var found breaches
	args := []string{"run", "--plan", "../plan.yml"}
	for cuts := 1 + p.rng.IntN(3); cuts > 0; cuts-- {
		if exit := p.live(1+p.rng.IntN(writes), args...); exit > 0 && exit != 14 && exit != 20 {
			found.add("acode %s: exit %d", args[0], exit)
		}
		p.mounted(func(s site) { found = append(found, p.midway(s)...) })
		args = []string{"resume", "--uncertain=rerun"}
	}
	p.mounted(func(s site) { found = append(found, finish(s, p.sv)...) })
	return found
}

// midway compares the state after a cut with the server.
func (p *power) midway(s site) breaches {
	ours := ""
	if made(s) {
		ours = closed(p.t, homeIn(s.root), oursSQL)
	}
	theirs := pgtest.Psql(p.t, p.sv.admin, theirsSQL+` GROUP BY 1, 2`)
	found, delivered := ahead(p.t, ours, theirs)
	if delivered > 0 {
		p.ahead++
	}
	return found
}

// made reports whether the store has its tables, because a cut may leave an unfinished
// store.
func made(s site) bool {
	s.t.Helper()
	return strings.TrimSpace(closed(s.t, homeIn(s.root), `SELECT count(*) FROM sqlite_master WHERE name IN ('sessions', 'lanes')`)) == "2"
}

// finish lets acode complete the session, or run again if there is none, and judges.
func finish(s site, sv *server) (found breaches) {
	exit, said := s.run("resume", "--uncertain=rerun")
	if exit == 14 && (!made(s) || closed(s.t, homeIn(s.root), `SELECT 1 FROM sessions WHERE state = 'completed'`) == "") {
		exit, said = s.run("run", "--plan", "../plan.yml")
	}
	if exit != 0 && exit != 14 {
		found.add("at the end: exit %d: %.300s", exit, said)
	}
	for _, args := range [][]string{{"sync", "now"}, {"sync", "verify"}, {"verify"}} {
		if exit, said := s.run(args...); exit != 0 {
			found.add("%v at the end: exit %d: %.300s", args, exit, said)
		}
	}
	return append(found, judge(s.t, homeIn(s.root), sv.admin)...)
}

// cuts executes n trials, after an undisturbed one and one on a disk that forgets
// everything.
func (p *power) cuts(n int) {
	p.t.Helper()
	p.sv.clear()
	p.disk = p.first.Fork()
	from := p.disk.Len()
	p.mounted(func(s site) { report(p.t, "undisturbed", finish(s, p.sv)) })
	writes := p.disk.Len() - from
	p.disk = p.first.Fork()
	p.mounted(func(s site) {
		if found := finish(s, p.sv); !strings.Contains(fmt.Sprint(found), "stray: ") {
			p.t.Errorf("a disk that forgets everything: got %v, want events that the store has lost", found)
		}
	})
	for i := range n {
		for _, f := range p.trial(writes) {
			p.found.add("trial %d: %s", i, f)
		}
	}
	p.t.Logf("%s: %d trials, %d cuts before the end, %d while the server had something, %d breaches", p.kind.Name, n, p.struck, p.ahead, len(p.found))
	report(p.t, p.kind.Name, p.found)
}
