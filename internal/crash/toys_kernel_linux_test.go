package crash_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// toyTalk sends over unix sockets in each way, and over the network, which does not
// count.
func toyTalk(dir string) error {
	addr := &net.UnixAddr{Net: "unixgram", Name: filepath.Join(dir, "d")}
	l, err := net.ListenUnixgram("unixgram", addr)
	if err != nil {
		return err
	}
	defer l.Close()
	c, err := net.DialUnix("unixgram", nil, addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write([]byte("by write")); err != nil {
		return err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.Send(pair[0], []byte("by sendto"), 0); err != nil {
		return err
	}
	if err := unix.Sendmsg(pair[0], []byte("by sendmsg"), nil, nil, 0); err != nil {
		return err
	}
	udp, err := net.Dial("udp", "127.0.0.1:9")
	if err != nil {
		return err
	}
	defer udp.Close()
	_, err = udp.Write([]byte("not counted"))
	return err
}

// toySignals makes a child stop and continue, and makes a call that signals interrupt
// repeatedly.
func toySignals(dir string) error {
	child := exec.Command("/bin/sh", "-c", "kill -STOP $$; exit 5")
	if err := child.Start(); err != nil {
		return err
	}
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(child.Process.Pid, &ws, syscall.WUNTRACED, nil); err != nil || !ws.Stopped() {
		return fmt.Errorf("child did not stop: %v, %v", ws, err)
	}
	if err := child.Process.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	if _, err := syscall.Wait4(child.Process.Pid, &ws, 0, nil); err != nil || ws.ExitStatus() != 5 {
		return fmt.Errorf("child did not continue: %v, %v", ws, err)
	}
	w, err := block(dir)
	if err != nil {
		return err
	}
	for range 20 {
		if err := unix.Tgkill(os.Getpid(), w.tid, unix.SIGURG); err != nil {
			return err
		}
		if err := w.untilBlocked(); err != nil {
			return err
		}
	}
	if err := syscall.Flock(int(w.held.Fd()), syscall.LOCK_UN); err != nil {
		return err
	}
	return <-w.got
}

// toyBlocked writes while another of its threads waits for a lock. Then it waits forever.
func toyBlocked(dir string) error {
	if _, err := block(dir); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "written"), []byte("x"), 0o600)
}

// waiter is a thread that waits for a lock of its own process.
type waiter struct {
	held *os.File
	tid  int
	got  chan error
}

func block(dir string) (*waiter, error) {
	w := &waiter{got: make(chan error, 1)}
	var files [2]*os.File
	for i := range files {
		f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		files[i] = f
	}
	w.held = files[0]
	if err := syscall.Flock(int(w.held.Fd()), syscall.LOCK_EX); err != nil {
		return nil, err
	}
	tid := make(chan int)
	go func() {
		runtime.LockOSThread()
		tid <- unix.Gettid()
		w.got <- syscall.Flock(int(files[1].Fd()), syscall.LOCK_EX)
	}()
	w.tid = <-tid
	return w, w.untilBlocked()
}

// untilBlocked waits until the thread is in its call.
func (w *waiter) untilBlocked() error {
	in := fmt.Sprintf("%d ", unix.SYS_FLOCK)
	for {
		b, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/syscall", w.tid))
		if err != nil || strings.HasPrefix(string(b), in) {
			return err
		}
		select {
		case err := <-w.got:
			return errors.Join(errors.New("lock was given"), err)
		default:
			runtime.Gosched()
		}
	}
}

// toyReplace becomes another program twice, from a thread that is not the leader.
func toyReplace(dir string) error {
	failed := make(chan error)
	// One of the two threads is not the leader.
	for range 2 {
		go func() {
			runtime.LockOSThread()
			if unix.Gettid() == unix.Getpid() {
				return
			}
			failed <- execAt("/bin/sh", "sh", "-c", "echo replaced > "+filepath.Join(dir, "by"))
		}()
	}
	return <-failed
}

// execAt executes a program by the descriptor of its directory.
func execAt(path string, argv ...string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	name, err := unix.BytePtrFromString(filepath.Base(path))
	if err != nil {
		return err
	}
	args, err := syscall.SlicePtrFromStrings(argv)
	if err != nil {
		return err
	}
	return execveat(int(d.Fd()), name, args)
}

func execveat(dir int, name *byte, argv []*byte) error {
	env := []*byte{nil}
	_, _, errno := syscall.Syscall6(unix.SYS_EXECVEAT, uintptr(dir), uintptr(unsafe.Pointer(name)),
		uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&env[0])), 0, 0)
	return errno
}
