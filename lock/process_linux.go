package lock

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/session"
)

// errGone is returned for a process that has ended, waited for or not.
var errGone = errors.New("the process has ended")

// process gives the start of a process in clock ticks since boot, and whether it is stopped.
func process(pid int) (start uint64, stopped bool, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false, err
	}
	// The name of the program stands in parentheses and may itself hold some.
	_, rest, ok := bytes.Cut(b[bytes.LastIndexByte(b, ')')+1:], []byte(" "))
	fields := strings.Fields(string(rest))
	if !ok || len(fields) < 20 {
		return 0, false, fmt.Errorf("read /proc/%d/stat: %q", pid, b)
	}
	state := fields[0]
	if state == "Z" || state == "X" {
		return 0, false, errGone
	}
	start, err = strconv.ParseUint(fields[19], 10, 64)
	return start, state == "T", err
}

const bootIDFile = "/proc/sys/kernel/random/boot_id"

// namespace names the PID namespace of this process, which is that of /proc too. Where /proc is
// missing, or shows the processes of another namespace or nothing but processes, a pid means nothing: ErrEnvironment.
func namespace() (uint64, error) {
	var st unix.Stat_t
	self, err := os.Readlink("/proc/self")
	if err == nil && self != strconv.Itoa(os.Getpid()) {
		err = fmt.Errorf("it calls this process %s, which is %d", self, os.Getpid())
	}
	if err == nil {
		err = unix.Stat("/proc/self/ns/pid", &st)
	}
	message, next := "/proc does not show the processes of this PID namespace", "mount it, as with: mount -t proc proc /proc (unshare --mount-proc)"
	if err == nil {
		if err = unix.Access(bootIDFile, unix.R_OK); err != nil {
			message, next = "/proc does not tell one run of the machine from another", "mount all of it, without subset=pid (in a unit of systemd: ProcSubset=all)"
			err = &os.PathError{Op: "read", Path: bootIDFile, Err: err}
		}
	}
	if err != nil {
		return 0, &session.Error{Code: session.ErrEnvironment, Message: message + ", so nobody could tell who lives; nothing was changed", Next: next, Cause: err}
	}
	return timed(st.Ino), nil
}

// initialTimeNS is the time namespace that the machine starts with.
const initialTimeNS = 0xEFFFFFFA

// timed marks a PID namespace that is seen from another time namespace than the first: the same process
// began at another time there.
func timed(pidNS uint64) uint64 {
	var st unix.Stat_t
	if unix.Stat("/proc/self/ns/time", &st) != nil || st.Ino == initialTimeNS { // or the kernel has none
		return pidNS
	}
	return pidNS | st.Ino<<32
}

func bootID() (string, error) {
	b, err := os.ReadFile(bootIDFile)
	return strings.TrimSpace(string(b)), err
}

func executable(pid int) (string, error) { return os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)) }

// sameExecutable reports whether a process runs the very file that this one runs, under
// whatever name.
func sameExecutable(pid int) bool {
	own, ownErr := os.Stat("/proc/self/exe")
	other, otherErr := os.Stat(fmt.Sprintf("/proc/%d/exe", pid))
	return ownErr == nil && otherErr == nil && os.SameFile(own, other)
}
