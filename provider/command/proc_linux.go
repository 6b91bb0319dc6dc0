package command

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/machine"
)

// groupsOnly says whether a command can only be followed by its process group, which
// outlives its leader. Here every process is followed, and a leader's pid may be reused
// once it was reaped.
const groupsOnly = false

// readProc reads a file of the kernel. It spares the system calls with which os.ReadFile asks for
// a size that such files do not have, and offers them for polling.
func readProc(path string) ([]byte, error) {
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

// childless reports whether this process surely has no child, dead or alive. An adopter of orphans
// then has no descendant either, and the process table need not be read to know it.
func childless() bool {
	_, err := ignoringEINTR(func() (int, error) {
		return 0, unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	})
	return errors.Is(err, unix.ECHILD)
}

// alive reports whether the process of id is seen to run. A zombie does not, and what is elsewhere is
// not seen. An error says that it could not be looked at.
func alive(id identity) (bool, error) {
	if id.elsewhere() {
		return false, nil
	}
	p, err := readProcess(id.PID)
	if starved(err) {
		return false, err
	}
	if err != nil || p.dead || p.start != id.Start && (id.Start != 0 || p.session != p.pid) {
		return false, nil
	}
	boot, err := machine.BootID()
	return err == nil && id.Boot == boot, err
}

// hidden reports whether the process of id, which leads a process session, seems to live where /proc does not
// show it, as with hidepid what runs with other rights. Should its pid have been used again, then hardly by
// one that leads a session.
func hidden(id identity) bool {
	if id.PID <= 0 || id.elsewhere() {
		return false
	}
	if _, err := readProcess(id.PID); err == nil || starved(err) {
		return false
	}
	leads, err := unix.Getsid(id.PID)
	return err == nil && leads == id.PID && !isZombie(id.PID)
}

// isZombie reports whether pid is seen to be a process that has ended and that nobody waited for, wherever /proc hides
// it. In a sandbox that knows no pidfds none is.
func isZombie(pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }() // holds nothing
	n, err := ignoringEINTR(func() (int, error) { return unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0) })
	return err == nil && n > 0
}

// process is a line of the process table.
type process struct {
	pid     int
	parent  int
	session int
	start   uint64
	dead    bool
	stopped bool // as by Ctrl-Z
	child   bool // of this process, and hidden: start is not known
	holds   bool // the lock on a claim; only holders sets it
	name    string
}

// readProcess reads the state of pid. The main thread of a process may be a zombie while
// others run; such a process is not dead.
func readProcess(pid int) (process, error) {
	b, err := readProc(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open {
		return process{}, fmt.Errorf("parse stat of %d", pid)
	}
	fields := strings.Fields(string(b[end+1:]))
	if len(fields) < 20 {
		return process{}, fmt.Errorf("parse stat of %d", pid)
	}
	p := process{pid: pid, name: string(b[open+1 : end])}
	p.parent, _ = strconv.Atoi(fields[1]) // the kernel writes numbers
	p.session, _ = strconv.Atoi(fields[3])
	threads, _ := strconv.Atoi(fields[17])
	p.start, _ = strconv.ParseUint(fields[19], 10, 64)
	p.dead = (fields[0] == "Z" || fields[0] == "X") && threads <= 1
	p.stopped = fields[0] == "T"
	return p, nil
}

// processes lists the process table, all of it that can be seen or none.
func processes() ([]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var ps []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		p, err := readProcess(pid)
		if starved(err) {
			return nil, err
		}
		if err == nil {
			ps = append(ps, p)
		}
	}
	return append(ps, hiddenChildren(ps)...), nil
}

// hiddenChildren gives the children of this process that are missing in ps, the process table.
func hiddenChildren(ps []process) []process {
	var found []process
	for _, pid := range children() {
		if slices.ContainsFunc(ps, func(p process) bool { return p.pid == pid }) {
			continue
		}
		p, err := readProcess(pid) // it may be newer than ps
		if err != nil {
			sid, gone := unix.Getsid(pid)
			if gone != nil {
				continue
			}
			p = process{pid: pid, parent: os.Getpid(), session: sid, dead: isZombie(pid), child: true, name: "(hidden by /proc)"}
		}
		found = append(found, p)
	}
	return found
}

// children gives the pids of the children of this process, dead ones too; none where the kernel does not list them.
func children() []int {
	lists, _ := filepath.Glob("/proc/self/task/*/children") // the pattern is right
	var pids []int
	for _, list := range lists {
		b, _ := readProc(list) // of a thread that has ended, which has none
		for _, field := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// describe gives pid and command line.
func (p process) describe() string {
	b, _ := readProc(fmt.Sprintf("/proc/%d/cmdline", p.pid)) // gone: its name is all that is left
	line := strings.TrimSpace(strings.ReplaceAll(string(b), "\x00", " "))
	if line == "" {
		line = p.name
	}
	return fmt.Sprintf("%d %s", p.pid, cutText(line, 200))
}

// describe gives pid and command line, or the name alone when the process is gone.
// by is the supervisor that listed it.
func (l leftover) describe(by identity) string {
	if lives, _ := alive(identity{PID: l.PID, Start: l.Start, Boot: by.Boot, NS: by.NS}); lives { // else its name is all there is
		return process{pid: l.PID, name: l.Name}.describe()
	}
	return fmt.Sprintf("%d %s", l.PID, l.Name)
}

// keyOf gives the idempotency key in the environment that pid was started with.
func keyOf(pid int) string {
	b, err := readProc(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return ""
	}
	for _, v := range bytes.Split(b, []byte{0}) {
		if key, ok := bytes.CutPrefix(v, []byte(keyVariable+"=")); ok {
			return string(key)
		}
	}
	return ""
}

// holders lists the processes that belong to the command of key: those that hold the lock
// on its claim, and those that were started with its key. Somebody who only looks at the
// claim holds it open too, but not its exclusive lock.
func holders(claim *os.File, key string) ([]process, error) {
	info, err := claim.Stat()
	if err != nil {
		return nil, err
	}
	ps, err := processes()
	var found []process
	for _, p := range ps {
		if p.dead || p.pid == os.Getpid() {
			continue
		}
		if p.holds, err = holdsLock(p.pid, info); err != nil {
			return nil, err
		}
		if p.holds || keyOf(p.pid) == key {
			found = append(found, p)
		}
	}
	return found, err
}

func holdsLock(pid int, claim os.FileInfo) (bool, error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if starved(err) {
		return false, err
	}
	if err != nil {
		return false, nil // another user's, or gone
	}
	for _, e := range entries {
		info, err := os.Stat(dir + "/" + e.Name())
		if err != nil || !os.SameFile(info, claim) {
			continue
		}
		b, err := readProc(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, e.Name()))
		if starved(err) {
			return false, err
		}
		if bytes.Contains(b, []byte("FLOCK")) && bytes.Contains(b, []byte("WRITE")) { // nothing where it is gone
			return true, nil
		}
	}
	return false, nil
}

// descendants lists everything below roots in the process table ps, the dead left out.
// The roots themselves belong to it.
func descendants(ps []process, roots []int) []process {
	children := make(map[int][]process, len(ps))
	byPID := make(map[int]process, len(ps))
	for _, p := range ps {
		children[p.parent] = append(children[p.parent], p)
		byPID[p.pid] = p
	}
	var found []process
	seen := map[int]bool{}
	for len(roots) > 0 {
		pid := roots[0]
		roots = roots[1:]
		p, ok := byPID[pid]
		if !ok || seen[pid] {
			continue
		}
		seen[pid] = true
		if !p.dead {
			found = append(found, p)
		}
		for _, c := range children[pid] {
			roots = append(roots, c.pid)
		}
	}
	return found
}

// there reports whether p still is the process that has its pid.
func (p process) there() bool {
	if p.child {
		return slices.Contains(children(), p.pid)
	}
	now, err := readProcess(p.pid)
	return err == nil && now.start == p.start
}

// signal sends sig to exactly the process p. The pidfd is opened before the start time is
// compared, so that a pid that is reused meanwhile is not met; in a sandbox that knows no
// pidfds only the comparison, just before, keeps it from that. A process that is gone is
// no error.
func (p process) signal(sig unix.Signal) error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err == nil {
		defer func() { _ = unix.Close(fd) }() // holds nothing
	}
	if !p.there() {
		return nil
	}
	if err == nil {
		err = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // the sandbox says so, or nobody may, which kill says too
		err = unix.Kill(p.pid, sig)
	}
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal %d: %w", p.pid, err)
	}
	return nil
}
