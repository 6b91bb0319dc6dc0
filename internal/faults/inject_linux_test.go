package faults_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/acode-dev/acode/internal/crash"
)

// fault is one way in which a disk breaks.
type fault struct {
	name    string
	kind    crash.Kind
	errno   syscall.Errno
	lasting bool
	// code is the code with which acode stops.
	code  string
	files []string
	// making is the number of points while the store is created.
	making int
	// working is the number of points while steps are executed.
	working int
}

// disks returns the ways in which disks break. SQLite distinguishes only a full disk from
// the others.
func disks() []fault {
	const io, full = "ACODE-STORE-004", "ACODE-STORE-005"
	store := []string{"acode.db", "acode.db-wal"}
	return []fault{
		{"sync", crash.KindSync, syscall.EIO, false, io, store, 2, 12},
		{"write", crash.KindWrite, syscall.EIO, false, io, store, 2, 8},
		{"broken", crash.KindSync, syscall.EIO, true, io, store, 1, 3},
		{"full", crash.KindWrite, syscall.ENOSPC, false, full, store, 2, 6},
		{"stays_full", crash.KindWrite, syscall.ENOSPC, true, full, store, 2, 4},
		{"read_only", crash.KindWrite, syscall.EROFS, true, io, store, 2, 4},
		{"blob", crash.KindSync, syscall.EIO, false, io, []string{"blobs", "new-*"}, 0, 2},
	}
}

// meets returns a test for the calls of acode that a fault can hit in a site.
func (f fault) meets(s site) func(crash.Call) bool {
	return func(c crash.Call) bool {
		if c.Kind != f.kind || c.Role != crash.RoleAcode || !strings.HasPrefix(c.Path, s.store()+"/") {
			return false
		}
		base := filepath.Base(c.Path)
		return slices.ContainsFunc(f.files, func(name string) bool {
			// The patterns are well formed.
			ok, _ := filepath.Match(name, base)
			return ok
		})
	}
}

// points returns a sample of the calls of an undisturbed run, as numbers among the calls
// that the fault can hit.
func (f fault) points(s site, calls []crash.Call, most int, rng *rand.Rand) []int {
	meets, n := f.meets(s), 0
	for _, c := range calls {
		if meets(c) {
			n++
		}
	}
	ns := rng.Perm(n)
	return ns[:min(most, n)]
}

const seed = 8

// stage is a time at which a disk breaks.
type stage struct {
	name string
	// from is the existing store; empty means none.
	from string
	// args are the arguments of acode.
	args func(s site) []string
	// most is the number of points.
	most func(f fault) int
}

// B1–B5: at sampled calls the disk breaks under acode, while it creates the store and
// while it executes.
func TestBrokenDisk(t *testing.T) {
	made := plainSite(t)
	if e := made.acode(t, "resume", "nobody"); e.exit != 14 {
		t.Fatal(e)
	}
	rng := rand.New(rand.NewPCG(seed, seed))
	var table tally
	t.Run("at", func(t *testing.T) {
		for _, st := range []stage{
			{"making", "", func(site) []string { return []string{"resume", "nobody"} }, func(f fault) int { return f.making }},
			{"working", made.store(), func(s site) []string { return []string{"run", "--plan", s.plan()} }, func(f fault) int { return f.working }},
		} {
			whole := st.site(t)
			_, _, calls := whole.traced(t, crash.Point{}, nil, st.args(whole)...)
			for _, f := range disks() {
				points := f.points(whole, calls, st.most(f), rng)
				if len(points) == 0 && st.most(f) > 0 {
					t.Errorf("%s: no such call is made", f.name)
				}
				for _, i := range points {
					t.Run(fmt.Sprintf("%s_%s_%d", st.name, f.name, i+1), func(t *testing.T) {
						t.Parallel()
						table.add(f.name, breakDisk(t, st, f, i+1))
					})
				}
			}
		}
	})
	table.print(t, "disk")
}

func (st stage) site(t *testing.T) site {
	s := plainSite(t)
	if st.from != "" {
		copyTree(t, st.from, s.store())
	}
	return s
}

// breakDisk makes the nth call fail, checks the remains, and resumes on a working disk.
func breakDisk(t *testing.T, st stage, f fault, n int) result {
	s := st.site(t)
	at := crash.Point{Role: crash.RoleAcode, N: n, When: crash.Fail, Errno: f.errno, Lasting: f.lasting}
	e, res, calls := s.traced(t, at, f.meets(s), st.args(s)...)
	if !res.Struck {
		t.Fatalf("the call was not made: %v", e)
	}
	// The last close may fail too. Its data is safe in the log, and all steps are done.
	over := e.exit == 0 && s.read(t).state == "completed" || e.exit == 14 && st.from == ""
	if !over && (e.exit != 1 || e.code() != f.code || !says(e.stdout+e.stderr, "kept")) {
		t.Errorf("at %v: got %v, want exit 1, %s and the kept data", res.At, e, f.code)
	}
	s.checkTold(t, e)
	if f.errno == syscall.EIO && st.from != "" && !over {
		checkSilence(t, s, calls)
	}
	s.checkStatus(t)
	return s.finish(t)
}

func says(text string, words ...string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// checkTold checks B1.
func (s site) checkTold(t *testing.T, e ended) {
	t.Helper()
	d := s.read(t)
	for _, name := range e.told() {
		if d.receipts[name] == 0 {
			t.Errorf("%s is reported done, and the store has no receipt: %v", name, e)
		}
	}
}

// checkSilence checks B2: after its first failed call on the database or its log, acode
// writes and syncs neither.
func checkSilence(t *testing.T, s site, calls []crash.Call) {
	t.Helper()
	failed := false
	for _, c := range calls {
		isStore := c.Path == s.database() || c.Path == s.database()+"-wal"
		if failed && isStore && c.Role == crash.RoleAcode && slices.Contains([]crash.Kind{crash.KindWrite, crash.KindSync, crash.KindTruncate}, c.Kind) {
			t.Errorf("after the failure: %v", c)
			return
		}
		failed = failed || isStore && c.Ret == -int64(syscall.EIO)
	}
}

// checkStatus checks B4. If there is a session, status names it.
func (s site) checkStatus(t *testing.T) {
	t.Helper()
	d := s.read(t)
	e := s.acode(t, "status")
	if d.short == "" {
		if e.exit != 0 && e.exit != 2 || !says(e.stdout+e.stderr, "no session") && !says(e.stdout+e.stderr, "no store") {
			t.Errorf("without a session: %v", e)
		}
		return
	}
	if e.exit != 0 || !says(e.stdout, d.short) {
		t.Errorf("got %v, want exit 0 and session %s", e, d.short)
	}
}

// result counts the errors of a trial.
type result struct{ lost, repeated, wrong int }

// finish resumes on a working disk, or runs again if there is no session yet, and judges
// the end (B5).
func (s site) finish(t *testing.T) result {
	t.Helper()
	args := []string{"resume"}
	if s.read(t).short == "" {
		args = []string{"run", "--plan", s.plan()}
	}
	e := s.acode(t, args...)
	if e.exit != 0 && s.read(t).state != "completed" {
		t.Errorf("on a whole disk: %v", e)
	}
	if v := s.acode(t, "verify"); v.exit != 0 {
		t.Errorf("on a whole disk: %v", v)
	}
	var r result
	for _, f := range s.faultsAtEnd(t) {
		t.Error(f)
		switch {
		case strings.HasPrefix(f, "lost"):
			r.lost++
		case strings.HasPrefix(f, "repeated"):
			r.repeated++
		default:
			r.wrong++
		}
	}
	return r
}

// tally adds up results for a table.
type tally struct {
	mu    sync.Mutex
	names []string
	rows  map[string]*tallyRow
}

type tallyRow struct {
	points int
	result
}

func (y *tally) add(name string, r result) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.rows == nil {
		y.rows = map[string]*tallyRow{}
	}
	row := y.rows[name]
	if row == nil {
		row = &tallyRow{}
		y.rows[name] = row
		y.names = append(y.names, name)
	}
	row.points++
	row.lost += r.lost
	row.repeated += r.repeated
	row.wrong += r.wrong
}

func (y *tally) print(t *testing.T, what string) {
	t.Helper()
	slices.Sort(y.names)
	t.Logf("%-16s %6s %5s %8s %5s", what, "points", "lost", "repeated", "wrong")
	for _, name := range y.names {
		r := y.rows[name]
		t.Logf("%-16s %6d %5d %8d %5d", name, r.points, r.lost, r.repeated, r.wrong)
	}
}
