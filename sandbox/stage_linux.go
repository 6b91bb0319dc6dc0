package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// unstarted is the exit status of a stage that could not start its command.
const unstarted = 126

// Enter confines this process and executes a command in its place. args follow Stage. It
// returns only if that fails, with the exit status of the process. Without a program in
// args it only tries whether the sandbox can be built.
func Enter(args []string) int {
	var s stage
	if len(args) < 2 || json.Unmarshal([]byte(args[0]), &s) != nil {
		fmt.Fprintln(os.Stderr, "acode: the first stage of a sandbox is started by acode only")
		return unstarted
	}
	if s.Report != 0 {
		unix.CloseOnExec(s.Report)
	}
	// Landlock, capabilities and the filter belong to a thread
	runtime.LockOSThread()
	err := s.confine()
	if err != nil {
		err = fmt.Errorf("the sandbox cannot be built: %w", err)
	} else if args[1] == "" {
		fmt.Print(Stage)
		return 0
	} else {
		err = execute(args[1], args[2:])
	}
	s.report(err)
	return unstarted
}

// confine builds the sandbox around this thread.
func (s stage) confine() error {
	if s.Mode == Namespaces {
		if !s.Network {
			if err := raiseLoopback(); err != nil {
				return fmt.Errorf("start the loopback interface: %w", err)
			}
		}
		if err := s.enterRoot(); err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	if err := s.restrict(); err != nil {
		return err
	}
	if err := dropCapabilities(); err != nil {
		return fmt.Errorf("give up capabilities: %w", err)
	}
	return s.filter()
}

// execute replaces this process. A program that is there, but whose interpreter is not,
// has an error of its own.
func execute(file string, argv []string) error {
	err := syscall.Exec(file, argv, os.Environ())
	if errors.Is(err, unix.ENOENT) {
		if _, missing := os.Stat(file); missing == nil {
			return errors.New("its interpreter, which the first line or the loader names, does not exist in the sandbox")
		} else if errors.Is(missing, fs.ErrPermission) {
			return missing
		}
	}
	return err
}

// report writes err for Failure.
func (s stage) report(err error) {
	if s.Report == 0 {
		fmt.Fprintln(os.Stderr, "acode: the command could not be started:", err)
		return
	}
	no := unix.Errno(0)
	// no number means that no limit was reached
	_ = errors.As(err, &no)
	// if nothing can be written, the exit status remains
	_, _ = unix.Write(s.Report, fmt.Appendf(nil, "%d %s", int(no), err))
}

// Failure returns the error that a stage has written to its report; nil if it wrote none.
func Failure(report string) error {
	no, said, ok := strings.Cut(report, " ")
	if !ok {
		return nil
	}
	var n int
	// a report without a number names no limit
	_, _ = fmt.Sscan(no, &n)
	return failure{said, unix.Errno(n)}
}

// failure is an error of the system in another process.
type failure struct {
	said string
	no   unix.Errno
}

// Error implements error.
func (f failure) Error() string { return f.said }

// Unwrap returns the error of the system.
func (f failure) Unwrap() error { return f.no }

// dropCapabilities gives up all capabilities of this thread for good.
func dropCapabilities() error {
	for c := range uintptr(unix.CAP_LAST_CAP + 1) {
		// EINVAL means that the kernel has no such capability, and EPERM that this
		// process has none to give up
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EPERM) {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	var none [2]unix.CapUserData
	return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0])
}

// raiseLoopback starts the loopback interface of a new network namespace.
func raiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	// it has done its work
	defer func() { _ = unix.Close(fd) }()
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r)
}
