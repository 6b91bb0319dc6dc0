package secrets_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// acodePath is the tested program. TestMain builds it.
var acodePath string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "secrets-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	acodePath = filepath.Join(dir, "acode")
	build := exec.Command("go", "build", "-o", dir+"/", "./cmd/acode", "./cmd/acode-agent")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build acode: %v: %s\n", err, out)
		return 1
	}
	return m.Run()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// site is a workspace with its own store.
type site struct {
	root string
	env  []string
	// shown is the output of acode.
	shown bytes.Buffer
}

func newSite(t testing.TB, all []kind) *site {
	t.Helper()
	s := &site{root: t.TempDir()}
	for _, dir := range []string{"ws", "home", "config/acode"} {
		must(t, os.MkdirAll(filepath.Join(s.root, dir), 0o700))
	}
	must(t, os.WriteFile(filepath.Join(s.root, "config/acode/config.yml"), []byte("log: {level: debug}\n"), 0o600))
	s.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.in("home"), "XDG_CONFIG_HOME=" + s.in("config"),
		"ACODE_HOME=" + s.in("state"), "ACODE_KEY_KEYRING=false"}
	for _, k := range all {
		if k.variable != "" {
			s.env = append(s.env, k.variable)
		}
	}
	return s
}

func (s *site) in(name string) string { return filepath.Join(s.root, name) }

// acode runs the program, checks its exit status and returns its output.
func (s *site) acode(t testing.TB, want int, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, acodePath, args...)
	cmd.Dir, cmd.Env = s.in("ws"), s.env
	out, err := cmd.CombinedOutput()
	s.shown.Write(out)
	status := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		status = exit.ExitCode()
	} else {
		must(t, err)
	}
	if status != want {
		t.Fatalf("acode %s: exit %d, want %d: %.2000s", args[0], status, want, out)
	}
	return string(out)
}

// plan writes a plan file; JSON is YAML too.
func (s *site) plan(t testing.TB, name string, doc map[string]any) string {
	t.Helper()
	b, err := json.Marshal(doc)
	must(t, err)
	path := s.in(name)
	must(t, os.WriteFile(path, b, 0o600))
	return path
}

// kept is one unsealed text on the disk or in acode's output.
type kept struct {
	name string
	text string
}

// kept collects all persisted texts that are not sealed. It omits claims: a supervisor
// writes them without knowing the secrets, and they name the program that could not be
// started.
func (s *site) kept(t testing.TB) []kept {
	t.Helper()
	db := s.in("copy.db")
	for _, end := range []string{"", "-wal"} {
		b, err := os.ReadFile(s.in("state/acode.db" + end))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		must(t, err)
		must(t, os.WriteFile(db+end, b, 0o600))
	}
	unpack, err := zstd.NewReader(nil)
	must(t, err)
	defer unpack.Close()
	all := []kept{{"rows", sqlite(t, db, ".dump")}, {"unsealed blobs", blobs(t, db)}}
	must(t, filepath.WalkDir(s.in("state"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".sealed") || strings.HasSuffix(path, ".claim") || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		// Both paths are absolute.
		name, _ := filepath.Rel(s.root, path)
		if strings.HasSuffix(path, ".zst") {
			b, err = unpack.DecodeAll(b, nil)
		}
		all = append(all, kept{name, string(b)})
		return err
	}))
	return all
}

func sqlite(t testing.TB, db, command string) string {
	t.Helper()
	out, err := exec.Command("sqlite3", db, command).CombinedOutput()
	if err != nil {
		t.Fatalf("sqlite3 %s: %v: %s", command, err, out)
	}
	return string(out)
}

// blobs returns the content of every blob that is not sealed.
func blobs(t testing.TB, db string) string {
	t.Helper()
	var all strings.Builder
	unpack, err := zstd.NewReader(nil)
	must(t, err)
	defer unpack.Close()
	for line := range strings.Lines(sqlite(t, db, "SELECT codec || ' ' || hex(data) FROM blobs WHERE codec <> 'sealed'")) {
		codec, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		b, err := hex.DecodeString(text)
		must(t, err)
		if codec == "zstd" {
			b, err = unpack.DecodeAll(b, nil)
			must(t, err)
		}
		all.Write(append(b, '\n'))
	}
	return all.String()
}
