package crash

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// launchSwitch is the first argument of a harness binary that is to act as launcher.
const launchSwitch = "crash-launcher"

// gateFD is the launcher's end of the socket over which it and the tracer agree.
const gateFD = 3

// LauncherMain turns the calling process into the launcher of a traced program when its
// arguments say so, and returns at once otherwise. A binary that uses Tracer calls it
// first thing in main or TestMain, because the tracer executes that same binary to
// install the system call filter in the new process.
func LauncherMain() {
	if len(os.Args) < 3 || os.Args[1] != launchSwitch {
		return
	}
	runtime.LockOSThread()
	gate := os.NewFile(gateFD, "gate")
	err := launch(gate, os.Args[2:])
	_, _ = fmt.Fprintf(gate, "%v", err)
	os.Exit(127)
}

// launch tells the tracer which thread will execute the program, waits until that thread
// is traced, filters its calls and becomes the program. It returns only an error.
//
// The filter is put on this one thread: the others end with the exec, and would meet
// ENOSYS until then, because nobody traces them.
func launch(gate *os.File, argv []string) error {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return fmt.Errorf("find program: %w", err)
	}
	syscall.CloseOnExec(gateFD)
	var tid [8]byte
	binary.NativeEndian.PutUint64(tid[:], uint64(syscall.Gettid()))
	if _, err := gate.Write(tid[:]); err != nil {
		return fmt.Errorf("tell thread: %w", err)
	}
	if _, err := gate.Read(tid[:1]); err != nil {
		return fmt.Errorf("wait for tracer: %w", err)
	}
	if err := installFilter(); err != nil {
		return err
	}
	return fmt.Errorf("exec %s: %w", path, syscall.Exec(path, argv, os.Environ()))
}
