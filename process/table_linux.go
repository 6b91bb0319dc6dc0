package process

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// GroupsOnly says whether processes can only be followed by their process group, which
// outlives its leader. Here every process is followed, and the pid of a leader may be
// used again once it was waited for.
const GroupsOnly = false

// ReadFile reads a file of the kernel. It saves the system calls with which os.ReadFile
// asks for a size that such files do not have, and offers them for polling.
func ReadFile(path string) ([]byte, error) {
	fd, err := ignoringEINTR(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	defer func() { _ = unix.Close(fd) }() // only read
	b := make([]byte, 0, 1024)
	for {
		n, err := ignoringEINTR(func() (int, error) { return unix.Read(fd, b[len(b):cap(b)]) })
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		if n == 0 {
			return b, nil
		}
		if b = b[:len(b)+n]; len(b) == cap(b) {
			b = slices.Grow(b, len(b))
		}
	}
}

func ignoringEINTR(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// Table lists the processes. An error says that this process could not look, for want of
// descriptors or memory.
func Table() ([]Process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var ps []Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		p, err := Read(pid)
		if err == nil {
			ps = append(ps, p)
		} else if unseen(err) != nil {
			return nil, err
		}
	}
	return ps, nil
}

// unseen drops an error that says that a process has ended, or belongs to another user.
func unseen(err error) error {
	if errors.Is(err, ErrGone) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

// Childless reports whether this process surely has no child, dead or alive. An adopter
// of orphans then has no descendant either, and the process table need not be read to
// know it.
func Childless() bool {
	_, err := ignoringEINTR(func() (int, error) {
		return 0, unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	})
	return errors.Is(err, unix.ECHILD)
}

// Below lists everything below roots in the process table ps, the dead left out. The
// roots themselves belong to it.
func Below(ps []Process, roots []int) []Process {
	children := make(map[int][]Process, len(ps))
	byPID := make(map[int]Process, len(ps))
	for _, p := range ps {
		children[p.Parent] = append(children[p.Parent], p)
		byPID[p.PID] = p
	}
	var found []Process
	seen := map[int]bool{}
	for len(roots) > 0 {
		pid := roots[0]
		roots = roots[1:]
		p, ok := byPID[pid]
		if !ok || seen[pid] {
			continue
		}
		seen[pid] = true
		if !p.Dead {
			found = append(found, p)
		}
		for _, c := range children[pid] {
			roots = append(roots, c.PID)
		}
	}
	return found
}

// CommandLine gives the arguments of p with spaces between them, or its name where it has
// ended.
func (p Process) CommandLine() string {
	b, _ := ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID)) // gone: its name is all that is left
	if line := strings.TrimSpace(strings.ReplaceAll(string(b), "\x00", " ")); line != "" {
		return line
	}
	return p.Name
}

// Variable gives the value of a variable in the environment that pid was started with. Of
// another user's process, or one that has ended, it is empty. An error says that this
// process could not look.
func Variable(pid int, name string) (string, error) {
	b, err := ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return "", unseen(err)
	}
	for _, v := range bytes.Split(b, []byte{0}) {
		if value, ok := bytes.CutPrefix(v, []byte(name+"=")); ok {
			return string(value), nil
		}
	}
	return "", nil
}

// Locks reports whether pid has file open with an exclusive flock(2). An error says that
// this process could not look.
func Locks(pid int, file os.FileInfo) (bool, error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, unseen(err)
	}
	for _, e := range entries {
		info, err := os.Stat(dir + "/" + e.Name())
		if err != nil || !os.SameFile(info, file) {
			continue
		}
		b, err := ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, e.Name()))
		if unseen(err) != nil {
			return false, err
		}
		if bytes.Contains(b, []byte("FLOCK")) && bytes.Contains(b, []byte("WRITE")) { // nothing where it is gone
			return true, nil
		}
	}
	return false, nil
}

// Signal sends sig to exactly the process p. The pidfd is opened before the start is
// compared, so that a process that has the pid by then is not met. A process that is gone
// is no error.
func (p Process) Signal(sig unix.Signal) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err == nil {
		defer func() { _ = unix.Close(fd) }() // holds nothing
		if now, err := Read(p.PID); err != nil || now.Start != p.Start {
			return nil
		}
		err = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal %d: %w", p.PID, err)
	}
	return nil
}
