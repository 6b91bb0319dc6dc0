package campaign_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// gatedPlan has a command that waits while the gate is closed, between commands that do
// not wait.
func gatedPlan() (plan string, steps []string, files map[string]string) {
	plan, steps, files = signPlan(4, "true")
	return behindGate(plan, 0), steps, files
}

// sessionLock and runLock return the lock files.
func (s site) sessionLock(t testing.TB) string {
	return filepath.Join(s.store(), "locks", s.id(t)+".lock")
}

func (s site) runLock(t testing.TB) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(s.store(), "locks", "workspace-*", "run"))
	must(t, err)
	if len(all) != 1 {
		t.Fatalf("run locks: got %v", all)
	}
	return all[0]
}

// vandal damages a lock file that a process holds.
type vandal func(t testing.TB, name string)

func removed(t testing.TB, name string) { must(t, os.Remove(name)) }

func replaced(t testing.TB, name string) {
	b, err := os.ReadFile(name)
	must(t, errors.Join(err, os.WriteFile(name+".new", b, 0o600), os.Rename(name+".new", name)))
}

func symlinked(t testing.TB, name string) {
	other := filepath.Join(filepath.Dir(filepath.Dir(name)), "elsewhere")
	must(t, errors.Join(os.WriteFile(other, nil, 0o600), os.Remove(name), os.Symlink(other, name)))
}

func untouched(testing.TB, string) {}

// holding starts a session whose holder waits for a command at the gate.
func holding(t testing.TB, plan string) (site, *process) {
	t.Helper()
	s := newSite(t, scratch(t), plan, nil)
	s.closeGate(t)
	p := s.start(t, "run", "--plan", s.plan())
	eventually(t, "the first command runs", func() bool { return s.inLedger(t, "begin") })
	return s, p
}

// A4: after any damage to the session's lock file, the lock of the workspace keeps other
// processes out, and the holder finishes.
func TestLockFileOfAHolder(t *testing.T) {
	t.Parallel()
	plan, steps, files := gatedPlan()
	for name, do := range map[string]vandal{"untouched": untouched, "removed": removed, "replaced": replaced, "symlinked": symlinked} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, holder := holding(t, plan)
			do(t, s.sessionLock(t))
			for _, args := range [][]string{{"resume"}, {"resume", s.id(t)}} {
				if e := s.acode(t, args...); e.exit != 16 {
					t.Errorf("%v; want exit 16", e)
				}
			}
			s.openGate(t)
			if e := holder.wait(t); e.exit != 0 {
				t.Errorf("holder: %v", e)
			}
			s.whole(t, steps, files)
		})
	}
}

// A5: without any lock file, another process takes over if it may share the directory,
// whose own lock cannot be removed. The first process, frozen or not, writes nothing
// more, and each effect happens once.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	plan, steps, files := gatedPlan()
	for name, do := range map[string]vandal{"removed": removed, "replaced": replaced} {
		for _, frozen := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s_frozen_%v", name, frozen), func(t *testing.T) {
				t.Parallel()
				s, first := holding(t, plan)
				if frozen {
					first.freeze(t)
				}
				id := s.id(t)
				for _, name := range []string{s.sessionLock(t), s.runLock(t)} {
					do(t, name)
				}
				second := s.start(t, "resume", id, "--share-workspace")
				eventually(t, "the second holds the lock", func() bool { return s.lockPID(t) == second.cmd.Process.Pid && s.epoch(t) == 2 })
				s.openGate(t)
				if e := second.wait(t); e.exit != 0 {
					t.Errorf("second: %v", e)
				}
				first.signal(syscall.SIGCONT)
				if e := first.wait(t); e.exit != 23 {
					t.Errorf("first: %v; want exit 23", e)
				}
				s.whole(t, steps, files)
				if got := s.acquisitions(t); len(got) != 2 {
					t.Errorf("acquisitions by %v, want two", got)
				}
			})
		}
	}
}

// lockPID returns the pid that the session's lock file names.
func (s site) lockPID(t testing.TB) int {
	t.Helper()
	var h struct{ PID int }
	b, err := os.ReadFile(s.sessionLock(t))
	if err != nil || json.Unmarshal(b, &h) != nil {
		return 0
	}
	return h.PID
}

// epoch returns the epoch in a copy of the store.
func (s site) epoch(t testing.TB) int {
	t.Helper()
	return strings.Count(dump(t, s.store()), "'ExecutionAcquired'")
}

// freeze stops p and waits until each of its threads has stopped. One thread receives the
// signal, and on a busy machine the others run until that one is scheduled.
func (p *process) freeze(t testing.TB) {
	t.Helper()
	p.signal(syscall.SIGSTOP)
	eventually(t, "every thread has stopped", func() bool {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
		must(t, err)
		for _, name := range tasks {
			b, err := os.ReadFile(name)
			_, state, ok := strings.Cut(string(b), ") ")
			if err == nil && ok && !strings.HasPrefix(state, "T") && !strings.HasPrefix(state, "Z") {
				return false
			}
		}
		return true
	})
}

// inTransaction reports whether a process holds a lock of the database. The bytes are the
// ones that SQLite locks in the index of its log.
func (s site) inTransaction(t testing.TB) bool {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(s.store(), "acode.db-shm"), os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: 120, Len: 8}
	must(t, unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock))
	return lock.Type != unix.F_UNLCK
}

// A5: frozen anywhere, in particular between two steps, where a claim or the write of a
// file comes next.
func TestFrozenAnywhere(t *testing.T) {
	t.Parallel()
	seed := uint64(setting(t, "ACODE_TORTURE_SEED", 1))
	rng := rand.New(rand.NewPCG(seed, 3))
	exits, inside := map[int]int{}, 0
	for round := range max(6, setting(t, "ACODE_TORTURE_RESUMES", 60)/10) {
		plan, steps, files := signPlan(8, "echo working")
		// On a slow machine the session may end before all processes are frozen.
		gated := round%2 == 0
		if gated {
			plan = behindGate(plan, 6)
		}
		s := newSite(t, scratch(t), plan, nil)
		s.closeGate(t)
		first := s.start(t, "run", "--plan", s.plan())
		eventually(t, "the first command runs", func() bool { return s.inLedger(t, "begin") })
		delay := time.Duration(rng.IntN(60_000)) * time.Microsecond
		<-time.NewTimer(delay).C
		first.freeze(t)
		s.openGate(t)
		if s.inTransaction(t) {
			// No process can write to a database while a frozen process holds its lock.
			inside++
			first.signal(syscall.SIGCONT)
			if e := first.wait(t); e.exit != 0 {
				t.Errorf("seed %d, round %d, frozen after %v: first, not taken over: %v", seed, round, delay, e)
			}
			s.whole(t, steps, files)
			continue
		}
		id := s.id(t)
		replaced(t, s.sessionLock(t))
		replaced(t, s.runLock(t))
		second := s.acode(t, "resume", id, "--share-workspace")
		first.signal(syscall.SIGCONT)
		e := first.wait(t)
		exits[e.exit]++
		switch {
		case second.exit == 0 && e.exit == 23: // taken over
		// The first process had finished before.
		case second.exit == 15 && e.exit == 0 && !gated:
		// The first process froze while it opened the database.
		case second.exit == 16 && e.exit == 0 && strings.Contains(second.output, "SQLITE_BUSY"):
			inside++
		default:
			t.Errorf("seed %d, round %d, frozen after %v: first: %v; second: %v", seed, round, delay, e, second)
		}
		s.whole(t, steps, files)
	}
	t.Logf("exits of those that were frozen: %v; %d frozen inside a transaction were not taken over", exits, inside)
	if exits[23] == 0 {
		t.Errorf("seed %d: no process was frozen before its end and outside a transaction", seed)
	}
}

// A5: every lock file was replaced under the first of two running processes. Both may
// give up, but no effect happens twice, and the next resume finishes. The second process
// may also find files that the first has written since, and refuse.
func TestBothAwake(t *testing.T) {
	t.Parallel()
	seed := uint64(setting(t, "ACODE_TORTURE_SEED", 1))
	rng := rand.New(rand.NewPCG(seed, 5))
	exits := map[string]int{}
	for round := range max(6, setting(t, "ACODE_TORTURE_RESUMES", 60)/10) {
		plan, steps, files := signPlan(8, "echo working")
		s := newSite(t, scratch(t), plan, nil)
		first := s.start(t, "run", "--plan", s.plan())
		eventually(t, "the first command runs", func() bool { return s.inLedger(t, "begin") })
		delay := time.Duration(rng.IntN(60_000)) * time.Microsecond
		<-time.NewTimer(delay).C
		id := s.id(t)
		replaced(t, s.sessionLock(t))
		replaced(t, s.runLock(t))
		second := s.acode(t, "resume", id, "--share-workspace")
		e := first.wait(t)
		pair := fmt.Sprintf("%d and %d", e.exit, second.exit)
		exits[pair]++
		switch pair {
		case "23 and 0", "0 and 15", "0 and 17", "0 and 23":
		case "23 and 23":
			s.must(t, "resume", id)
		default:
			t.Errorf("seed %d, round %d, replaced after %v: first: %v; second: %v", seed, round, delay, e, second)
		}
		s.whole(t, steps, files)
	}
	t.Logf("exits of two that are awake: %v", exits)
}
