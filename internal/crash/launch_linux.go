package crash

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// launchSwitch is the first argument of a harness binary that acts as a launcher.
const launchSwitch = "crash-launcher"

// gateFD is the launcher's end of the socket to the tracer.
const gateFD = 3

// LauncherMain turns the calling process into the launcher of a traced program if its
// arguments say so. Otherwise it returns at once. A binary that uses Tracer calls it
// first in main or TestMain, because the tracer executes that same binary to install the
// system call filter in the new process.
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

// launch tells the tracer which thread will execute the program, waits until the tracer
// traces that thread, filters its calls and becomes the program. It returns only an
// error.
//
// The filter applies to this one thread. The other threads end with the exec. Until then
// a filter would make their calls fail with ENOSYS, because they are not traced.
func launch(gate *os.File, argv []string) error {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return fmt.Errorf("find program: %w", err)
	}
	syscall.CloseOnExec(gateFD)
	var tid [8]byte
	binary.NativeEndian.PutUint64(tid[:], uint64(syscall.Gettid()))
	if _, err := gate.Write(tid[:]); err != nil {
		return fmt.Errorf("send thread id: %w", err)
	}
	if _, err := gate.Read(tid[:1]); err != nil {
		return fmt.Errorf("wait for tracer: %w", err)
	}
	if err := installFilter(); err != nil {
		return err
	}
	return fmt.Errorf("exec %s: %w", path, syscall.Exec(path, argv, os.Environ()))
}
