package workspace_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/workspace"
)

// gitIn runs git as a person would, with its configuration.
func gitIn(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestGitState(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	if g, err := workspace.GitState(ctx, dir); g != (workspace.Git{}) || err != nil {
		t.Fatalf("GitState without a repository: got %+v, %v", g, err)
	}
	gitIn(t, dir, "init", "-q", "-b", "main")
	g, err := workspace.GitState(ctx, dir)
	must(t, err)
	if g.Head != "" || g.Branch != "main" || g.Dirty || g.Digest == "" {
		t.Fatalf("GitState of an empty repository: got %+v", g)
	}
	put(t, dir, "a", "1")
	gitIn(t, dir, "add", "a")
	gitIn(t, dir, "commit", "-q", "-m", "a")
	clean, err := workspace.GitState(ctx, dir)
	must(t, err)
	if head := gitIn(t, dir, "rev-parse", "HEAD"); clean.Head != head || clean.Dirty || clean.Digest == g.Digest {
		t.Fatalf("GitState: got %+v, want head %s and clean", clean, head)
	}
	put(t, dir, "a", "2 longer")
	dirty, err := workspace.GitState(ctx, dir)
	must(t, err)
	if !dirty.Dirty || dirty.Digest == clean.Digest {
		t.Errorf("GitState of a changed file: got %+v", dirty)
	}
	put(t, dir, "a", "1")
	put(t, dir, "new", "x")
	if g, err := workspace.GitState(ctx, dir); !g.Dirty || err != nil {
		t.Errorf("GitState of a new file: got %+v, %v", g, err)
	}
	gitIn(t, dir, "checkout", "-q", "--detach")
	if g, err := workspace.GitState(ctx, dir); g.Branch != "" || g.Head != clean.Head || err != nil {
		t.Errorf("GitState detached: got %+v, %v", g, err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := workspace.GitState(ended, dir); err != context.Canceled {
		t.Errorf("GitState with an ended context: got %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if g, err := workspace.GitState(ctx, dir); g != (workspace.Git{Silent: "it is not installed"}) || err != nil {
		t.Errorf("GitState without git: got %+v, %v", g, err)
	}
}

// If git does not answer for a repository, the result has the reason. HEAD and branch
// are then not compared, and ignored files are included. A repository that the system's
// configuration trusts is trusted here too.
func TestGitSaysWhyItIsSilent(t *testing.T) {
	for want, script := range map[string]string{
		"detected dubious ownership in repository at '/w'": "echo \"fatal: detected dubious ownership in repository at '/w'\nTo add an exception, call:\" >&2; exit 128",
		"exit status 3": "exit 3",
		"":              "echo 'fatal: not a git repository (or any of the parent directories): .git' >&2; exit 128",
		"not a git repository: /gone/.git/worktrees/w": "echo 'fatal: not a git repository: /gone/.git/worktrees/w' >&2; exit 128",
		"the system counts":                            `test -z "$GIT_CONFIG_NOSYSTEM" && echo "the system counts" >&2; exit 1`,
	} {
		dir, bin := t.TempDir(), t.TempDir()
		put(t, dir, ".git", "")
		must(t, os.WriteFile(filepath.Join(bin, "git"), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
		t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
		if g, err := workspace.GitState(context.Background(), dir); g != (workspace.Git{Silent: want}) || err != nil {
			t.Errorf("GitState with a git that says %q: got %+v, %v", want, g, err)
		}
	}
}

// counted puts a script before the real git that adds a line to a file each time it is
// started. It returns the name of that file.
func counted(t *testing.T) (calls string) {
	t.Helper()
	real, err := exec.LookPath("git")
	must(t, err)
	bin := t.TempDir()
	calls = filepath.Join(bin, "calls")
	must(t, os.WriteFile(filepath.Join(bin, "git"), []byte("#!/bin/sh\necho x >>"+calls+"\nexec "+real+" \"$@\"\n"), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	return calls
}

// git is not even started outside a repository. It is started in every place where git
// would find one.
func TestGitIsStartedInRepositoriesOnly(t *testing.T) {
	ctx := context.Background()
	calls := counted(t)
	dir := t.TempDir()
	put(t, dir, "plain/a", "1")
	put(t, dir, "repo/below/deep/a", "1")
	if _, err := workspace.GitState(ctx, filepath.Join(dir, "plain")); err != nil {
		t.Fatal(err)
	}
	m, err := open(t, filepath.Join(dir, "plain")).Scan(ctx, nil, nil)
	must(t, err)
	if _, err := os.Stat(calls); err == nil || m.Git || len(m.Entries) != 1 {
		t.Fatalf("outside a repository: git was started: %v; git %v, %d entries", err == nil, m.Git, len(m.Entries))
	}
	gitIn(t, filepath.Join(dir, "repo"), "init", "-q", "-b", "main", "--separate-git-dir", filepath.Join(dir, "elsewhere"))
	must(t, os.Symlink(filepath.Join(dir, "repo/below/deep"), filepath.Join(dir, "link")))
	for _, name := range []string{"repo", "repo/below/deep", "link"} {
		must(t, os.RemoveAll(calls))
		g, err := workspace.GitState(ctx, filepath.Join(dir, name))
		if must(t, err); g.Branch != "main" || !g.Dirty {
			t.Errorf("GitState in %s: got %+v", name, g)
		}
		if m, err := open(t, filepath.Join(dir, name)).Scan(ctx, nil, nil); err != nil || !m.Git || len(m.Entries) != 1 {
			t.Errorf("Scan in %s: got %+v, %v", name, m, err)
		}
		if b, err := os.ReadFile(calls); err != nil || strings.Count(string(b), "x") != 3 {
			t.Errorf("in %s: git was started %q, %v; want config, status and ls-files", name, b, err)
		}
	}
}

// The environment of a hook of git names another repository and must not count here.
// The configuration of a person must count.
func TestGitIsOfThisRepository(t *testing.T) {
	dir, other, home := t.TempDir(), t.TempDir(), t.TempDir()
	gitIn(t, dir, "init", "-q", "-b", "main")
	gitIn(t, other, "init", "-q", "-b", "other")
	put(t, other, "a", "1")
	put(t, dir, "b", "1")
	put(t, dir, "c.mine", "1")
	put(t, home, "ignored", "*.mine\n")
	put(t, home, ".gitconfig", "[core]\n\texcludesFile = "+filepath.Join(home, "ignored")+"\n")
	for name, value := range map[string]string{"HOME": home, "XDG_CONFIG_HOME": "", "GIT_DIR": filepath.Join(other, ".git"), "GIT_WORK_TREE": other} {
		t.Setenv(name, value)
	}
	if g, err := workspace.GitState(context.Background(), dir); err != nil || g.Branch != "main" {
		t.Errorf("GitState: got %+v, %v, want the branch main", g, err)
	}
	m, err := open(t, dir).Scan(context.Background(), nil, nil)
	if must(t, err); !m.Git || len(m.Entries) != 1 || m.Entries[0].Path != "b" {
		t.Errorf("Scan: got %+v, want b alone", m.Entries)
	}
}

// planted makes a repository in which everything that git can be told to execute leaves
// a marker. It returns the directory of the markers.
func planted(t *testing.T, dir string) (markers string) {
	t.Helper()
	markers = t.TempDir()
	gitIn(t, dir, "init", "-q", "-b", "main")
	put(t, dir, ".gitattributes", "* filter=evil diff=evil\n*.p filter=evil.process\n*.q filter=a=b\n")
	put(t, dir, "a", "1")
	put(t, dir, "b.p", "1")
	put(t, dir, "c.q", "1")
	gitIn(t, dir, "add", ".")
	gitIn(t, dir, "commit", "-q", "-m", "x")
	script := func(name string) string {
		file := filepath.Join(markers, "bin-"+name)
		must(t, os.WriteFile(file, []byte("#!/bin/sh\n: > "+filepath.Join(markers, "ran-"+name)+"\ncat\n"), 0o755))
		return file
	}
	for key, name := range map[string]string{
		"core.fsmonitor": "fsmonitor", "filter.evil.clean": "clean", "filter.evil.smudge": "smudge", "filter.evil.process.process": "process",
		"diff.external": "external", "diff.evil.textconv": "textconv", "diff.evil.command": "diff", "core.sshCommand": "ssh",
		"core.pager": "pager", "core.askPass": "askpass", "credential.helper": "credential", "core.alternateRefsCommand": "refs",
	} {
		gitIn(t, dir, "config", key, script(name))
	}
	hooks := filepath.Join(markers, "hooks")
	must(t, os.MkdirAll(hooks, 0o755))
	for _, hook := range []string{"post-index-change", "fsmonitor-watchman", "pre-auto-gc", "reference-transaction"} {
		must(t, os.Rename(script("hook-"+hook), filepath.Join(hooks, hook)))
	}
	gitIn(t, dir, "config", "core.hooksPath", hooks)
	included := filepath.Join(markers, "included")
	must(t, os.WriteFile(included, []byte("[filter \"a=b\"]\n\tclean = "+script("included")+"\n\trequired = true\n"), 0o644))
	gitIn(t, dir, "config", "include.path", included)
	gitIn(t, dir, "config", "filter.evil.required", "true")
	// The size is the same and the time is not. Only the content can tell, so git has
	// to run the filters.
	for _, name := range []string{"a", "b.p", "c.q"} {
		put(t, dir, name, "2")
		must(t, os.Chtimes(filepath.Join(dir, name), time.Unix(1, 0), time.Unix(1, 0)))
	}
	return markers
}

func ran(t *testing.T, markers string) (names []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(markers, "ran-*"))
	must(t, err)
	for _, f := range found {
		names = append(names, strings.TrimPrefix(filepath.Base(f), "ran-"))
		must(t, os.Remove(f))
	}
	return names
}

// W1: a FIFO in the place of a file that git reads blocks git, but not acode.
func TestGitThatDoesNotAnswer(t *testing.T) {
	for _, name := range []string{".gitignore", ".git/info/exclude", ".git/config"} {
		dir := t.TempDir()
		gitIn(t, dir, "init", "-q")
		put(t, dir, "a", "1")
		// not all of them exist
		_ = os.Remove(filepath.Join(dir, name))
		must(t, unix.Mkfifo(filepath.Join(dir, name), 0o600))
		r := openAt(t, dir, later)
		r.SetPatience(200 * time.Millisecond)
		m, err := r.Scan(context.Background(), nil, nil)
		if err != nil || m.Git || !slices.ContainsFunc(m.Entries, func(f session.FileState) bool { return f.Path == "a" }) {
			t.Errorf("Scan with a FIFO for %s: got %+v, %v", name, m, err)
		}
		if g, err := r.GitState(context.Background()); g != (workspace.Git{Silent: "no answer within 200ms"}) || err != nil {
			t.Errorf("GitState with a FIFO for %s: got %+v, %v", name, g, err)
		}
	}
}

// A git that is a script may end while its children keep its output open. acode does
// not wait for them either.
func TestGitThatLeavesItsOutputOpen(t *testing.T) {
	// the first does not answer, the second does
	for _, script := range []string{"cat %s\nexit 0", "cat %s &\nexit 3"} {
		dir, bin := t.TempDir(), t.TempDir()
		put(t, dir, ".git", "")
		fifo := filepath.Join(bin, "fifo")
		must(t, unix.Mkfifo(fifo, 0o600))
		must(t, os.WriteFile(filepath.Join(bin, "git"), fmt.Appendf(nil, "#!/bin/sh\n"+script+"\n", fifo), 0o755))
		t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
		r := openAt(t, dir, later)
		r.SetPatience(200 * time.Millisecond)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if g, err := r.GitState(context.Background()); g.Silent == "" || err != nil {
				t.Errorf("GitState: got %+v, %v", g, err)
			}
		}()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			t.Errorf("GitState still waits for what %q started", script)
		}
		if end, err := os.OpenFile(fifo, os.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
			must(t, end.Close())
		}
		<-done
	}
}

// W5: examining a repository executes nothing that it configures. The control is git
// itself, called without these precautions, which runs the planted commands.
func TestGitExecutesNothing(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	markers := planted(t, dir)
	g, err := workspace.GitState(ctx, dir)
	must(t, err)
	if got := ran(t, markers); got != nil {
		t.Fatalf("GitState ran %v", got)
	}
	if !g.Dirty || g.Head == "" {
		t.Errorf("GitState: got %+v, want a head and dirty", g)
	}
	t.Setenv("GIT_DIR", filepath.Join(dir, ".git"))
	t.Setenv("GIT_EXTERNAL_DIFF", filepath.Join(markers, "bin-external"))
	r := open(t, dir)
	m, err := r.Scan(ctx, nil, nil)
	must(t, err)
	if !m.Git || len(m.Entries) != 4 {
		t.Fatalf("Scan: git %v, %d entries, want 4", m.Git, len(m.Entries))
	}
	put(t, dir, "new", "x")
	if _, _, err := r.Compare(ctx, m); err != nil {
		t.Fatal(err)
	}
	if got := ran(t, markers); got != nil {
		t.Fatalf("Scan or Compare ran %v", got)
	}

	cmd := exec.Command("git", "status", "--porcelain")
	cmd.Dir = dir
	// a filter with a wrong answer makes git fail
	_ = cmd.Run()
	got := strings.Join(ran(t, markers), " ")
	for _, want := range []string{"fsmonitor", "clean"} {
		if !strings.Contains(got, want) {
			t.Errorf("positive control: plain git status ran only %q, not %s", got, want)
		}
	}
}
