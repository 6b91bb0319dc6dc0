package faults_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/acode-dev/acode/internal/crash"
)

// site is a place for one session. The disk holds workspace and store and may be broken;
// the rest is outside it.
type site struct {
	root string
	disk string
	// program takes the place of acode.
	program string
	// limit is the most bytes of a file; 0 means any size.
	limit int64
	// away means that acode starts outside the workspace.
	away bool
}

// newSite makes a workspace on an existing disk, with a plan outside the disk.
func newSite(t testing.TB, root, disk string) site {
	t.Helper()
	s := site{root: root, disk: disk, program: acodePath}
	for _, dir := range []string{s.ws(), filepath.Join(root, "user")} {
		must(t, os.MkdirAll(dir, 0o755))
	}
	must(t, os.WriteFile(s.plan(), []byte(planText), 0o644))
	must(t, os.WriteFile(s.ledger(), nil, 0o644))
	return s
}

// plainSite returns a site on the ordinary disk, in memory where possible.
func plainSite(t testing.TB) site {
	t.Helper()
	dir := scratch(t)
	return newSite(t, dir, filepath.Join(dir, "disk"))
}

func scratch(t testing.TB) string {
	t.Helper()
	parent := ""
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		parent = "/dev/shm"
	}
	dir, err := os.MkdirTemp(parent, "faults-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s site) ws() string       { return filepath.Join(s.disk, "ws") }
func (s site) store() string    { return filepath.Join(s.disk, "store") }
func (s site) database() string { return filepath.Join(s.store(), "acode.db") }
func (s site) plan() string     { return filepath.Join(s.root, "plan.yml") }
func (s site) ledger() string   { return filepath.Join(s.root, "ledger") }

func (s site) environ() []string {
	user := filepath.Join(s.root, "user")
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + user, "XDG_CONFIG_HOME=" + user, "TMPDIR=" + user,
		"ACODE_HOME=" + s.store(), "LEDGER=" + s.ledger(), "NO_COLOR=1"}
}

func (s site) argv(args ...string) []string {
	if s.away {
		args = append(args, "-C", s.ws())
	}
	if s.limit == 0 {
		return append([]string{s.program}, args...)
	}
	limited := fmt.Sprintf(`ulimit -f %d; exec "$0" "$@"`, s.limit/512)
	return append([]string{"/bin/sh", "-c", limited, s.program}, args...)
}

// dir returns the directory in which acode starts.
func (s site) dir() string {
	if s.away {
		return s.root
	}
	return s.ws()
}

// ended describes the end of an acode process.
type ended struct {
	args string
	// exit is -1 if a signal ended it.
	exit           int
	stdout, stderr string
}

// String returns one line, so that a search for failures finds all of it.
func (e ended) String() string {
	return fmt.Sprintf("acode %s: exit %d: %s", e.args, e.exit, strings.ReplaceAll(strings.TrimSpace(e.stdout+e.stderr), "\n", " | "))
}

// codes matches the codes of errors.
var codes = regexp.MustCompile(`ACODE-[A-Z]+-\d+|LOCK-\d+|CKPT-\d+|FILE-\d+`)

// code returns the first error code in the output.
func (e ended) code() string { return codes.FindString(e.stderr + e.stdout) }

// patience limits every wait for a process.
const patience = 2 * time.Minute

// acode runs acode to its end.
func (s site) acode(t testing.TB, args ...string) ended {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	argv := s.argv(args...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = s.dir(), s.environ()
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("acode %s: %v %v: %s", strings.Join(args, " "), err, ctx.Err(), stderr.String())
	}
	return ended{strings.Join(args, " "), cmd.ProcessState.ExitCode(), out.String(), stderr.String()}
}

// traced runs acode under a tracer that makes calls fail, and returns the recorded calls.
// All processes of acode have ended when it returns.
func (s site) traced(t testing.TB, at crash.Point, counts func(crash.Call) bool, args ...string) (ended, crash.Result, []crash.Call) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tracer := crash.NewTracer()
	defer tracer.Close()
	var out, stderr bytes.Buffer
	var calls []crash.Call
	res, err := tracer.Run(ctx, crash.Spec{Argv: s.argv(args...), Env: s.environ(), Dir: s.dir(), Roots: []string{s.root},
		Stdout: &out, Stderr: &stderr, At: at, Counts: counts, Record: func(c crash.Call) { calls = append(calls, c) }})
	must(t, err)
	_, err = tracer.Wait(ctx)
	must(t, err)
	return ended{strings.Join(args, " "), res.ExitCode, out.String(), stderr.String()}, res, calls
}

// doneLine matches the line that acode prints for a completed step. It captures the name
// of the step.
var doneLine = regexp.MustCompile(`(?m)^\s*✓ Task \d+, Step \d+: (\S+) \(`)

// told returns the steps that acode reported done.
func (e ended) told() []string {
	var names []string
	for _, m := range doneLine.FindAllStringSubmatch(e.stdout+e.stderr, -1) {
		names = append(names, m[1])
	}
	return names
}

// dump is the content of a copy of the store, as sqlite3 reads it.
type dump struct {
	// short and state are those of the last session, or "" without a session.
	short, state string
	sessions     int
	// receipts counts the receipts of each step.
	receipts map[string]int
	// failures counts failures of steps.
	failures int
}

const dumpQuery = `PRAGMA integrity_check;
SELECT 'session', short, state FROM sessions ORDER BY no;
SELECT 'receipt', json_extract(payload, '$.task') || '/' || json_extract(payload, '$.step'), '' FROM events WHERE type = 'StepCompleted';
SELECT 'failure', seq, '' FROM events WHERE type = 'StepFailed';`

// read copies the database with its log and reads the copy with sqlite3. A missing
// database, or one without tables, counts as a store without sessions.
func (s site) read(t testing.TB) dump {
	t.Helper()
	d := dump{receipts: map[string]int{}}
	copied := filepath.Join(t.TempDir(), "acode.db")
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(s.database() + suffix)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		must(t, err)
		must(t, os.WriteFile(copied+suffix, b, 0o600))
	}
	var stderr bytes.Buffer
	cmd := exec.Command("sqlite3", "-batch", "-separator", "\t", copied, dumpQuery)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil && !strings.Contains(stderr.String(), "no such table") {
		t.Fatalf("read copy of the store: %v: %s", err, stderr.String())
	}
	first, rest, _ := strings.Cut(string(out), "\n")
	if first != "ok" {
		t.Errorf("integrity of the store: %s", out)
	}
	for line := range strings.Lines(rest) {
		switch f := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); f[0] {
		case "session":
			d.sessions++
			d.short, d.state = f[1], f[2]
		case "receipt":
			d.receipts[f[1]]++
		case "failure":
			d.failures++
		}
	}
	return d
}

// copyTree copies the files of a directory.
func copyTree(t testing.TB, from, to string) {
	t.Helper()
	must(t, filepath.WalkDir(from, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, at)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), info.Mode().Perm())
		}
		// The pipe belongs to a command whose supervisor was killed.
		if d.Type() == fs.ModeNamedPipe {
			return nil
		}
		return copyFile(at, filepath.Join(to, rel), info.Mode().Perm())
	}))
}

func copyFile(from, to string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
