package command

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/sandbox"
)

const (
	// A terminal has the same size wherever acode runs, so that the output of a command
	// does not depend on the reader's terminal.
	terminalRows, terminalColumns = 24, 80

	// terminalType is TERM if the command's environment has none.
	terminalType = "xterm-256color"

	// terminalHolds is more than the bytes that a terminal holds unread.
	terminalHolds = 64 << 10

	// unstarted is the exit status for a program that cannot be executed, as in a shell.
	unstarted = 126
)

// OnTerminal runs the program in file on a pseudo-terminal of its own, and copies its
// output to standard output. argv are its arguments, of which the first is its name.
// OnTerminal returns the exit status when the program has ended. The status is 128 plus
// the number of a signal that ended it, and 126 if the program could not be started.
//
// The supervisor starts this process as the leader of a command on a terminal. It holds
// the terminal, so the command is not hung up if supervisor and acode are killed. To them
// it is a command that writes to a pipe. Its child is in its process group and session.
// The child gets the signals that end a command, and decides how to handle them.
func OnTerminal(file string, argv []string) int {
	// every signal that can be caught: they are for the command
	signal.Notify(make(chan os.Signal, 1))
	near, far, err := openTerminal()
	if err != nil {
		return refuse(fmt.Errorf("there is no pseudo-terminal: %w", err))
	}
	env := syscall.Environ()
	if os.Getenv("TERM") == "" {
		env = append(env, "TERM="+terminalType)
	}
	end := far.Fd()
	pid, err := syscall.ForkExec(file, argv, &syscall.ProcAttr{Env: env, Files: []uintptr{end, end, end}, Sys: sandbox.StageAttributes(argv)})
	if err != nil {
		return refuse(err)
	}
	ended, status, err := reaped(pid)
	if err != nil {
		return refuse(err)
	}
	relay(int(near.Fd()), int(ended.Fd()))
	// far stayed open so that reading never met the end
	_ = far.Close()
	ws := <-status
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

func refuse(err error) int {
	fmt.Printf("acode: the command could not be started: %v\n", err)
	return unstarted
}

// openTerminal makes the pseudo-terminal of this process session. It does not convert the
// ends of lines, so that a text reads as through a pipe. There is no one to type, so a
// read returns the end of the input at once.
func openTerminal() (near, far *os.File, err error) {
	near, far, err = pty.Open()
	if err != nil {
		return nil, nil, err
	}
	fd := int(far.Fd())
	mode, err := unix.IoctlGetTermios(fd, getTermios)
	if err == nil {
		mode.Oflag &^= unix.ONLCR
		mode.Lflag &^= unix.ICANON
		mode.Cc[unix.VMIN], mode.Cc[unix.VTIME] = 0, 0
		err = errors.Join(unix.IoctlSetTermios(fd, setTermios, mode), unix.IoctlSetInt(fd, unix.TIOCSCTTY, 0))
	}
	return near, far, errors.Join(err, pty.Setsize(far, &pty.Winsize{Rows: terminalRows, Cols: terminalColumns}))
}

// reaped returns a file that can be read once the process has ended, and its status.
func reaped(pid int) (ended *os.File, status <-chan unix.WaitStatus, err error) {
	ended, alive, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	c := make(chan unix.WaitStatus, 1)
	go func() {
		var ws unix.WaitStatus
		for {
			if _, err := unix.Wait4(pid, &ws, 0, nil); !errors.Is(err, unix.EINTR) {
				break
			}
		}
		c <- ws
		// closing makes ended readable
		_ = alive.Close()
	}()
	return ended, c, nil
}

// relay copies the output of the terminal until the command has ended, and then the bytes
// that the terminal holds. Processes that the command left behind may continue to write.
func relay(near, ended int) {
	b := make([]byte, 64<<10)
	for left := terminalHolds; left > 0; {
		// poll(2) does not support terminals on macOS
		var ready unix.FdSet
		ready.Set(near)
		ready.Set(ended)
		if _, err := unix.Select(max(near, ended)+1, &ready, nil, nil, nil); errors.Is(err, unix.EINTR) {
			continue
		} else if err != nil {
			return
		}
		if !ready.IsSet(near) {
			return
		}
		n, err := unix.Read(near, b)
		if n > 0 {
			// bytes that the output does not take are lost, as from a pipe
			_, _ = os.Stdout.Write(b[:n])
		} else if !errors.Is(err, unix.EINTR) {
			return
		}
		if ready.IsSet(ended) {
			left -= n
		}
	}
}

// onTerminal returns the program and the arguments with which this program runs a command
// on a terminal.
func (s *supervisor) onTerminal(file string, argv []string) (string, []string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, fmt.Errorf("find this program: %w", err)
	}
	return own(self), slices.Concat([]string{self}, s.cfg.Terminal, []string{file}, argv), nil
}
