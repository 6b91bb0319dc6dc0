package process

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	bootIDFile = "/proc/sys/kernel/random/boot_id"
	firstStat  = "/proc/1/stat"
)

// Boot returns the id of this boot of the machine.
func Boot() (string, error) {
	b, err := os.ReadFile(bootIDFile)
	return strings.TrimSpace(string(b)), err
}

// namespace returns the PID namespace of this process as an inode. It returns a
// *BlindError if /proc is missing, shows another namespace, hides the processes of other
// users or does not name the boot of the machine.
func namespace() (uint64, error) {
	var st unix.Stat_t
	self, err := os.Readlink("/proc/self")
	if err == nil && self != strconv.Itoa(os.Getpid()) {
		err = fmt.Errorf("/proc/self leads to process %s, but this is process %d", self, os.Getpid())
	}
	if err == nil {
		err = unix.Stat("/proc/self/ns/pid", &st)
	}
	if err != nil {
		return 0, &BlindError{"/proc does not show the processes of this PID namespace", "mount it, as with: mount -t proc proc /proc (unshare --mount-proc)", err}
	}
	if err := unix.Access(bootIDFile, unix.R_OK); err != nil {
		return 0, &BlindError{"/proc does not show the id of this boot",
			"mount all of it, without subset=pid (in a unit of systemd: ProcSubset=all)", &os.PathError{Op: "read", Path: bootIDFile, Err: err}}
	}
	if err := unix.Access(firstStat, unix.R_OK); err != nil {
		return 0, &BlindError{"/proc hides the processes of other users",
			"mount it without hidepid (in a unit of systemd: ProtectProc=default)", &os.PathError{Op: "read", Path: firstStat, Err: err}}
	}
	return st.Ino, nil
}

// Read returns the entry of pid. It returns ErrGone if no process has the pid.
func Read(pid int) (Process, error) {
	b, err := ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return Process{}, fmt.Errorf("process %d: %w", pid, ErrGone)
	}
	if err != nil {
		return Process{}, err
	}
	return parse(pid, b)
}

// parse parses /proc/PID/stat. The name of the program stands in parentheses and may
// contain parentheses.
func parse(pid int, b []byte) (Process, error) {
	name, fields, err := split(b)
	if err != nil {
		return Process{}, fmt.Errorf("parse stat of %d: %w", pid, err)
	}
	p := Process{PID: pid, Name: name}
	p.Parent, _ = strconv.Atoi(fields[1]) // The kernel writes valid numbers.
	p.Session, _ = strconv.Atoi(fields[3])
	threads, _ := strconv.Atoi(fields[17])
	p.Start, _ = strconv.ParseUint(fields[19], 10, 64)
	p.Dead = (fields[0] == "Z" || fields[0] == "X") && threads <= 1
	p.Stopped = fields[0] == "T"
	return p, nil
}

func split(b []byte) (name string, fields []string, err error) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open {
		return "", nil, errors.New("it has no name of a program")
	}
	if fields = strings.Fields(string(b[end+1:])); len(fields) < 20 {
		return "", nil, fmt.Errorf("it has %d fields", len(fields))
	}
	return string(b[open+1 : end]), fields, nil
}

// dying reports whether each thread of pid is exiting or has a pending SIGKILL.
func dying(pid int) bool {
	// exiting is PF_EXITING of the kernel's sched.h.
	const exiting = 0x4
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid)) // The pattern is valid.
	for _, task := range tasks {
		b, err := ReadFile(task + "/stat")
		if err != nil {
			continue // The thread has ended.
		}
		_, fields, err := split(b)
		if err != nil {
			return false
		}
		if flags, _ := strconv.ParseUint(fields[6], 10, 64); flags&exiting != 0 {
			continue
		}
		if !killed(task + "/status") {
			return false
		}
	}
	return len(tasks) > 0
}

// killed reports whether SIGKILL is pending for the thread of a status file or for its
// process. The masks are hexadecimal; bit n-1 stands for signal n.
func killed(status string) bool {
	b, _ := ReadFile(status) // A thread that has ended has no status.
	for line := range strings.Lines(string(b)) {
		name, mask, _ := strings.Cut(line, ":")
		if name != "SigPnd" && name != "ShdPnd" {
			continue
		}
		if set, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64); err == nil && set&(1<<(unix.SIGKILL-1)) != 0 {
			return true
		}
	}
	return false
}

// Executable returns the path of the program that pid runs.
func Executable(pid int) (string, error) { return os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)) }

// SameExecutable reports whether pid runs the same file as this process, even under
// another name.
func SameExecutable(pid int) bool {
	own, ownErr := os.Stat("/proc/self/exe")
	other, otherErr := os.Stat(fmt.Sprintf("/proc/%d/exe", pid))
	return ownErr == nil && otherErr == nil && os.SameFile(own, other)
}
