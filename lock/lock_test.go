package lock_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/lock"
	"github.com/acode-dev/acode/session"
)

// roleVariable turns a process of this test into another acode process.
const roleVariable = "LOCK_TEST_ROLE"

// init keeps the main goroutine of a helper on the main thread, which "headless" ends.
func init() {
	if os.Getenv(roleVariable) != "" {
		runtime.LockOSThread()
	}
}

func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	if role == "" {
		os.Exit(m.Run())
	}
	if err := play(role, os.Args[1:]); err != nil {
		fmt.Println(lineOf(err))
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}
}

// lineOf formats an error in one line, with its code.
func lineOf(err error) string { return fmt.Sprintf("%s %v", session.CodeOf(err), err) }

// play runs the role of a helper process, prints "holding" and waits for the end of its
// input.
func play(role string, args []string) error {
	h, err := lock.Self("acode "+role, time.Now())
	if err != nil {
		return err
	}
	h.Session = session.ID(role)
	switch role {
	case "holder":
		l, err := lock.Acquire(args[0], h)
		if err != nil {
			return err
		}
		fmt.Println("holding")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return l.Release()
	case "reader":
		// holds the lock while it reads a file
		if _, err := lock.Acquire(args[0], h); err != nil {
			return err
		}
		fmt.Println("holding")
		_, err := os.ReadFile(args[1])
		return err
	case "directory":
		d, err := lock.AcquireDirectory(args[0], false)
		if err != nil {
			return err
		}
		fmt.Println("holding")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return d.Release()
	case "headless":
		// its main thread ends, and the others hold the lock until the end of input
		if _, err := lock.Acquire(args[0], h); err != nil {
			return err
		}
		fmt.Println("holding")
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(0)
		}()
		_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
		return nil
	case "stranger":
		// becomes another program and keeps the lock
		f, err := lock.AcquireFile(args[0])
		if err != nil {
			return err
		}
		b, err := json.Marshal(h)
		if err != nil {
			return err
		}
		if _, err := f.Write(b); err != nil {
			return err
		}
		if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFD, 0); err != nil {
			return err
		}
		return unix.Exec("/bin/sh", []string{"sh", "-c", "echo holding; read _; :"}, []string{})
	case "full", "full_workspace":
		// a limit on file sizes stands for a full disk
		signal.Ignore(unix.SIGXFSZ)
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 100, Max: 100}); err != nil {
			return err
		}
		if role == "full" {
			_, err = lock.Acquire(args[0], h)
		} else {
			_, err = lock.CommandLock(args[0], h, "v1:key")
		}
		return err
	case "supervisor":
		f, err := lock.CommandLock(args[0], h, "v1:key")
		if err != nil {
			return err
		}
		// The command outlives this process and keeps the lock.
		cmd := exec.Command("/bin/sh", "-c", "echo holding; read _; :")
		cmd.Stdin, cmd.Stdout, cmd.ExtraFiles = os.Stdin, os.Stdout, []*os.File{f}
		return cmd.Start()
	}
	return fmt.Errorf("no role %q", role)
}

type helper struct {
	*exec.Cmd
	in    io.WriteCloser
	first string
	out   *bufio.Reader
}

// start runs a helper process and waits for its first line.
func start(t *testing.T, role string, args ...string) *helper {
	t.Helper()
	p := launch(t, role, args...)
	p.read()
	return p
}

func launch(t *testing.T, role string, args ...string) *helper {
	t.Helper()
	p := &helper{Cmd: exec.Command(os.Args[0], args...)}
	p.Env = append(os.Environ(), roleVariable+"="+role)
	var err error
	if p.in, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.in.Close()
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	return p
}

func (p *helper) read() {
	line, _ := p.out.ReadString('\n')
	p.first = strings.TrimSpace(line)
}

// rest lets the process end and returns the rest of its output.
func (p *helper) rest() string {
	_ = p.in.Close()
	b, _ := io.ReadAll(p.out)
	_ = p.Wait()
	return string(b)
}

func self(t *testing.T) lock.Holder {
	t.Helper()
	h, err := lock.Self("acode test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	h.Session = "mine"
	return h
}

func acquire(t *testing.T, path string) *lock.Lock {
	t.Helper()
	l, err := lock.Acquire(path, self(t))
	if err != nil {
		t.Fatal(err)
	}
	keep(t, l)
	return l
}

// keep releases l when the test ends. The garbage collector would release it earlier.
func keep(t *testing.T, l *lock.Lock) { t.Cleanup(func() { _ = l.Release() }) }

func lockPath(t *testing.T) string { return filepath.Join(t.TempDir(), "session.lock") }

func wantCode(t *testing.T, err error, code session.Code) {
	t.Helper()
	if !errors.Is(err, code) || session.CodeOf(err) != code {
		t.Errorf("got %s %v, want %s", session.CodeOf(err), err, code)
	}
}

// K1: of 50 processes that start at once, one gets the lock.
func TestAcquireConcurrently(t *testing.T) {
	path := lockPath(t)
	var all []*helper
	for range 50 {
		all = append(all, launch(t, "holder", path))
	}
	holding := 0
	for _, p := range all {
		p.read()
		if p.first == "holding" {
			holding++
		} else if !strings.HasPrefix(p.first, string(session.ErrLocked)) {
			t.Errorf("Acquire: got %q, want %s", p.first, session.ErrLocked)
		}
	}
	if holding != 1 {
		t.Errorf("Acquire: got %d holders, want 1", holding)
	}
}

// The same holds for many goroutines of one process.
func TestAcquireWithinProcess(t *testing.T) {
	path, h := lockPath(t), self(t)
	var mu sync.Mutex
	var won []*lock.Lock
	var wait sync.WaitGroup
	for range 50 {
		wait.Go(func() {
			if l, err := lock.Acquire(path, h); err == nil {
				mu.Lock()
				won = append(won, l)
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	if len(won) != 1 {
		t.Errorf("Acquire: got %d holders, want 1", len(won))
	}
}

// A held lock names its holder. The lock of a killed holder is free at once.
func TestAcquireAfterKill(t *testing.T) {
	path := lockPath(t)
	p := start(t, "holder", path)
	_, err := lock.Acquire(path, self(t))
	wantCode(t, err, session.ErrLocked)
	var by *lock.HeldError
	if !errors.As(err, &by) || by.Holder.PID != p.Process.Pid || by.Holder.Session != "holder" || !by.Holder.Alive() {
		t.Fatalf("Acquire: got %+v, want process %d", by, p.Process.Pid)
	}
	if want := fmt.Sprintf("process %d (acode holder) on ", p.Process.Pid); !strings.Contains(err.Error(), want) {
		t.Errorf("Acquire: got %q, want %q in it", err, want)
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait()
	if by.Holder.Alive() {
		t.Error("Alive: got true for a killed process")
	}
	l := acquire(t, path)
	if h, held, err := lock.Read(path); err != nil || !held || h.PID != os.Getpid() {
		t.Errorf("Read: got %v, %v, %v, want this process", h, held, err)
	}
	if h := l.Killed(); h.PID != p.Process.Pid || h.Session != "holder" {
		t.Errorf("Killed: got %v, want process %d", h, p.Process.Pid)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
	if h := acquire(t, path).Killed(); h.PID != 0 {
		t.Errorf("Killed: got %v after a Release, want no holder", h)
	}
}

// Trap: a released file stays and does not count as held.
func TestRelease(t *testing.T) {
	path := lockPath(t)
	l := acquire(t, path)
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	// the second call does nothing
	for range 2 {
		if err := l.Release(); err != nil {
			t.Errorf("Release: %v", err)
		}
	}
	after, err := os.Stat(path)
	if err != nil || !os.SameFile(before, after) || after.Size() != before.Size() {
		t.Errorf("Stat: got %v, %v, want the same file", after, err)
	}
	if h, held, err := lock.Read(path); err != nil || held || h != (lock.Holder{}) {
		t.Errorf("Read: got %v, %v, %v, want no holder", h, held, err)
	}
	if err := acquire(t, path).Release(); err != nil {
		t.Error(err)
	}
}

// K3: a removed or replaced lock file allows two holders. When the old holder ends, the
// new one keeps its lock.
func TestReplacedUnderHolder(t *testing.T) {
	for name, replace := range map[string]func(path string) error{
		"removed": os.Remove,
		"replaced": func(path string) error {
			other := path + ".new"
			return errors.Join(os.WriteFile(other, nil, 0o600), os.Rename(other, path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := lockPath(t)
			first := acquire(t, path)
			if err := replace(path); err != nil {
				t.Fatal(err)
			}
			second := acquire(t, path)
			if err := first.Release(); err != nil {
				t.Error(err)
			}
			_, err := lock.Acquire(path, self(t))
			wantCode(t, err, session.ErrLocked)
			if h, held, err := lock.Read(path); err != nil || !held || h.PID != os.Getpid() {
				t.Errorf("Read: got %v, %v, %v, want this process", h, held, err)
			}
			if err := second.Release(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A stopped holder keeps its lock. If its file is removed, another process takes over.
// That process keeps its lock when the first one continues and ends.
func TestFrozenHolder(t *testing.T) {
	path := lockPath(t)
	p := start(t, "holder", path)
	if err := unix.Kill(p.Process.Pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	_, err := lock.Acquire(path, self(t))
	wantCode(t, err, session.ErrLocked)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	acquire(t, path)
	if err := unix.Kill(p.Process.Pid, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if got := p.rest(); got != "" {
		t.Errorf("Release of the old holder: got %q, want nothing", got)
	}
	_, err = lock.Acquire(path, self(t))
	wantCode(t, err, session.ErrLocked)
}

// K1: while files are replaced all the time, many processes hold a lock, each on
// another file. The file that stays has at most one holder.
func TestAcquireDuringReplacement(t *testing.T) {
	path, h := lockPath(t), self(t)
	stop := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
				other := fmt.Sprint(path, n)
				_ = os.WriteFile(other, nil, 0o600)
				_ = os.Rename(other, path)
			}
		}
	})
	got := 0
	for range 300 {
		l, err := lock.Acquire(path, h)
		if err != nil {
			wantCode(t, err, session.ErrLocked)
			continue
		}
		keep(t, l)
		got++
	}
	close(stop)
	wait.Wait()
	if got == 0 {
		t.Error("Acquire: never succeeded")
	}
	// if this fails, the last file has a holder already
	if l, err := lock.Acquire(path, h); err == nil {
		keep(t, l)
	}
	_, err := lock.Acquire(path, h)
	wantCode(t, err, session.ErrLocked)
}

// K2, LOCK-001, LOCK-002: Acquire refuses a file that other users could have made or
// changed, and does not wait for a pipe.
func TestAcquireRefused(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(path string) error
		want    session.Code
	}{
		"group_may_write": {func(p string) error { return errors.Join(os.WriteFile(p, nil, 0o600), os.Chmod(p, 0o660)) }, session.ErrLockMode},
		"others_may_read": {func(p string) error { return errors.Join(os.WriteFile(p, nil, 0o600), os.Chmod(p, 0o604)) }, session.ErrLockMode},
		"read_only":       {func(p string) error { return errors.Join(os.WriteFile(p, nil, 0o600), os.Chmod(p, 0o400)) }, session.ErrLockMode},
		"sticky": {func(p string) error {
			return errors.Join(os.WriteFile(p, nil, 0o600), os.Chmod(p, 0o600|os.ModeSticky))
		}, session.ErrLockMode},
		"pipe":      {func(p string) error { return unix.Mkfifo(p, 0o600) }, session.ErrLockMode},
		"directory": {func(p string) error { return os.Mkdir(p, 0o700) }, session.ErrLockMode},
		"symlink": {func(p string) error {
			return errors.Join(os.WriteFile(p+".real", nil, 0o600), os.Symlink(p+".real", p))
		}, session.ErrLockMode},
		"dangling_symlink": {func(p string) error { return os.Symlink(p+".none", p) }, session.ErrLockMode},
		"no_directory":     {func(p string) error { return os.Remove(filepath.Dir(p)) }, session.ErrStoreIO},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "locks", "session.lock")
			if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := c.prepare(path); err != nil {
				t.Fatal(err)
			}
			_, err := lock.Acquire(path, self(t))
			wantCode(t, err, c.want)
			_, err = lock.AcquireFile(path)
			wantCode(t, err, c.want)
			if b, err := os.ReadFile(path + ".real"); err == nil && len(b) > 0 {
				t.Errorf("Acquire: wrote %q behind the link", b)
			}
			if _, err := os.Stat(path + ".none"); err == nil {
				t.Error("Acquire: made a file behind the link")
			}
		})
	}
}

// LOCK-002. Only root can give a file away. Other users test with a file of root.
func TestAcquireOtherOwner(t *testing.T) {
	path := "/etc/hostname"
	if os.Geteuid() == 0 {
		path = lockPath(t)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, 12345, -1)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := lock.Acquire(path, self(t))
	wantCode(t, err, session.ErrLockOwner)
	_, err = lock.AcquireFile(path)
	wantCode(t, err, session.ErrLockOwner)
}

// The mode is checked before the holder, so that a held lock cannot hide a wrong mode.
func TestAcquireHeldWithWrongMode(t *testing.T) {
	path := lockPath(t)
	start(t, "holder", path)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := lock.Acquire(path, self(t))
	wantCode(t, err, session.ErrLockMode)
}

// LOCK-003: a live holder that is not acode is reported with its path.
func TestAcquireForeignHolder(t *testing.T) {
	path := lockPath(t)
	p := start(t, "stranger", path)
	if p.first != "holding" {
		t.Fatalf("stranger: %s", p.first)
	}
	_, err := lock.Acquire(path, self(t))
	wantCode(t, err, session.ErrLockHolder)
	shell, evalErr := filepath.EvalSymlinks("/bin/sh")
	if evalErr != nil || !strings.Contains(err.Error(), shell) {
		t.Errorf("Acquire: got %q, want %s in it", err, shell)
	}
}

// Trap: a pid is used again. A file that names a live pid with another start time or
// boot id names no live process. Only the lock counts.
func TestPidReuse(t *testing.T) {
	path := lockPath(t)
	h := self(t)
	if !h.Alive() {
		t.Fatal("Alive: got false for this process")
	}
	for name, change := range map[string]func(*lock.Holder){
		"start":  func(h *lock.Holder) { h.Start++ },
		"boot":   func(h *lock.Holder) { h.Boot = "another" },
		"pid":    func(h *lock.Holder) { h.PID = 1 << 30 },
		"no_pid": func(h *lock.Holder) { h.PID = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			h := h
			change(&h)
			l, err := lock.Acquire(path, h)
			if err != nil {
				t.Fatal(err)
			}
			if _, held, err := lock.Read(path); err != nil || held {
				t.Errorf("Read: got %v, %v, want not held", held, err)
			}
			// The file names no live process, but the lock is held.
			_, err = lock.Acquire(path, self(t))
			wantCode(t, err, session.ErrLocked)
			if !strings.Contains(err.Error(), "a process that the lock file does not name") {
				t.Errorf("Acquire: got %q", err)
			}
			if err := l.Release(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A lock whose holder is dead but not gone yet is free a moment later.
func TestHolderThatIsEnding(t *testing.T) {
	path := lockPath(t)
	dead := self(t)
	dead.Start++
	l, err := lock.Acquire(path, dead)
	if err != nil {
		t.Fatal(err)
	}
	released := make(chan error, 1)
	time.AfterFunc(50*time.Millisecond, func() { released <- l.Release() })
	next, err := lock.Acquire(path, self(t))
	if err := errors.Join(err, <-released); err != nil {
		t.Fatal(err)
	}
	if err := next.Release(); err != nil {
		t.Error(err)
	}
}

// K4: a command does not inherit the lock of a session. The command outlives the
// holder, and the lock is free.
func TestCommandsDoNotInherit(t *testing.T) {
	path := lockPath(t)
	l := acquire(t, path)
	cmd := exec.Command("/bin/sh", "-c", "read _")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	if err := acquire(t, path).Release(); err != nil {
		t.Error(err)
	}
	if err := errors.Join(in.Close(), cmd.Wait()); err == nil {
		t.Error("the command ended before its input did")
	}
}

// Every holder overwrites the whole file and shortens a command that is too long.
func TestContent(t *testing.T) {
	path := lockPath(t)
	long := self(t)
	long.Command = "acode run --plan " + strings.Repeat("é\x00\"", 1000)
	l, err := lock.Acquire(path, long)
	if err != nil {
		t.Fatal(err)
	}
	got, held, err := lock.Read(path)
	if err != nil || !held || !strings.HasPrefix(long.Command, got.Command) || len(got.Command) < 50 {
		t.Errorf("Read: got %+v, %v, %v, want the beginning of the command", got, held, err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	short := self(t)
	l, err = lock.Acquire(path, short)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release() //nolint:errcheck // the test is over
	got, _, err = lock.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(short, got); diff != "" {
		t.Errorf("Read (-want +got):\n%s", diff)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != 1024 || info.Mode() != 0o600 {
		t.Errorf("Stat: got %v, %v, want 1024 bytes of mode 0600", info, err)
	}
}

// Read returns without an error for any content of a lock file, and Acquire repairs the
// file.
func TestReadDamaged(t *testing.T) {
	for name, content := range map[string]string{
		"empty": "", "spaces": strings.Repeat(" ", 1024), "noise": "\x00\xff{", "half": `{"pid":1,`, "other_types": `{"pid":"1"}`,
		"list": "[]", "large": strings.Repeat("x", 100_000), "negative": `{"pid":-1}`,
	} {
		t.Run(name, func(t *testing.T) {
			path := lockPath(t)
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, held, err := lock.Read(path); err != nil || held {
				t.Errorf("Read: got %v, %v, want not held", held, err)
			}
			l := acquire(t, path)
			if info, err := os.Stat(path); err != nil || info.Size() != 1024 {
				t.Errorf("Stat: got %v, %v, want 1024 bytes", info, err)
			}
			if err := l.Release(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestReadRefused(t *testing.T) {
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	if err := errors.Join(unix.Mkfifo(pipe, 0o600), os.Symlink(pipe, link)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, link, dir} {
		_, _, err := lock.Read(path)
		wantCode(t, err, session.ErrLockMode)
	}
	if h, held, err := lock.Read(filepath.Join(dir, "none")); err != nil || held || h.PID != 0 {
		t.Errorf("Read: got %v, %v, %v, want no holder", h, held, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "none")); err == nil {
		t.Error("Read: made the file")
	}
}

// If the disk is full, nothing is locked.
func TestDiskFull(t *testing.T) {
	path := lockPath(t)
	for role, arg := range map[string]string{"full": path, "full_workspace": filepath.Dir(path)} {
		p := start(t, role, arg)
		if !strings.HasPrefix(p.first, string(session.ErrDiskFull)) {
			t.Errorf("%s: got %q, want %s", role, p.first, session.ErrDiskFull)
		}
	}
	// The processes still run, but they have released their locks.
	if err := acquire(t, path).Release(); err != nil {
		t.Error(err)
	}
	l, err := lock.AcquireRun(filepath.Dir(path), self(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}

// A pid of another process table says nothing. The lock itself tells whether its holder
// lives. A process with the same pid here is not taken for the holder.
func TestHolderElsewhere(t *testing.T) {
	path, h := lockPath(t), self(t)
	if h.NS == 0 {
		t.Log("not tried: this system has one process table")
		return
	}
	h.NS++
	l, err := lock.Acquire(path, h)
	if err != nil {
		t.Fatal(err)
	}
	keep(t, l)
	if by, held, err := lock.Read(path); err != nil || !held || by.PID != h.PID || by.Alive() {
		t.Errorf("Read: got %+v, %t, %v, want it held by a process that cannot be seen", by, held, err)
	}
	_, err = lock.Acquire(path, self(t))
	wantCode(t, err, session.ErrLocked)
	if !strings.Contains(err.Error(), fmt.Sprintf("process %d in another PID namespace", h.PID)) {
		t.Errorf("Acquire: %v does not say where its holder is", err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	// killed
	forge(t, path, h)
	if _, held, err := lock.Read(path); err != nil || held {
		t.Errorf("Read of a free lock: got %t, %v", held, err)
	}
	acquire(t, path)
}

// forge writes h into a lock file that no process holds.
func forge(t *testing.T, path string, h lock.Holder) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(lock.WriteHolder(f, h), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// K1, trap: a file that is replaced while it is being locked is not a lock, because
// another process may hold the new file.
func TestReplacedWhileLocked(t *testing.T) {
	for name, acquireBy := range map[string]func(path string, locked func()) (release func() error, err error){
		"signed": func(path string, locked func()) (func() error, error) {
			l, err := lock.AcquireBy(path, self(t), locked)
			if err != nil {
				return nil, err
			}
			return l.Release, nil
		},
		"plain": func(path string, locked func()) (func() error, error) {
			f, err := lock.AcquireFileBy(path, locked)
			if err != nil {
				return nil, err
			}
			return f.Close, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := lockPath(t)
			times := 0
			release, err := acquireBy(path, func() {
				if times++; times > 1 {
					return
				}
				if err := errors.Join(os.WriteFile(path+".new", nil, 0o600), os.Rename(path+".new", path)); err != nil {
					t.Fatal(err)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if times != 2 {
				t.Errorf("locked %d times, want again after the file was replaced", times)
			}
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
				t.Errorf("the file at the path is not locked: %v", err)
			}
			if err := errors.Join(f.Close(), release()); err != nil {
				t.Error(err)
			}
		})
	}
}
