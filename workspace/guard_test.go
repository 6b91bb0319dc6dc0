package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/workspace"
)

// guarded is a workspace whose protected paths are known with their contents.
type guarded struct {
	t        *testing.T
	dir      string
	r        *workspace.Root
	was      []session.Guarded
	contents map[string][]byte
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		".git/config": "[core]\n", ".git/HEAD": "ref: refs/heads/main\n", ".git/hooks/pre-commit": "#!/bin/sh\n", ".git/hooks/pre-push.sample": "# no\n",
		".git/modules/lib/HEAD": "x\n", ".git/modules/lib/config": "[lib]\n", "AGENTS.md": "be good\n", "pkg/a/CLAUDE.md": "be kind\n",
		".vscode/settings.json": "{}\n", ".github/workflows/ci.yml": "on: push\n", ".github/CODEOWNERS": "*\n", "main.go": "package main\n", "own/guide.md": "read me\n",
	} {
		put(t, dir, name, content)
	}
	must(t, os.Symlink("own/guide.md", filepath.Join(dir, "GEMINI.md")))
	g := &guarded{t: t, dir: dir, r: open(t, dir), contents: map[string][]byte{}}
	g.was = g.now()
	for i, p := range g.was {
		if p.Kind == session.GuardFile {
			r, err := g.r.GuardedContent(p)
			must(t, err)
			g.contents[p.Hash], err = io.ReadAll(r)
			must(t, errors.Join(err, r.Close()))
			g.was[i].Blob.Hash = p.Hash
		}
	}
	return g
}

func (g *guarded) now() []session.Guarded {
	g.t.Helper()
	now, err := g.r.Guarded(context.Background())
	must(g.t, err)
	return now
}

func (g *guarded) content(p session.Guarded) (io.ReadCloser, error) {
	c, ok := g.contents[p.Blob.Hash]
	if !ok {
		return nil, fmt.Errorf("no content of %s", p.Path)
	}
	return io.NopCloser(strings.NewReader(string(c))), nil
}

func (g *guarded) sh(script string) {
	g.t.Helper()
	cmd := exec.Command("/bin/sh", "-e", "-c", script)
	cmd.Dir = g.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		g.t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// back puts the changes back and returns them as words.
func (g *guarded) back() (words []string) {
	g.t.Helper()
	changes, want, err := g.r.HeldChanges(context.Background(), g.was)
	must(g.t, err)
	for _, c := range changes {
		words = append(words, c.Path+" "+c.Change+" "+c.Kind)
	}
	must(g.t, g.r.Place(context.Background(), want, g.content))
	return words
}

func (g *guarded) unchanged() {
	g.t.Helper()
	now := g.now()
	for i := range now {
		if now[i].Kind == session.GuardFile {
			now[i].Blob.Hash = now[i].Hash
		}
	}
	if diff := cmp.Diff(g.was, now); diff != "" {
		g.t.Errorf("after putting back (-want +got):\n%s", diff)
	}
}

// Each kind of change of a protected path is found and put back. What is beside it stays.
func TestHeldChanges(t *testing.T) {
	for name, test := range map[string]struct {
		script string
		want   []string
		// neighbour is a path that must exist afterwards
		neighbour string
		// other says that other directories exist afterwards than before
		other bool
	}{
		"a new hook":                      {"echo evil > .git/hooks/post-commit; echo x > .git/COMMIT_EDITMSG", []string{".git/hooks/post-commit created file"}, ".git/COMMIT_EDITMSG", false},
		"a sample of a hook":              {"echo x > .git/hooks/post-commit.sample", nil, ".git/hooks/post-commit.sample", false},
		"a changed configuration":         {"echo '[alias]' >> .git/config", []string{".git/config modified file"}, "", false},
		"git itself":                      {"mkdir r && cd r && git init -q && git config a.b c", []string{"r/.git/config created file"}, "r/.git/HEAD", true},
		"a deleted hook":                  {"rm .git/hooks/pre-commit", []string{".git/hooks/pre-commit deleted absent"}, "", false},
		"a mode":                          {"chmod +x .git/hooks/pre-commit", []string{".git/hooks/pre-commit modified file"}, "", false},
		"the mode of a directory":         {"chmod 0777 .git/hooks", []string{".git/hooks modified directory"}, "", false},
		"an unreadable directory":         {"chmod 0 .git/hooks", nil, "", false},
		"the same content again":          {"cp .git/config x && mv x .git/config", nil, "", false},
		"a configuration of a submodule":  {"echo evil >> .git/modules/lib/config", []string{".git/modules/lib/config modified file"}, "", false},
		"a further git directory":         {"echo ../evil > .git/commondir", []string{".git/commondir created file"}, "", false},
		"a git file in place of git":      {"mv .git old && echo gitdir: old > .git", []string{".git created file", ".git/config deleted absent", ".git/hooks/pre-commit deleted absent"}, "old/HEAD", true},
		"git renamed away":                {"mv .git old", []string{".git/config deleted absent", ".git/hooks/pre-commit deleted absent"}, "old/HEAD", true},
		"a link to other hooks":           {"mkdir evil && echo x > evil/pre-commit && mv .git/hooks h && ln -s ../evil .git/hooks", []string{".git/hooks modified link", ".git/hooks/pre-commit deleted absent"}, "evil/pre-commit", false},
		"a link in place of a file":       {"echo evil > e; ln -sf ../e .git/config", []string{".git/config modified link"}, "e", false},
		"a directory in place of a file":  {"rm .git/config; mkdir .git/config; echo x > .git/config/y", []string{".git/config modified directory", ".git/config/y created file"}, "", false},
		"a link in place of a parent":     {"mv .github other && ln -s other .github", []string{".github created link", ".github/workflows/ci.yml deleted absent"}, "other/CODEOWNERS", false},
		"a hard link":                     {"ln .git/hooks/pre-commit x && echo evil >> x", []string{".git/hooks/pre-commit modified file"}, "x", false},
		"another case":                    {"mkdir .VsCode && echo x > .VsCode/tasks.json; echo x > agents.MD", []string{".VsCode/tasks.json created file", "agents.MD created file"}, "", false},
		"a new directory":                 {"mkdir -p .claude/commands && echo x > .claude/commands/a.md", []string{".claude/commands/a.md created file"}, "", false},
		"an empty directory":              {"mkdir .claude", nil, "", true},
		"a nested name":                   {"echo x >> pkg/a/CLAUDE.md; mkdir -p q/r; echo y > q/r/.envrc; echo z > q/r/envrc", []string{"pkg/a/CLAUDE.md modified file", "q/r/.envrc created file"}, "q/r/envrc", false},
		"a name that goes with its place": {"rm -r pkg", nil, "", true},
		"a moved place":                   {"mv pkg lib", []string{"lib/a/CLAUDE.md created file"}, "lib/a", true},
		"beside a protected path":         {"echo x > .github/CODEOWNERS; echo y > main.go; mkdir -p node_modules/p; echo z > node_modules/p/AGENTS.md", nil, "node_modules/p/AGENTS.md", false},
		"where a link leads":              {"echo evil > own/guide.md", []string{"own/guide.md modified file"}, "", false},
		"a link that leads elsewhere":     {"ln -sf main.go GEMINI.md", []string{"GEMINI.md modified link"}, "main.go", false},
		"a FIFO":                          {"rm AGENTS.md; mkfifo AGENTS.md", []string{"AGENTS.md modified other"}, "", false},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			if os.Geteuid() == 0 && name == "an unreadable directory" {
				test.want = []string{".git/hooks modified directory"}
			}
			g := newGuarded(t)
			g.sh(test.script)
			if diff := cmp.Diff(test.want, g.back()); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			if again := g.back(); again != nil {
				t.Errorf("compared again: got %v, want no change", again)
			}
			if !test.other {
				g.unchanged()
			}
			if _, err := os.Lstat(filepath.Join(g.dir, test.neighbour)); err != nil {
				t.Errorf("its neighbour: %v", err)
			}
		})
	}
}

// What was put aside can be put there again.
func TestHeldChangesApplied(t *testing.T) {
	g := newGuarded(t)
	g.sh("echo evil > .git/hooks/post-commit; chmod 0755 .git/hooks/post-commit; rm AGENTS.md; ln -sf main.go GEMINI.md; echo '[alias]' >> .git/config")
	changes, want, err := g.r.HeldChanges(context.Background(), g.was)
	must(t, err)
	var made []session.Guarded
	for _, c := range changes {
		if c.Kind == session.GuardFile {
			c.Blob.Hash = c.Hash
			g.contents[c.Hash], err = os.ReadFile(filepath.Join(g.dir, c.Path))
			must(t, err)
		}
		made = append(made, c.Guarded)
	}
	after := g.now()
	must(t, g.r.Place(context.Background(), want, g.content))
	g.unchanged()
	must(t, g.r.Place(context.Background(), made, g.content))
	if diff := cmp.Diff(after, g.now()); diff != "" {
		t.Errorf("after applying (-want +got):\n%s", diff)
	}
}

// A tool of an agent may not change a protected path by any name.
func TestCheckProtected(t *testing.T) {
	g := newGuarded(t)
	g.sh("ln -s .git/hooks plain; ln -s .git repo; mkdir sub; ln -s ../.github sub/up; ln -s own docs")
	for name, protected := range map[string]bool{
		".git/hooks/x": true, ".GIT/HOOKS/x": true, ".git/index": true, "sub/.git/config": true, ".g\u200cit/config": true, "sub/.git": true,
		"plain/x": true, "repo/config": true, "sub/up/workflows/x.yml": true, ".github/work\ufb02ows/x": true, "./AGENTS.md": true, "agent\u017f.md": true,
		"own/guide.md": true, "docs/guide.md": true, "a.code-workspace": true, ".claude/settings.json": true, ".claude/worktrees": true, ".claude/worktrees/a/CLAUDE.md": true, "new/.envrc": true,
		".gitignore": false, ".gitattributes": false, ".env": false, ".github/CODEOWNERS": false, "sub/up/CODEOWNERS": false, "AGENTS.txt": false, "main.go": false,
		"own/other.md": false, ".claude/worktrees/a/main.go": false, "hooks/x": false, "config": false,
	} {
		_, err := g.r.Prepare(context.Background(), "key", []session.Change{{Op: session.KindWrite, Path: name, Content: "x"}})
		if err == nil {
			err = g.r.CheckProtected(context.Background(), "key")
		}
		if errors.Is(err, session.ErrDenied) != protected || err != nil && !protected {
			t.Errorf("write %q: got %v, want refused: %v", name, err, protected)
		}
	}
	for _, c := range []session.Change{
		{Op: session.KindMove, From: "main.go", To: ".envrc"}, {Op: session.KindMove, From: "AGENTS.md", To: "x"}, {Op: session.KindDelete, Path: ".git/config"},
		{Op: session.KindEdit, Path: ".vscode/settings.json", Old: "{}", New: "{x}"},
	} {
		_, err := g.r.Prepare(context.Background(), "key", []session.Change{c})
		must(t, err)
		if err := g.r.CheckProtected(context.Background(), "key"); session.CodeOf(err) != session.ErrDenied {
			t.Errorf("%+v: got %v, want %s", c, err, session.ErrDenied)
		}
	}
}

// The search before and after a command. Only its first run reads the directories.
func BenchmarkGuarded(b *testing.B) {
	for _, dirs := range []int{100, 1000, 4000} {
		b.Run(fmt.Sprint(dirs), func(b *testing.B) {
			dir := b.TempDir()
			for n := range dirs {
				name := fmt.Sprintf("d%d/e%d/f%d", n%16, n%256, n)
				for f := range 10 {
					if f == 0 {
						put(b, dir, name+"/AGENTS.md", "x")
					}
					must(b, os.WriteFile(filepath.Join(dir, name, fmt.Sprint(f)), nil, 0o644))
				}
			}
			r := openAt(b, dir, later)
			start := time.Now()
			if _, err := r.Guarded(context.Background()); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(time.Since(start).Milliseconds()), "ms/first")
			b.ResetTimer()
			for b.Loop() {
				now, err := r.Guarded(context.Background())
				if err != nil || len(now) < min(dirs, 3000) {
					b.Fatal(len(now), err)
				}
			}
		})
	}
}

// docs/threats.md names every protected path.
func TestProtectedPathsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/threats.md")
	must(t, err)
	for _, p := range workspace.Protected() {
		if !strings.Contains(string(text), "`"+p+"`") {
			t.Errorf("docs/threats.md does not name %s", p)
		}
	}
}
