package main_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/acode-dev/acode/internal/pgtest"
)

// binaries is the folder of the tested programs. TestMain makes it.
var binaries string

func TestMain(m *testing.M) {
	launcher()
	var err error
	if binaries, err = os.MkdirTemp("", "drain-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	// A leftover in the temporary folder does no harm.
	_ = os.RemoveAll(binaries)
	os.Exit(status)
}

// build builds acode and acode-sync, once.
var build = sync.OnceValue(func() error {
	out, err := exec.Command("go", "build", "-o", binaries+"/", "../../cmd/acode", "../../cmd/acode-sync").CombinedOutput()
	if err != nil {
		return fmt.Errorf("build: %w: %s", err, out)
	}
	return nil
})

// site is an installation of acode with a workspace: the tested programs, a store, and a
// server's address.
type site struct {
	t    testing.TB
	root string
	// program takes the place of acode.
	program string
	// address is the server's.
	address string
	// work is the workspace, or "" for one below root.
	work string
}

func newSite(t testing.TB, root, address string) site {
	t.Helper()
	must(t, build())
	s := site{t: t, root: root, program: filepath.Join(binaries, "acode"), address: address}
	for _, d := range []string{s.ws(), filepath.Join(root, "user")} {
		must(t, os.MkdirAll(d, 0o755))
	}
	return s
}

func (s site) ws() string {
	if s.work != "" {
		return s.work
	}
	return filepath.Join(s.root, "ws")
}

func (s site) environ() []string {
	user := filepath.Join(s.root, "user")
	return []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "HOME=" + user, "XDG_CONFIG_HOME=" + user, "TMPDIR=" + user, "NO_COLOR=1",
		"ACODE_HOME=" + homeIn(s.root), "ACODE_POSTGRES_URL=" + s.address, "ACODE_KEY_KEYRING=false"}
}

// run runs acode to its end and returns its exit status and its output.
func (s site) run(args ...string) (int, string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.program, args...)
	cmd.Dir, cmd.Env = s.ws(), s.environ()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatalf("acode %s: %v", strings.Join(args, " "), err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// socket returns the address of a database at the server's unix socket. The tracer can
// count calls on that socket.
func socket(t testing.TB, sv *server) string {
	t.Helper()
	u, err := url.Parse(sv.role)
	must(t, err)
	where := pgtest.Psql(t, sv.admin, `SELECT split_part(current_setting('unix_socket_directories'), ',', 1), current_setting('port')`)
	dir, port, _ := strings.Cut(where, "|")
	q := u.Query()
	q.Set("host", dir)
	q.Set("port", port)
	u.Host, u.RawQuery = "", q.Encode()
	return u.String()
}

// copyTree copies a directory.
func copyTree(t testing.TB, from, to string) {
	t.Helper()
	must(t, filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), b, 0o600)
	}))
}
