package crash_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/acode-dev/acode/internal/crash"
	"golang.org/x/sys/unix"
)

// toySwitch makes the test binary act as one of the toy programs below.
const toySwitch = "crash-toy"

func TestMain(m *testing.M) {
	crash.LauncherMain()
	if len(os.Args) > 2 && os.Args[1] == toySwitch {
		if err := toy(os.Args[2], os.Args[3:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func toy(name string, args []string) error {
	switch name {
	case "save":
		return toySave(args[0], strings.Join(args[1:], " "))
	case "zoo":
		return toyZoo(args[0])
	case "threads":
		return toyThreads(args[0])
	case "parent":
		return toyParent(args[0])
	case "supervise":
		return toySupervise(args[0])
	case "legacy":
		return toyLegacy(args[0])
	case "talk":
		return toyTalk(args[0])
	case "signals":
		return toySignals(args[0])
	case "blocked":
		return toyBlocked(args[0])
	case "replace":
		return toyReplace(args[0])
	case "fail":
		os.Exit(7)
	case "hang":
		select {}
	}
	return fmt.Errorf("no toy %q", name)
}

// saves is the number of records that toySave keeps.
const saves = 3

func content(i int) string { return strings.Repeat(fmt.Sprintf("record-%d.", i), 900) }

// toySave keeps records correctly, except for the requested bugs, and reports each kept
// record.
func toySave(dir, bugs string) error {
	has := func(bug string) bool { return strings.Contains(bugs, bug) }
	for i := 1; i <= saves; i++ {
		name := filepath.Join(dir, fmt.Sprintf("record-%d", i))
		say := func() { fmt.Printf("saved %d\n", i) }
		if has("tell-first") {
			say()
		}
		if err := saveOne(name, content(i), !has("no-file-sync"), !has("no-dir-sync")); err != nil {
			return err
		}
		if !has("tell-first") {
			say()
		}
	}
	return nil
}

func saveOne(name, text string, syncFile, syncDir bool) error {
	f, err := os.OpenFile(name+".tmp", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.WriteString(f, text); err != nil {
		return err
	}
	if syncFile {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	if err := os.Rename(name+".tmp", name); err != nil || !syncDir {
		return err
	}
	d, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// toyZoo makes one call of every kind that the model knows.
func toyZoo(dir string) error {
	in := func(name string) string { return filepath.Join(dir, name) }
	var first error
	do := func(err error) {
		if err != nil && first == nil {
			first = err
		}
	}
	do(os.Mkdir(in("a"), 0o700))
	do(os.Mkdir(in("b"), 0o700))
	do(os.WriteFile(in("a/one"), []byte("0123456789"), 0o600))
	f, err := os.OpenFile(in("a/one"), os.O_RDWR|os.O_APPEND, 0)
	do(err)
	_, err = f.WriteString("appended")
	do(err)
	do(f.Close())
	f, err = os.OpenFile(in("a/one"), os.O_RDWR, 0)
	do(err)
	_, err = f.WriteAt([]byte("XY"), 4)
	do(err)
	_, err = unix.Writev(int(f.Fd()), [][]byte{[]byte("v1"), []byte("v2")})
	do(err)
	_, err = unix.Pwritev(int(f.Fd()), [][]byte{[]byte("p1"), []byte("p2")}, 30)
	do(err)
	do(unix.Fallocate(int(f.Fd()), 0, 0, 64))
	do(unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 2, 3))
	do(f.Truncate(60))
	do(unix.Fdatasync(int(f.Fd())))
	g, err := os.Create(in("copy"))
	do(err)
	_, err = f.Seek(0, io.SeekStart)
	do(err)
	_, err = unix.CopyFileRange(int(f.Fd()), nil, int(g.Fd()), nil, 20, 0)
	do(err)
	_, err = unix.Sendfile(int(g.Fd()), int(f.Fd()), nil, 10)
	do(err)
	do(g.Chmod(0o640))
	do(g.Close())
	do(os.Chmod(in("a/one"), 0o644))
	do(os.Link(in("a/one"), in("b/hard")))
	do(os.Symlink("a/one", in("soft")))
	do(os.WriteFile(in("soft"), []byte("through the link"), 0o600))
	do(os.Rename(in("copy"), in("b/moved")))
	do(os.Rename(in("b"), in("c")))
	do(os.Mkdir(in("gone"), 0o700))
	do(os.Remove(in("gone")))
	do(os.Remove(in("a/one")))
	do(os.Truncate(in("c/moved"), 5))
	do(syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
	do(unnamed(dir))
	do(inRoot(dir))
	do(unix.SyncFileRange(int(f.Fd()), 0, 0, 0))
	do(unix.Syncfs(int(f.Fd())))
	do(f.Close())
	return first
}

// unnamed makes a file without a name and then gives it one.
func unnamed(dir string) error {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte("was unnamed")); err != nil {
		return err
	}
	return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD,
		filepath.Join(dir, "named"), unix.AT_SYMLINK_FOLLOW)
}

// inRoot works through os.Root, which names files relative to open directories.
func inRoot(dir string) error {
	r, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := r.MkdirAll("deep/er", 0o700); err != nil {
		return err
	}
	if err := r.WriteFile("deep/er/file", []byte("confined"), 0o600); err != nil {
		return err
	}
	if err := r.Rename("deep/er/file", "deep/er/other"); err != nil {
		return err
	}
	if err := r.Chmod("deep/er/other", 0o400); err != nil {
		return err
	}
	d, err := r.Open("deep")
	if err != nil {
		return err
	}
	defer d.Close()
	fd, err := unix.Openat2(int(d.Fd()), "../deep/./beneath",
		&unix.OpenHow{Flags: unix.O_CREAT | unix.O_WRONLY | unix.O_CLOEXEC, Mode: 0o666})
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// threads is the number of files that toyThreads keeps open at once. writes is the number
// of writes to each.
const threads, writes = 8, 25

// toyThreads writes from many threads at once.
func toyThreads(dir string) error {
	var wg sync.WaitGroup
	errs := make([]error, threads)
	for i := range threads {
		wg.Go(func() {
			f, err := os.Create(filepath.Join(dir, fmt.Sprint(i)))
			if err != nil {
				errs[i] = err
				return
			}
			defer f.Close()
			for range writes {
				if _, err := f.WriteString("x"); err != nil {
					errs[i] = err
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// toyParent starts a detached supervisor, sends it a request over a unix socket, and ends
// once the work has begun.
func toyParent(dir string) error {
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		return err
	}
	defer l.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, toySwitch, "supervise", dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	conn, err := l.Accept()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "parent"), []byte("asked"), 0o600); err != nil {
		return err
	}
	_, err = conn.Write([]byte("go"))
	return err
}

// toySupervise waits until its parent is gone, then runs a command and records its end.
func toySupervise(dir string) error {
	conn, err := net.Dial("unix", filepath.Join(dir, "s"))
	if err != nil {
		return err
	}
	// The read ends with the parent.
	request, err := io.ReadAll(conn)
	if err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(dir, "stdout"))
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command("/bin/sh", "-c", "echo worked; exec /bin/sh -c 'echo on'")
	cmd.Stdout = out
	if err := cmd.Run(); err != nil {
		return err
	}
	return saveOne(filepath.Join(dir, "exit"), "request "+string(request)+", exit 0", true, true)
}

// bench is a tracer with a directory for toys.
type bench struct {
	t   *testing.T
	dir string
	*crash.Tracer
}

func newBench(t *testing.T) *bench {
	t.Helper()
	tr := crash.NewTracer()
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &bench{t: t, dir: dir, Tracer: tr}
}

// spec describes a run of a toy in the bench's directory.
func (b *bench) spec(name string, args ...string) crash.Spec {
	b.t.Helper()
	self, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	argv := append([]string{self, toySwitch, name, b.dir}, args...)
	// By default, a binary with the race detector waits for a second at its end.
	env := []string{"GORACE=atexit_sleep_ms=0"}
	return crash.Spec{Argv: argv, Env: env, Roots: []string{b.dir}, Dir: b.dir}
}

// run runs to the end of the root and of all survivors, and returns the records.
func (b *bench) run(s crash.Spec) (crash.Result, []crash.Call) {
	b.t.Helper()
	var calls []crash.Call
	s.Record = func(c crash.Call) { calls = append(calls, c) }
	if _, err := b.Run(b.t.Context(), s); err != nil {
		b.t.Fatalf("Run %v: %v", s.Argv[2:], err)
	}
	res, err := b.Wait(context.Background())
	if err != nil {
		b.t.Fatalf("Wait: %v", err)
	}
	return res, calls
}

// clear empties the directory between two runs.
func (b *bench) clear() {
	b.t.Helper()
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(b.dir, e.Name())); err != nil {
			b.t.Fatal(err)
		}
	}
}
