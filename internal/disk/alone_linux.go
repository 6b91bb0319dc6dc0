package disk

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// aloneVariable is set for a process whose mounts nobody else sees.
const aloneVariable = "ACODE_DISK_ALONE"

// Alone reports whether this process is one that Again has started.
func Alone() bool { return os.Getenv(aloneVariable) != "" }

// Again prepares this program to be run once more, with args and with mounts of its own:
// those that it leaves behind go with it, and no other program keeps them busy. For who
// is not root, and cannot mount anything, it has those of everybody. It ends with the
// caller's thread, which is locked to it.
func Again(args ...string) *exec.Cmd {
	runtime.LockOSThread()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), aloneVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	}
	return cmd
}
