package faults_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/acode-dev/acode/internal/crash"
)

// supervisorFaults returns the faults of calls of a supervisor on its records of
// commands.
func supervisorFaults() []fault {
	return []fault{
		{name: "sync", kind: crash.KindSync, errno: syscall.EIO, working: 12},
		{name: "write", kind: crash.KindWrite, errno: syscall.EIO, working: 6},
		{name: "full", kind: crash.KindWrite, errno: syscall.ENOSPC, working: 6},
		{name: "broken", kind: crash.KindSync, errno: syscall.EIO, lasting: true, working: 3},
	}
}

// B5: at sampled calls the disk breaks under the supervisor. No step counts as failed,
// because no command failed. Each effect of a command happens once, and acode asks if the
// supervisor could not record the command's end.
func TestBrokenDiskOfTheSupervisor(t *testing.T) {
	whole := plainSite(t)
	meets := func(s site, f fault) func(crash.Call) bool {
		return func(c crash.Call) bool {
			return c.Kind == f.kind && c.Role == crash.RoleSupervisor && strings.HasPrefix(c.Path, s.store()+"/commands/")
		}
	}
	_, _, calls := whole.traced(t, crash.Point{}, nil, "run", "--plan", whole.plan())
	rng := rand.New(rand.NewPCG(seed, seed))
	var table tally
	t.Run("at", func(t *testing.T) {
		for _, f := range supervisorFaults() {
			n := 0
			for _, c := range calls {
				if meets(whole, f)(c) {
					n++
				}
			}
			if n == 0 {
				t.Errorf("%s: no such call is made", f.name)
			}
			for _, i := range rng.Perm(n)[:min(f.working, n)] {
				t.Run(fmt.Sprintf("%s_%d", f.name, i+1), func(t *testing.T) {
					t.Parallel()
					s := plainSite(t)
					at := crash.Point{Role: crash.RoleSupervisor, N: i + 1, When: crash.Fail, Errno: f.errno, Lasting: f.lasting}
					e, res, _ := s.traced(t, at, meets(s, f), "run", "--plan", s.plan())
					if !res.Struck {
						t.Fatalf("the call was not made: %v", e)
					}
					if e.exit != 0 && e.exit != 1 && e.exit != 20 {
						t.Errorf("at %v: got %v", res.At, e)
					}
					s.checkTold(t, e)
					table.add(f.name, s.decide(t, e))
					if d := s.read(t); d.failures != 0 {
						t.Errorf("at %v: %d failures are recorded of steps whose commands did not fail: %v", res.At, d.failures, e)
					}
				})
			}
		}
	})
	table.print(t, "supervisor")
}

// decide answers acode's questions from the ledger until the session ends, and judges the
// end.
func (s site) decide(t *testing.T, e ended) result {
	t.Helper()
	for e.exit == 20 {
		before := s.read(t)
		b, err := os.ReadFile(s.ledger())
		must(t, err)
		answer := "rerun"
		if lines := strings.Count(string(b), "\n"); lines > before.signed() {
			answer = "done"
		}
		e = s.acode(t, "resume", "--uncertain="+answer)
	}
	return s.finish(t)
}

// signed counts the receipts of steps that sign the ledger.
func (d dump) signed() int {
	n := 0
	for _, task := range tasks {
		for _, id := range signs {
			n += d.receipts[task+"/"+id]
		}
	}
	return n
}
