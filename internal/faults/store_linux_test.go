package faults_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acode-dev/acode/internal/crash"
	"golang.org/x/sys/unix"
)

// halfDone executes half of the plan, until the disk of the site fails. It returns the
// steps reported done.
func (s site) halfDone(t testing.TB) (told []string) {
	t.Helper()
	at := crash.Point{Role: crash.RoleAcode, N: 12, When: crash.Fail, Errno: syscall.EIO}
	counts := func(c crash.Call) bool { return c.Kind == crash.KindSync && c.Path == s.database()+"-wal" }
	if e := s.acode(t, "resume", "nobody"); e.exit != 14 {
		t.Fatal(e)
	}
	e, res, _ := s.traced(t, at, counts, "run", "--plan", s.plan())
	told = e.told()
	if !res.Struck || len(told) == 0 || len(told) == stepsOfTask*len(tasks) {
		t.Fatalf("half done: %v", e)
	}
	return told
}

// tree returns the content of every file below a directory.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	must(t, filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasSuffix(at, "-shm") {
			return err
		}
		b, err := os.ReadFile(at)
		// SQLite creates an empty log when it reads a database without one.
		if len(b) > 0 || !strings.HasSuffix(at, "-wal") {
			files[strings.TrimPrefix(at, dir+"/")] = string(b)
		}
		return err
	}))
	return files
}

// changed lists the files that differ. A new lock file without a holder does not count:
// acode locks a session before it creates it, and keeps the file if the creation fails.
func changed(a, b map[string]string) (names []string) {
	for name := range a {
		if b[name] != a[name] {
			names = append(names, name)
		}
	}
	for name, content := range b {
		if _, ok := a[name]; !ok && !(filepath.Ext(name) == ".lock" && strings.TrimSpace(content) == "") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// damage is a change of a store between two processes.
type damage struct {
	name string
	do   func(t *testing.T, s site)
	exit int
	// says lists the texts that the output must contain.
	says []string
}

func damages() []damage {
	database := func(f func(b []byte) []byte) func(*testing.T, site) {
		return func(t *testing.T, s site) {
			must(t, os.RemoveAll(s.database()+"-wal"))
			rewrite(t, s.database(), f)
		}
	}
	log := func(f func(b []byte) []byte) func(*testing.T, site) {
		return func(t *testing.T, s site) { rewrite(t, s.database()+"-wal", f) }
	}
	half := func(b []byte) []byte { return b[:len(b)/2] }
	none := func([]byte) []byte { return nil }
	noise := func(b []byte) []byte {
		rng := rand.New(rand.NewPCG(seed, 2))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	middle := func(b []byte) []byte {
		noise(b[len(b)/4 : len(b)/2])
		return b
	}
	mode := func(name string, m fs.FileMode) func(*testing.T, site) {
		return func(t *testing.T, s site) { must(t, os.Chmod(filepath.Join(s.store(), name), m)) }
	}
	all := []damage{
		{"database_half", database(half), 18, []string{"trusted", "nothing was changed"}},
		{"database_empty", database(none), 18, []string{"trusted", "nothing was changed"}},
		{"database_noise", database(noise), 18, []string{"trusted", "nothing was changed"}},
		{"database_noise_in_the_middle", database(middle), 18, []string{"trusted", "nothing was changed"}},
		{"database_empty_beside_its_log", func(t *testing.T, s site) { rewrite(t, s.database(), none) }, 18, []string{"trusted", "nothing was changed"}},
		{"database_gone", func(t *testing.T, s site) { must(t, os.Remove(s.database())) }, 18, []string{"trusted", "nothing was changed"}},
		{"log_half", log(func(b []byte) []byte { return b[:len(b)/20] }), 18, []string{"trusted", "nothing was changed"}},
		{"log_noise", log(noise), 18, []string{"trusted", "nothing was changed"}},
		{"log_gone", func(t *testing.T, s site) { must(t, os.Remove(s.database()+"-wal")) }, 18, []string{"trusted", "nothing was changed"}},
		{"newer", func(t *testing.T, s site) { sqlite3(t, s.database(), "PRAGMA user_version = 99") }, 3, []string{"newer acode", "nothing was changed"}},
		{"database_open_to_others", mode("acode.db", 0o644), 3, []string{"open to others", "nothing was changed"}},
		{"database_is_a_directory", func(t *testing.T, s site) {
			must(t, os.Rename(s.database(), s.database()+".real"))
			must(t, os.Mkdir(s.database(), 0o755))
		}, 3, []string{"acode.db: the path is not a regular file", "nothing was changed"}},
		{"home_open_to_others", mode("", 0o755), 3, []string{"open to others", "nothing was changed"}},
		{"database_is_a_link", func(t *testing.T, s site) {
			must(t, os.Rename(s.database(), s.database()+".real"))
			must(t, os.Symlink(s.database()+".real", s.database()))
		}, 3, []string{"symbolic link", "nothing was changed"}},
	}
	if os.Getuid() == 0 && os.Lchown(os.DevNull, 0, 0) == nil && canOwn() {
		all = append(all, damage{"database_of_another", func(t *testing.T, s site) { must(t, os.Chown(s.database(), 12345, -1)) }, 3, []string{"belongs to user 12345", "nothing was changed"}})
	}
	return all
}

// canOwn reports whether the test can change the owner of files. A user namespace with
// one user cannot.
func canOwn() bool {
	b, err := os.ReadFile("/proc/self/uid_map")
	f := strings.Fields(string(b))
	return err == nil && len(f) == 3 && len(f[2]) > 5
}

func rewrite(t testing.TB, name string, f func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(name)
	must(t, err)
	must(t, os.WriteFile(name, f(b), 0o600))
}

func sqlite3(t testing.TB, database, query string) {
	t.Helper()
	if out, err := exec.Command("sqlite3", database, query).CombinedOutput(); err != nil {
		t.Fatalf("sqlite3 %s: %v: %s", query, err, out)
	}
}

// resume and run refuse a store that is damaged, from a newer acode, or not private to
// the user. They print one clear error and change no byte outside the log. After the
// original store is put back, it resumes.
func TestDamagedStore(t *testing.T) {
	s := plainSite(t)
	s.halfDone(t)
	kept := filepath.Join(s.root, "kept")
	copyTree(t, s.store(), kept)
	putBack := func(t *testing.T) {
		must(t, os.RemoveAll(s.store()))
		copyTree(t, kept, s.store())
	}
	for _, d := range damages() {
		t.Run(d.name, func(t *testing.T) {
			putBack(t)
			d.do(t, s)
			before := tree(t, s.store())
			workspace := tree(t, s.ws())
			for _, args := range [][]string{{"resume"}, {"run", "--plan", s.plan()}, {"status"}} {
				if args[0] == "run" && strings.HasPrefix(d.name, "log_") {
					// Other sessions of the store are not affected.
					continue
				}
				e := s.acode(t, args...)
				answered := args[0] == "status" && e.exit == 0
				if !answered && (e.exit != d.exit || args[0] != "status" && !says(e.stderr, d.says...)) {
					t.Errorf("got %v, want exit %d and %q", e, d.exit, d.says)
				}
				if strings.HasPrefix(d.name, "log_") {
					// The recovery of the log comes before any check.
					continue
				}
				// The log of acode records the attempt (NFR-014).
				logged := func(name string) bool { return name == "log/acode.log" }
				if diff := slices.DeleteFunc(changed(before, tree(t, s.store())), logged); len(diff) > 0 {
					t.Errorf("%s: changed %v", e.args, diff)
				}
			}
			if diff := changed(workspace, tree(t, s.ws())); len(diff) > 0 {
				t.Errorf("changed %v in the workspace", diff)
			}
		})
	}
	putBack(t)
	s.finish(t)
}

// The store is on a read-only disk: run and resume report this, and status and verify
// answer. Once the disk is writable, resume completes.
func TestReadOnlyDisk(t *testing.T) {
	s := fullDisk(t, enoughBytes)
	told := s.halfDone(t)
	writable := s.readOnly(t)
	for _, args := range [][]string{{"resume"}, {"run", "--plan", s.plan()}} {
		if e := s.acode(t, args...); e.exit != 1 && e.exit != 3 || e.code() != "ACODE-STORE-006" || !says(e.stderr, "kept") {
			t.Errorf("read-only: %v, want exit 1 and ACODE-STORE-006", e)
		}
	}
	s.checkStatus(t)
	if e := s.acode(t, "verify"); e.exit != 0 {
		t.Errorf("read-only: %v", e)
	}
	if e := s.acode(t, "status"); stepsDone(e) < len(told) {
		t.Errorf("status: got %v, want at least %d steps done", e, len(told))
	}
	writable()
	s.finish(t)
}

// stepsDone returns the number of completed steps in the output of status, or -1.
func stepsDone(e ended) int {
	n := -1
	_, rest, _ := strings.Cut(e.stdout, "Progress: ")
	// n stays -1 if there is no number.
	_, _ = fmt.Sscan(rest, &n)
	return n
}

// readOnly makes the disk read-only.
func (s site) readOnly(t *testing.T) (undo func()) {
	t.Helper()
	if canMount() {
		must(t, unix.Mount("none", s.disk, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		return func() { must(t, unix.Mount("none", s.disk, "tmpfs", unix.MS_REMOUNT, "")) }
	}
	for name, mode := range map[string]fs.FileMode{s.database(): 0o400, s.database() + "-wal": 0o400, s.store(): 0o500} {
		must(t, os.Chmod(name, mode))
	}
	return func() {
		for name, mode := range map[string]fs.FileMode{s.store(): 0o700, s.database(): 0o600, s.database() + "-wal": 0o600} {
			must(t, os.Chmod(name, mode))
		}
	}
}

// The store disappears under a running acode. acode stops with a code, and a restored
// store holds every step that it reported done. If the records of commands are gone too,
// the outcome of the running command is unknown, and the test answers acode's question
// truthfully.
func TestStoreGoesAway(t *testing.T) {
	for name, tt := range map[string]struct {
		files []string
		exits []int
	}{
		"database": {[]string{"acode.db", "acode.db-wal", "acode.db-shm"}, []int{1}},
		"log":      {[]string{"acode.db-wal"}, []int{1}},
		"all":      {[]string{""}, []int{1, 18}},
	} {
		t.Run(name, func(t *testing.T) {
			s := plainSite(t)
			away := filepath.Join(s.root, "away")
			e := s.runWhile(t, func() { move(t, tt.files, s.store(), away) })
			if !slices.Contains(tt.exits, e.exit) || e.code() == "" || len(tt.exits) == 1 && !says(e.stdout, "removed or replaced", "kept") {
				t.Errorf("got %v, want exit %v, a code and the kept data", e, tt.exits)
			}
			if name == "all" {
				if e := s.acode(t, "status"); !says(e.stdout+e.stderr, "no store") {
					t.Errorf("without a store: %v", e)
				}
				must(t, os.RemoveAll(s.store()))
			}
			// acode may have created files since.
			for _, f := range tt.files {
				must(t, os.RemoveAll(filepath.Join(s.store(), f)))
			}
			move(t, tt.files, away, s.store())
			s.checkTold(t, e)
			s.checkStatus(t)
			// The exit of the command may not have been recorded.
			if name == "all" && s.acode(t, "resume").exit == 20 {
				s.acode(t, "resume", "--uncertain=done")
			}
			if s.read(t).state != "completed" {
				s.finish(t)
			} else if f := s.faultsAtEnd(t); len(f) > 0 {
				t.Error(f)
			}
		})
	}
}

func move(t *testing.T, files []string, from, to string) {
	t.Helper()
	for _, f := range files {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(to, f)), 0o700))
		must(t, os.Rename(filepath.Join(from, f), filepath.Join(to, f)))
	}
}

// runWhile runs the plan and calls do while its first command runs.
func (s site) runWhile(t *testing.T, do func()) ended {
	t.Helper()
	gate := filepath.Join(s.root, "gate")
	must(t, os.WriteFile(gate, nil, 0o600))
	waits := strings.Replace(planText, signing, signing+"; while test -e "+gate+"; do sleep 0.02; done", 1)
	if waits == planText {
		t.Fatal("no command of the plan signs the ledger")
	}
	must(t, os.WriteFile(s.plan(), []byte(waits), 0o600))
	cmd := exec.CommandContext(t.Context(), s.program, "run", "--plan", s.plan())
	cmd.Dir, cmd.Env = s.ws(), s.environ()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, cmd.Start())
	s.untilSigned(t)
	do()
	must(t, os.Remove(gate))
	// The exit status is checked below.
	_ = cmd.Wait()
	return ended{"run", cmd.ProcessState.ExitCode(), out.String(), ""}
}

// untilSigned waits for the first line of the ledger.
func (s site) untilSigned(t *testing.T) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		if b, err := os.ReadFile(s.ledger()); err == nil && len(b) > 0 {
			return
		}
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatal("no command ran")
		}
	}
}
