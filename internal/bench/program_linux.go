package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// build builds the two compared programs.
func (b *bench) build(ctx context.Context) error {
	dir, err := b.place("build")
	if err != nil {
		return err
	}
	source := filepath.Join(dir, "empty.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
		return err
	}
	b.empty = filepath.Join(dir, "empty")
	if err := goBuild(ctx, b.empty, source); err != nil {
		return err
	}
	b.given, b.acode = b.acode, filepath.Join(dir, "acode")
	if b.given != "" {
		return install(b.given, b.acode)
	}
	return goBuild(ctx, b.acode, "github.com/acode-dev/acode/cmd/acode")
}

// goBuild installs a program at out, built like the release.
func goBuild(ctx context.Context, out, what string) error {
	linked := out + ".linked"
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", linked, what)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", what, err, said)
	}
	return install(linked, out)
}

// install copies a program. The linker writes through a mapping, so its output lies in
// the cache page by page, and a large program takes a tenth longer to start from there.
func install(linked, at string) error {
	program, err := os.ReadFile(linked)
	if err != nil {
		return err
	}
	return os.WriteFile(at, program, 0o755)
}

// site is a place to run acode: a store, a workspace and a plan.
type site struct {
	acode, dir string
}

func (s site) home() string      { return filepath.Join(s.dir, "home") }
func (s site) workspace() string { return filepath.Join(s.dir, "workspace") }
func (s site) plan() string      { return filepath.Join(s.dir, "plan.yml") }

func (s site) environ() []string {
	user := filepath.Join(s.dir, "user")
	return []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "HOME=" + user, "XDG_CONFIG_HOME=" + user, "TMPDIR=" + s.dir, "ACODE_HOME=" + s.home()}
}

// newSite makes a site called name with the given files in its workspace.
func (b *bench) newSite(name string, files map[string]string) (site, error) {
	dir, err := b.place(name)
	if err != nil {
		return site{}, err
	}
	s := site{acode: b.acode, dir: dir}
	if err := errors.Join(os.MkdirAll(s.workspace(), 0o755), os.MkdirAll(filepath.Join(dir, "user"), 0o755)); err != nil {
		return s, err
	}
	for path, content := range files {
		at := filepath.Join(s.workspace(), path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(content), 0o644)); err != nil {
			return s, err
		}
	}
	return s, nil
}

// writePlan writes a plan of one task from the YAML of its steps.
func (s site) writePlan(steps []string) error {
	var b strings.Builder
	b.WriteString("version: 1\ntask: Bench\ntasks:\n  - id: t\n    steps:\n")
	for i, step := range steps {
		fmt.Fprintf(&b, "      - {id: s%05d, %s}\n", i+1, step)
	}
	return os.WriteFile(s.plan(), []byte(b.String()), 0o644)
}

func (s site) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.acode, args...)
	cmd.Dir, cmd.Env = s.workspace(), s.environ()
	return cmd
}

// line is one line of acode's output and the time when it arrived.
type line struct {
	at   int64
	text []byte
}

// is reports whether l is a notice of this type.
func (l line) is(kind string) bool { return bytes.Contains(l.text, []byte(`"type":"`+kind+`"`)) }

// follow runs cmd and passes every line to see until see returns false. Then it kills the
// program. It returns the time when the program started.
func follow(cmd *exec.Cmd, see func(line) bool) (started int64, err error) {
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	started = nanos()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	r := bufio.NewReaderSize(out, 1<<20)
	for {
		text, err := r.ReadBytes('\n')
		if err != nil {
			break
		}
		if !see(line{nanos(), text}) {
			// The program may have ended by itself.
			_ = cmd.Process.Kill()
			_, _ = io.Copy(io.Discard, r)
			// The program was killed on purpose, so its status does not matter.
			_ = cmd.Wait()
			return started, nil
		}
	}
	if err := cmd.Wait(); err != nil {
		return started, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, said.Bytes())
	}
	return started, nil
}

// until runs acode and kills it after the nth notice of a type. It returns the time from
// the start to that notice, in nanoseconds.
func (s site) until(ctx context.Context, kind string, n int, args ...string) (int64, error) {
	var at int64
	started, err := follow(s.command(ctx, args...), func(l line) bool {
		if l.is(kind) {
			n--
			at = l.at
		}
		return n > 0
	})
	if err == nil && n > 0 {
		err = fmt.Errorf("acode ended %d notices %q early", n, kind)
	}
	return at - started, err
}
