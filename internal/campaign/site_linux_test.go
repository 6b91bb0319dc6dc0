package campaign_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// acodePath is the tested program. TestMain builds it, and the programs beside it.
var acodePath string

func TestMain(m *testing.M) {
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "campaign-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	acodePath = filepath.Join(dir, "acode")
	if out, err := exec.Command("go", "build", "-o", dir+"/", "../../cmd/acode", "../../cmd/acode-agent").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build acode: %v: %s\n", err, out)
		return 1
	}
	return m.Run()
}

// setting returns a number from the environment.
func setting(t testing.TB, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// site is a place for one session: workspace, store, ledger and gate.
type site struct {
	root string
	// program takes the place of acode.
	program string
	// secret is in the environment of acode; empty for none.
	secret string
}

// scratch returns an empty directory, in memory where possible. A kill leaves the same
// state there.
func scratch(t testing.TB) string {
	t.Helper()
	if info, err := os.Stat("/dev/shm"); err != nil || !info.IsDir() {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp("/dev/shm", "campaign-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// newSite makes a workspace with files and a plan beside it.
func newSite(t testing.TB, dir, plan string, files map[string]string) site {
	t.Helper()
	s := site{root: dir, program: acodePath}
	for _, d := range []string{s.ws(), filepath.Join(dir, "home"), filepath.Join(dir, "config")} {
		must(t, os.MkdirAll(d, 0o755))
	}
	for name, content := range files {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(s.ws(), name)), 0o755))
		must(t, os.WriteFile(filepath.Join(s.ws(), name), []byte(content), 0o644))
	}
	must(t, os.WriteFile(s.plan(), []byte(plan), 0o644))
	must(t, os.WriteFile(s.ledger(), nil, 0o644))
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s site) ws() string     { return filepath.Join(s.root, "ws") }
func (s site) store() string  { return filepath.Join(s.root, "store") }
func (s site) plan() string   { return filepath.Join(s.root, "plan.yml") }
func (s site) ledger() string { return filepath.Join(s.root, "ledger") }
func (s site) gate() string   { return filepath.Join(s.root, "gate") }

// command prepares acode with args and its own environment.
func (s site) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.program, args...)
	cmd.Dir = s.ws()
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(s.root, "home"), "XDG_CONFIG_HOME=" + filepath.Join(s.root, "config"),
		"ACODE_HOME=" + s.store(), "LEDGER=" + s.ledger(), "GATE=" + s.gate(), "NO_COLOR=1",
	}
	if s.secret != "" {
		cmd.Env = append(cmd.Env, "API_TOKEN="+s.secret)
	}
	return cmd
}

// ended describes the end of an acode process.
type ended struct {
	args string
	// exit is -1 for a killed process.
	exit   int
	output string
}

// String returns one line, so that a search for failures finds all of it. The reason
// comes last.
func (e ended) String() string {
	text := strings.ReplaceAll(strings.TrimSpace(e.output), "\n", " | ")
	if len(text) > shownBytes {
		text = "... " + text[len(text)-shownBytes:]
	}
	return fmt.Sprintf("acode %s: exit %d: %s", e.args, e.exit, text)
}

// shownBytes is how much of the output is shown.
const shownBytes = 1000

// codes matches the codes of errors.
var codes = regexp.MustCompile(`ACODE-[A-Z]+-\d+|LOCK-\d+|CKPT-\d+|FILE-\d+`)

// code returns the first error code in the output.
func (e ended) code() string { return codes.FindString(e.output) }

// patience limits every wait for a process. It is long because the machine may be busy.
const patience = 2 * time.Minute

// acode runs acode to its end.
func (s site) acode(t testing.TB, args ...string) ended {
	t.Helper()
	p := s.start(t, args...)
	return p.wait(t)
}

// must runs acode and fails the test unless it exits with 0.
func (s site) must(t testing.TB, args ...string) ended {
	t.Helper()
	e := s.acode(t, args...)
	if e.exit != 0 {
		t.Fatalf("%v", e)
	}
	return e
}

// process is a running acode.
type process struct {
	cmd    *exec.Cmd
	args   string
	output *bytes.Buffer
	cancel context.CancelFunc
}

// start starts acode without waiting for it.
func (s site) start(t testing.TB, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	p := &process{cmd: s.command(ctx, args...), args: strings.Join(args, " "), output: &bytes.Buffer{}, cancel: cancel}
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	must(t, p.cmd.Start())
	return p
}

// The process may have ended.
func (p *process) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

func (p *process) wait(t testing.TB) ended {
	t.Helper()
	defer p.cancel()
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("acode %s: %v", p.args, err)
	}
	return ended{p.args, p.cmd.ProcessState.ExitCode(), p.output.String()}
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	over := time.NewTimer(patience)
	defer over.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-over.C:
			t.Fatalf("waited too long until %s", what)
		}
	}
}

// lines returns the lines of the ledger.
func (s site) lines(t testing.TB) []string {
	t.Helper()
	b, err := os.ReadFile(s.ledger())
	must(t, err)
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// inLedger reports whether a line of the ledger holds text.
func (s site) inLedger(t testing.TB, text string) bool {
	t.Helper()
	return slices.ContainsFunc(s.lines(t), func(l string) bool { return strings.Contains(l, text) })
}

func (s site) closeGate(t testing.TB) {
	t.Helper()
	must(t, os.WriteFile(s.gate(), nil, 0o644))
}

func (s site) openGate(t testing.TB) {
	t.Helper()
	must(t, os.Remove(s.gate()))
}

// id returns the id of the only session, from the name of its head.
func (s site) id(t testing.TB) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(s.store(), "heads", "*"))
	must(t, err)
	if len(all) != 1 {
		t.Fatalf("heads: got %v, want one", all)
	}
	return filepath.Base(all[0])
}

// quiet waits until neither a supervisor nor a command holds a lock below the store.
func (s site) quiet(t testing.TB) {
	t.Helper()
	eventually(t, "no process holds a lock", func() bool { return len(held(t, s.store())) == 0 })
}

// held lists the locked files below dir.
func held(t testing.TB, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(name)
		if err != nil {
			// The file was removed meanwhile.
			return nil
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) != nil {
			out = append(out, name)
		}
		return f.Close()
	})
	must(t, err)
	return out
}

// tree reads files by their path below dir, with their modes.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			out[rel] = info.Mode().String()
			return nil
		}
		b, err := os.ReadFile(name)
		out[rel] = info.Mode().String() + "\n" + string(b)
		return err
	}))
	return out
}

// differences returns the paths at which two trees differ.
func differences(a, b map[string]string) []string {
	var out []string
	for name := range maps.Keys(a) {
		if got, ok := b[name]; !ok || got != a[name] {
			out = append(out, name)
		}
	}
	for name := range maps.Keys(b) {
		if _, ok := a[name]; !ok {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// copyTree copies a directory with the modes and times of its files.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		at := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(at, info.Mode().Perm())
		}
		if !info.Mode().IsRegular() {
			return nil
		}
		b, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(at, b, info.Mode().Perm())
		}
		return errors.Join(err, os.Chtimes(at, info.ModTime(), info.ModTime()))
	})
}

// stamps matches the times when the migration library ran. It notes them for itself, and
// acode does not read them.
var stamps = regexp.MustCompile(`(?m)^(INSERT INTO goose_db_version VALUES\(\d+,\d+,\d+),.*$`)

// unsigned matches rows without facts about a session: the progress of delivery, which
// the server corrects, and counts of work. docs/format.md says that they are not signed.
var unsigned = regexp.MustCompile(`(?m)^INSERT INTO (lanes|outbox|drainer|sync|work|phases) .*$`)

// dump reads all rows of a copy of a store with sqlite3. For an unreadable store it
// returns the error.
func dump(t testing.TB, store string) string {
	t.Helper()
	dir, err := os.MkdirTemp(filepath.Dir(store), "dump-")
	must(t, err)
	defer os.RemoveAll(dir)
	for _, name := range []string{"acode.db", "acode.db-wal"} {
		b, err := os.ReadFile(filepath.Join(store, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	out, err := exec.Command("sqlite3", "-batch", "-bail", filepath.Join(dir, "acode.db"), ".dump").CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%v: %s", err, out)
	}
	return unsigned.ReplaceAllString(stamps.ReplaceAllString(string(out), "$1)"), "")
}
