package campaign_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// acquisitions returns the processes that acquired the session, in order: one pid for
// each epoch.
func (s site) acquisitions(t testing.TB) (pids []int) {
	t.Helper()
	out := s.must(t, "session", "export", s.id(t)).output
	var doc struct {
		Events []struct {
			Type    string
			Epoch   uint64
			Payload struct{ PID int }
		}
	}
	must(t, json.Unmarshal([]byte(out), &doc))
	last := uint64(0)
	for _, e := range doc.Events {
		if e.Epoch < last {
			t.Errorf("an event of epoch %d follows one of epoch %d", e.Epoch, last)
		}
		last = e.Epoch
		if e.Type == "ExecutionAcquired" {
			pids = append(pids, e.Payload.PID)
		}
	}
	if len(pids) == 0 {
		t.Fatalf("no acquisition in %.300s", out)
	}
	return pids
}

// executes returns the one of pids that acquired the session according to the journal, or
// 0.
func (s site) executes(t testing.TB, pids []int) int {
	t.Helper()
	for line := range strings.Lines(dump(t, s.store())) {
		for _, pid := range pids {
			if strings.Contains(line, "'ExecutionAcquired'") && strings.Contains(line, fmt.Sprintf(`"pid":%d,`, pid)) {
				return pid
			}
		}
	}
	return 0
}

// whole checks the end: each effect happened once, and the files and the state are right.
func (s site) whole(t testing.TB, steps []string, files map[string]string) {
	t.Helper()
	for _, w := range judgeLedger(s.lines(t), steps) {
		t.Error(w)
	}
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(s.ws(), name)); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
		}
	}
	if d := dump(t, s.store()); !strings.Contains(d, "'completed'") {
		t.Error("the session is not completed")
	}
	s.must(t, "verify")
}

// crowd is many resumes of one session at once.
type crowd struct {
	site   site
	doomed int
	others int
	rng    *rand.Rand
	mu     sync.Mutex
	// killed holds, by pid, the processes that the kill really ended.
	killed map[int]bool
	exits  map[int]int
}

// kill starts the doomed processes and kills them one after another. It picks a random
// process, or sometimes the lock's holder, so that holders are among them. The first
// victim always executes.
func (c *crowd) kill(t *testing.T, id string, group *sync.WaitGroup) {
	doomed := map[int]*process{}
	for i := range c.doomed {
		args := []string{"resume", id}
		if i%8 != 7 {
			args = append(args, "--wait=60s")
		}
		p := c.site.start(t, args...)
		doomed[p.cmd.Process.Pid] = p
		group.Go(func() { c.end(p.cmd.Process.Pid, p.wait(t), true) })
	}
	for i := 0; len(doomed) > 0; i++ {
		c.pause(5 + c.rng.IntN(30))
		pids := slices.Sorted(maps.Keys(doomed))
		victim := pids[c.rng.IntN(len(pids))]
		switch {
		case i == 0:
			eventually(t, "one of the doomed executes", func() bool {
				victim = c.site.executes(t, pids)
				return victim != 0
			})
		case i%4 == 0:
			victim = c.holder(id, doomed, victim)
		}
		doomed[victim].signal(9)
		delete(doomed, victim)
	}
}

func (c *crowd) pause(ms int) { <-time.NewTimer(time.Duration(ms) * time.Millisecond).C }

// holder waits a moment until one of the processes holds the lock, and lets it begin its
// work.
func (c *crowd) holder(id string, of map[int]*process, otherwise int) int {
	for range 60 {
		var h struct{ PID int }
		b, err := os.ReadFile(filepath.Join(c.site.store(), "locks", id+".lock"))
		if err == nil && json.Unmarshal(b, &h) == nil && of[h.PID] != nil {
			c.pause(10 + c.rng.IntN(60))
			return h.PID
		}
		c.pause(5)
	}
	return otherwise
}

func (c *crowd) end(pid int, e ended, doomed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.exit == -1 && doomed {
		c.killed[pid] = true
		return
	}
	c.exits[e.exit]++
}

// A4: many processes resume at once, two thirds of them are killed, and at most one
// executes at any time.
func TestCrowd(t *testing.T) {
	t.Parallel()
	n := setting(t, "ACODE_TORTURE_RESUMES", 60)
	// The last command waits for the gate, so the session cannot end during the kills.
	// Otherwise a doomed process might end it.
	plan, steps, files := signPlan(max(16, n/3), "sleep 0.02")
	plan = behindGate(plan, len(steps)-1)
	c := &crowd{site: newSite(t, scratch(t), plan, nil), doomed: n * 2 / 3, others: n - n*2/3, killed: map[int]bool{}, exits: map[int]int{},
		rng: rand.New(rand.NewPCG(uint64(setting(t, "ACODE_TORTURE_SEED", 1)), 0))}
	c.site.closeGate(t)
	p := c.site.start(t, "run", "--plan", c.site.plan())
	eventually(t, "a command runs", func() bool { return c.site.inLedger(t, "begin") })
	p.signal(9)
	p.wait(t)
	id := c.site.id(t)
	var group sync.WaitGroup
	c.kill(t, id, &group)
	c.site.openGate(t)
	for range c.others {
		p := c.site.start(t, "resume", id, "--wait=60s")
		group.Go(func() { c.end(p.cmd.Process.Pid, p.wait(t), false) })
	}
	group.Wait()
	holders := 0
	for _, pid := range c.site.acquisitions(t) {
		if c.killed[pid] {
			holders++
		}
	}
	t.Logf("%d resumes at once, %d killed, %d of them while executing; exits of the others: %v", n, len(c.killed), holders, c.exits)
	if holders == 0 {
		t.Error("no holder was killed while it executed")
	}
	if c.exits[0] != 1 || c.exits[0]+c.exits[15]+c.exits[16] != n-len(c.killed) {
		t.Errorf("exits: got %v, want 0 once, 15 and 16 for the others", c.exits)
	}
	c.site.whole(t, steps, files)
}

// The judge fails for a program that does nothing.
func TestCrowdOfNothing(t *testing.T) {
	plan, steps, _ := signPlan(3, "true")
	s := newSite(t, scratch(t), plan, nil)
	s.program = "/bin/true"
	if e := s.acode(t, "resume"); e.exit != 0 || len(judgeLedger(s.lines(t), steps)) == 0 {
		t.Errorf("%v: the ledger of a program that does nothing is passed: %q", e, strconv.Itoa(len(steps)))
	}
}
