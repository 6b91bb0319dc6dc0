package install_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
)

const top = "../.."

// patience limits every wait; a test that reaches it has failed.
const patience = 60 * time.Second

// A new user installs acode on a root with only a shell, runs the README's plan,
// interrupts and kills it, resumes, approves and removes it. `make stranger` does the
// same with the Debian package.
func TestStranger(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "./scripts/stranger")
	cmd.Dir = top
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("scripts/stranger: %v\n%s", err, out)
	}
}

// An agent that works with acode's tools is killed twice, and each command has its effect
// once. The script checks the ledger. It does the same with Claude Code, or says that it
// does not.
func TestDemoTools(t *testing.T) {
	out := run(t, top, nil, "make", "demo-tools")
	second := "install it: npm install -g @anthropic-ai/claude-code"
	if _, err := exec.LookPath("claude"); err == nil {
		second = "3 commands, each once; Claude Code was killed twice"
	}
	for _, want := range []string{"[killed: exit status 137]", "NOT RUN NOW. The same call ran at ", "\nbuilt\ndeployed\nannounced\n", "all good", second} {
		if !strings.Contains(out, want) {
			t.Errorf("make demo-tools: no %q in\n%s", want, out)
		}
	}
}

// acode is killed in a call and in a reply of a model, and each command of the model has
// its effect once. The script checks the ledger and the requests.
func TestDemoAgent(t *testing.T) {
	out := run(t, top, nil, "make", "demo-agent")
	for _, want := range []string{"[killed: exit status 137]", "the command still runs", "\nbuilt\ndeployed\nannounced\n", "all good", `"cut":true`, "3 commands, each once; acode was killed twice"} {
		if !strings.Contains(out, want) {
			t.Errorf("make demo-agent: no %q in\n%s", want, out)
		}
	}
}

// make install says how the shell finds acode, if it does not.
func TestInstallNamesThePath(t *testing.T) {
	prefix := t.TempDir()
	line := "export PATH=" + prefix + "/bin:$PATH"
	if out := run(t, top, nil, "make", "install", "PREFIX="+prefix); !strings.Contains(out, line) {
		t.Errorf("make install: no %q in\n%s", line, out)
	}
	env := append(os.Environ(), "PATH="+prefix+"/bin:"+os.Getenv("PATH"))
	if out := run(t, top, env, "make", "install", "PREFIX="+prefix); strings.Contains(out, "PATH") {
		t.Errorf("make install into the PATH: got\n%s", out)
	}
}

// The installed completion offers the ids of sessions in bash and in zsh.
func TestShellsCompleteIDs(t *testing.T) {
	root := t.TempDir()
	run(t, top, nil, "make", "install", "DESTDIR="+root, "PREFIX=/usr")
	share := filepath.Join(root, "usr/share")
	env := append(os.Environ(), "PATH="+filepath.Join(root, "usr/bin")+":"+os.Getenv("PATH"), "ACODE_HOME="+filepath.Join(root, "home"),
		"ACODE_KEY_KEYRING=false", "TERM=xterm", "BASH_COMPLETION_USER_DIR="+filepath.Join(share, "bash-completion"), "PS1=ready> ")
	shop := filepath.Join(root, "shop")
	if err := os.Mkdir(shop, 0o755); err != nil {
		t.Fatal(err)
	}
	plan := "version: 1\ntask: Ask\ntasks: [{id: one, steps: [{run: 'true'}]}]\n"
	if err := os.WriteFile(filepath.Join(shop, "plan.yml"), []byte(plan), 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, shop, env, filepath.Join(root, "usr/bin/acode"), "run", "plan.yml")
	id, _, _ := strings.Cut(strings.TrimPrefix(run(t, shop, env, filepath.Join(root, "usr/bin/acode"), "status"), "Session: "), "\n")
	if len(id) < 4 {
		t.Fatalf("acode status: got session %q", id)
	}
	for name, shell := range map[string]struct {
		args  []string
		setup string
	}{
		"bash": {[]string{"bash", "--norc", "--noprofile", "-i"}, "source /usr/share/bash-completion/bash_completion"},
		"zsh":  {[]string{"zsh", "-f", "-i"}, "fpath=(" + filepath.Join(share, "zsh/site-functions") + " $fpath); autoload -Uz compinit; compinit -u -D"},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, shop, env, shell.args)
			s.types(t, shell.setup+"; echo set''up\n")
			s.shows(t, "setup")
			s.types(t, "acode logs "+id[:2]+"\t")
			s.shows(t, "acode logs "+id)
		})
	}
}

func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// shell is an interactive shell on its own terminal.
type shell struct {
	tty    *os.File
	mu     sync.Mutex
	screen bytes.Buffer
	// more receives a value after each write.
	more chan struct{}
}

func begin(t *testing.T, dir string, env, args []string) *shell {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, env
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: 200})
	if err != nil {
		t.Fatal(err)
	}
	s := &shell{tty: tty, more: make(chan struct{}, 1)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		// The copy ends with the shell.
		_, _ = io.Copy(s, tty)
	}()
	t.Cleanup(func() {
		err := cmd.Process.Kill()
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Error(err)
		}
		// The shell was killed on purpose.
		_ = cmd.Wait()
		_ = tty.Close()
		<-read
	})
	return s
}

// Write implements io.Writer.
func (s *shell) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
	return s.screen.Write(p)
}

func (s *shell) types(t *testing.T, keys string) {
	t.Helper()
	if _, err := s.tty.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// shows waits until the screen has a text.
func (s *shell) shows(t *testing.T, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		s.mu.Lock()
		screen := s.screen.String()
		s.mu.Unlock()
		if strings.Contains(screen, text) {
			return
		}
		select {
		case <-s.more:
		case <-ctx.Done():
			t.Fatalf("the screen does not show %q:\n%q", text, screen)
		}
	}
}
