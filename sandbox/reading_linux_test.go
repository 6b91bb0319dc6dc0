package sandbox_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/acode-dev/acode/sandbox"
)

// A command that only reads changes nothing, not even in the directories that other
// confined commands write to, and has none of the escapes.
func TestReading(t *testing.T) {
	onKernels(t, func(t *testing.T, mode string) {
		b := newBox(t, mode)
		b.ReadOnly = true
		s := stage(t, b)
		// nothing else has built a sandbox here, so it needs no writable one before it
		for _, act := range [][]string{
			{"read", filepath.Join(b.Workspace, "file")}, {"list", b.Workspace}, {"read", filepath.Join(b.listed, "file")}, {"open-rw", "/dev/null"},
			{"exec", filepath.Join(b.listed, "script")}, {"kill", "own"}, {"memfd"}, {"clone"},
		} {
			if err := b.do(act[0], act[1:]...); err != nil {
				t.Errorf("%v: got %v", act, err)
			}
		}
		own := func() string { return b.state(b.Workspace, b.Home, b.Tmp) }
		writes := b.writes()
		for _, act := range writes {
			before := own()
			if err := b.do(act[0], act[1:]...); err == nil || own() != before {
				t.Errorf("%v: breached (%v)", act, err)
			}
			open := b
			open.ReadOnly = false
			lost := mode == sandbox.Filter && act[0] == "bind-socket"
			if err := open.do(act[0], act[1:]...); (err != nil) != lost {
				t.Errorf("%v where writing is allowed: got %v", act, err)
			}
		}
		// in memory, and gone with the command
		if err := b.do("write", "/dev/shm/acode-test-reading"); (err != nil) != (mode == sandbox.Filter) {
			t.Errorf("a temporary file: got %v", err)
		}
		if _, err := os.Lstat("/dev/shm/acode-test-reading"); err == nil || b.do("read", "/dev/shm/acode-test-reading") == nil {
			t.Errorf("the temporary file stays")
		}
		all := escapes(b, s)
		for _, e := range all {
			before := b.state(b.outside, b.listed)
			if err := b.do(e.bad[0], e.bad[1:]...); (err == nil) != (e.bad[0] == "stat" && mode == sandbox.Filter) || b.state(b.outside, b.listed) != before {
				t.Errorf("%s: breached (%v)", e.name, err)
			}
		}
		t.Logf("%s: user %d: %d writes and %d escapes", mode, os.Geteuid(), len(writes), len(all))
	})
}

// writes lists acts that change the directories of a command, in an order in which all of
// them are possible.
func (b box) writes() [][]string {
	in := func(n string) string { return filepath.Join(b.Workspace, n) }
	b.ReadOnly = false
	return [][]string{
		{"write", in("file")}, {"write", filepath.Join(b.Home, "file")}, {"write", filepath.Join(b.TempDir(), "file")}, {"append", in("file")}, {"open-trunc", in("file")},
		{"truncate", in("file")}, {"create", in("new")}, {"create", "./newer"}, {"create", filepath.Join(b.Home, "new")}, {"create", filepath.Join(b.TempDir(), "new")},
		{"mkdir", in("made")}, {"rmdir", in("made")}, {"rename", in("new"), in("renamed")}, {"exchange", in("file"), in("renamed")}, {"unlink", in("renamed")},
		{"link", in("file"), in("hard")}, {"symlink", in("symlink")}, {"through-link", in("file")}, {"chmod", in("file")}, {"chown", in("file")}, {"utimes", in("file")},
		{"setxattr", in("file")}, {"file-flags", in("file")}, {"mkfifo", in("fifo")}, {"bind-socket", in("socket")}, {"tmpfile", in("")}, {"rewrite", in("file")},
		{"write", "/proc/self/cwd/file"},
	}
}

// Programs that read work as they do without a sandbox.
func TestReadingPrograms(t *testing.T) {
	onKernels(t, func(t *testing.T, mode string) {
		b := newBox(t, mode)
		write(t, filepath.Join(b.Workspace, "a.txt"), "b\na\nc\n")
		set := "git init -q . && git add . && git -c user.name=x -c user.email=x@x commit -qm first && echo d >> a.txt && git -c user.name=x -c user.email=x@x tag v1"
		if out, err := b.command("/bin/sh", "-ec", set).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		texts := []string{
			"ls -la a.txt file", "cat a.txt", "grep -rn b a.txt", "head -1 a.txt | wc -c", "find . -name 'a*'", "sort a.txt", "sort -u a.txt | uniq -c", "sed -n 1,2p a.txt",
			"git status --short", "git status", "git log --stat", "git log -p --all", "git diff", "git diff --stat HEAD", "git show HEAD:a.txt", "git branch -av", "git tag -l",
			"git blame HEAD -- a.txt", "git grep -n b", "git ls-files -o", "git describe --tags --dirty", "git stash list", "cat <<E\n$(ls a.txt)\nE", "ls nothing 2>/dev/null || echo none",
			"for f in *.txt; do wc -l $f; done", "cd dir && pwd -P | tail -c 4", "echo x | tee /dev/null", "bash -c 'cat <<< x'",
		}
		if mode == sandbox.Namespaces {
			// these need temporary files
			texts = append(texts, "cat a.txt | tac", "seq 60000 | sort -rnS 100K | head -1", "bash -c \"cat <<E\n$(seq 20000)\nE\n\" | tail -1")
		}
		for _, text := range texts {
			open := b
			open.ReadOnly = false
			want, err := open.command("/bin/sh", "-c", text).CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v: %s", text, err, want)
			}
			closed := b
			closed.ReadOnly = true
			got, err := closed.command("/bin/sh", "-c", text).CombinedOutput()
			if err != nil || string(got) != string(want) {
				t.Errorf("%s: got %q, %v, want %q", text, got, err, want)
			}
		}
	})
}
