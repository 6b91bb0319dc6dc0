package machine

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/session"
)

const bootIDFile = "/proc/sys/kernel/random/boot_id"

// BootID names this run of the machine.
func BootID() (string, error) {
	b, err := os.ReadFile(bootIDFile)
	return strings.TrimSpace(string(b)), err
}

// Namespace names the PID namespace of this process, which is that of /proc too. Where /proc is
// missing, or shows the processes of another namespace or nothing but processes, a pid means nothing: ErrEnvironment.
func Namespace() (uint64, error) {
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
