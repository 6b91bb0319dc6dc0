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
)

const (
	// A terminal has the same size wherever acode runs: what a command writes does not
	// depend on who watches it.
	terminalRows, terminalColumns = 24, 80

	// terminalType is TERM where the command's environment has none.
	terminalType = "xterm-256color"

	// terminalHolds is more than what a terminal holds that was written and not read.
	terminalHolds = 64 << 10

	// unstarted is the exit status for a program that cannot be executed, as in a shell.
	unstarted = 126
)

// OnTerminal runs the program in file with the arguments argv, of which the first is its
// name, on a pseudo-terminal of its own, and copies what it writes to standard output. It
// returns its exit status when it has ended: 128 and the number of a signal that ended
// it, 126 where it could not be started.
//
// The supervisor starts it as the leader of a command on a terminal. It holds the
// terminal, so the command is not hung up when supervisor and acode are killed, and to
// them it is a command that writes to a pipe. Its child is in its process group and
// session, gets the signals that end a command, and decides what they do.
func OnTerminal(file string, argv []string) int {
	// all that can be: they are for the command
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
	pid, err := syscall.ForkExec(file, argv, &syscall.ProcAttr{Env: env, Files: []uintptr{end, end, end}})
	if err != nil {
		return refuse(err)
	}
	ended, status, err := reaped(pid)
	if err != nil {
		return refuse(err)
	}
	relay(int(near.Fd()), int(ended.Fd()))
	// it was kept open so that reading never met the end
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

// openTerminal makes a pseudo-terminal, that of this process session. It leaves the ends
// of lines as they are written, so that a text reads as through a pipe. No one types
// there: a read gives the end of the input at once.
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

// reaped gives a file that can be read once the process has ended, and its status.
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
		// which is the news
		_ = alive.Close()
	}()
	return ended, c, nil
}

// relay copies what comes from the terminal, until the command has ended and what the
// terminal held then is copied. What the command left behind may write on.
func relay(near, ended int) {
	b := make([]byte, 64<<10)
	for left := terminalHolds; left > 0; {
		// poll(2) does not know terminals on macOS
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
			// what the output does not take is lost, as from a pipe
			_, _ = os.Stdout.Write(b[:n])
		} else if !errors.Is(err, unix.EINTR) {
			return
		}
		if ready.IsSet(ended) {
			left -= n
		}
	}
}

// onTerminal gives the program and the arguments by which this program runs a command on
// a terminal.
func (s *supervisor) onTerminal(file string, argv []string) (string, []string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, fmt.Errorf("find this program: %w", err)
	}
	return own(self), slices.Concat([]string{self}, s.cfg.Terminal, []string{file}, argv), nil
}
