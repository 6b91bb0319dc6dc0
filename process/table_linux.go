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

// GroupsOnly says whether processes can be followed only by their process group, which
// outlives its leader. On Linux every process can be followed, and the pid of a leader
// may be used again after its parent has waited for it.
const GroupsOnly = false

// ReadFile reads a file of the kernel. Unlike os.ReadFile it does not ask for the size,
// which such files do not have, and does not register the file for polling. This saves
// system calls.
func ReadFile(path string) ([]byte, error) {
	fd, err := ignoringEINTR(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	defer func() { _ = unix.Close(fd) }() // The file was only read.
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

// Table returns all processes. It returns an error if this process could not look, for
// example because descriptors or memory ran out.
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

// unseen returns nil for an error that says that a process has ended or belongs to
// another user.
func unseen(err error) error {
	if errors.Is(err, ErrGone) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

// Childless reports whether this process certainly has no child, dead or alive. An
// adopter of orphans then has no descendants and need not read the process table.
func Childless() bool {
	_, err := ignoringEINTR(func() (int, error) {
		return 0, unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	})
	return errors.Is(err, unix.ECHILD)
}

// Below returns the living processes of ps that are in roots or descend from them.
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

// CommandLine returns the arguments of p separated by spaces, or its name if it has
// ended.
func (p Process) CommandLine() string {
	b, _ := ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID)) // If p has ended, only its name is left.
	if line := strings.TrimSpace(strings.ReplaceAll(string(b), "\x00", " ")); line != "" {
		return line
	}
	return p.Name
}

// Variable returns the value of a variable in the initial environment of pid. It returns
// "" for a process of another user and for one that has ended. It returns an error if
// this process could not look.
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

// Locks reports whether pid has file open with an exclusive flock(2). It returns an error
// if this process could not look.
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
		if bytes.Contains(b, []byte("FLOCK")) && bytes.Contains(b, []byte("WRITE")) { // The content is empty if the descriptor is gone.
			return true, nil
		}
	}
	return false, nil
}

// Signal sends sig to exactly the process p. It opens the pidfd before it compares the
// start, so it never signals another process that got the same pid. It returns nil if the
// process is gone.
func (p Process) Signal(sig unix.Signal) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err == nil {
		defer func() { _ = unix.Close(fd) }() // The descriptor holds no data.
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
