// Package process says which process a pid means, whether that process lives, and what
// the process table shows.
//
// A pid alone is used again within seconds, and means another process in each container.
// An ID adds the start of the process, the run of the machine, and the PID namespace. The
// package is a leaf: it knows neither locks nor commands.
//
// On macOS the process table is not walked. A Process stands for the process group that
// it leads.
package process

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Foreground reports whether this process may use its terminal, of which f is a handle:
// one that does in the background is stopped.
func Foreground(f *os.File) bool {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// ErrGone says that there is no process with the pid.
var ErrGone = errors.New("no such process")

// BlindError says that pids mean nothing here, because the system does not show its
// processes. It names the remedy.
type BlindError struct {
	// what is missing
	Message string
	// what to do about it
	Next string
	// of the system
	Err error
}

// Error says what is missing and what the system said.
func (e *BlindError) Error() string { return e.Message + ": " + e.Err.Error() }

// Unwrap gives the error of the system.
func (e *BlindError) Unwrap() error { return e.Err }

// ID names one process for good.
type ID struct {
	PID int `json:"pid"`
	// as the system counts it; only ever compared; 0: not seen, of a process that leads a
	// process session
	Start uint64 `json:"start"`
	Boot  string `json:"boot"`
	// the PID namespace in which PID counts; 0 where there is only one, or it was not
	// recorded
	NS uint64 `json:"ns,omitempty"`
}

// Self names this process. It returns a *BlindError where pids mean nothing.
func Self() (ID, error) { return Identify(os.Getpid()) }

// Identify names the process that has pid now. A process that has ended and was not
// waited for has an ID too. It returns ErrGone, or a *BlindError.
func Identify(pid int) (ID, error) {
	ns, err := namespace()
	if err != nil {
		return ID{}, err
	}
	p, err := Read(pid)
	if err != nil {
		return ID{}, err
	}
	boot, err := Boot()
	return ID{PID: pid, Start: p.Start, Boot: boot, NS: ns}, err
}

// Elsewhere reports whether the pid of id counts in another process table than the one
// that this process sees, as in another container. Then only locks tell whether the
// process lives.
func (id ID) Elsewhere() bool {
	if id.PID <= 0 {
		return false
	}
	ns, err := namespace()
	return err != nil || id.NS != 0 && id.NS != ns
}

// Alive reports whether the process is seen to run. A stopped process is alive, and so is
// one whose main thread has ended while others run; a zombie is not. A process that is
// Elsewhere is not seen. An error says that this process could not look.
func (id ID) Alive() (bool, error) {
	p, err := id.look()
	return err == nil && !p.Dead, notGone(err)
}

// Stopped reports whether the process lives and is stopped, as by Ctrl-Z: it does
// nothing, and keeps what it holds.
func (id ID) Stopped() bool {
	p, err := id.look()
	return err == nil && !p.Dead && p.Stopped
}

// Dying reports whether the process was killed and has not ended yet: it runs no
// instruction of its own any more, and keeps its locks until the system has finished what
// it was doing for it.
func (id ID) Dying() bool {
	p, err := id.look()
	return err == nil && !p.Dead && dying(id.PID)
}

// look reads the line of the process. ErrGone says that another process has the pid, or
// none.
func (id ID) look() (Process, error) {
	if id.PID <= 0 || id.Elsewhere() {
		return Process{}, ErrGone
	}
	p, err := Read(id.PID)
	if err != nil {
		return p, err
	}
	boot, err := Boot()
	if err != nil {
		return p, err
	}
	if id.Boot != boot || p.Start != id.Start && (id.Start != 0 || p.Session != p.PID) {
		return p, ErrGone
	}
	return p, nil
}

func notGone(err error) error {
	if errors.Is(err, ErrGone) {
		return nil
	}
	return err
}

// Process is a line of the process table.
type Process struct {
	PID    int
	Parent int
	// the pid that leads, or led, its process session
	Session int
	// as in ID
	Start uint64
	// all of its threads have ended, and its parent has not waited for it
	Dead bool
	// as by Ctrl-Z
	Stopped bool
	Name    string
}
