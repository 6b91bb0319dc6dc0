package disk

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// aloneVariable is set in a process with its own mounts.
const aloneVariable = "ACODE_DISK_ALONE"

// Alone reports whether AloneCommand started this process.
func Alone() bool { return os.Getenv(aloneVariable) != "" }

// AloneCommand prepares another run of this program with args and its own mounts. Its
// mounts end with it, and no other program keeps them busy. Without root, which cannot
// mount, the run shares the mounts of the system. It ends with the caller's thread, which
// is locked to the goroutine.
func AloneCommand(args ...string) *exec.Cmd {
	runtime.LockOSThread()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), aloneVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	}
	return cmd
}
