// Package process identifies processes and reads the process table.
//
// The system uses a pid again after its process has ended, and a pid has another meaning
// in each container. An ID therefore adds the start of the process, the boot of the
// machine and the PID namespace. The package depends on no other package of acode.
//
// On macOS the package does not walk the process table. A Process there stands for the
// process group that it leads.
package process

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Foreground reports whether this process may use the terminal f. The system stops a
// process that uses its terminal in the background.
func Foreground(f *os.File) bool {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// ErrGone says that no process has the pid.
var ErrGone = errors.New("no such process")

// BlindError says that the system does not show its processes, so pids cannot be
// interpreted.
type BlindError struct {
	// Message names the cause.
	Message string
	// Next names the remedy.
	Next string
	// Err is the error of the system.
	Err error
}

// Error returns the cause and the error of the system.
func (e *BlindError) Error() string { return e.Message + ": " + e.Err.Error() }

// Unwrap returns the error of the system.
func (e *BlindError) Unwrap() error { return e.Err }

// ID identifies one process permanently.
type ID struct {
	PID int `json:"pid"`
	// Start is the start of the process in units of the system; it is only compared. It
	// is 0 if the start is unknown. Such an ID matches only a process that leads a
	// process session.
	Start uint64 `json:"start"`
	Boot  string `json:"boot"`
	// NS is the PID namespace of PID. It is 0 if the system has only one or if it was not
	// recorded.
	NS uint64 `json:"ns,omitempty"`
}

// Self returns the ID of this process. It returns a *BlindError if pids cannot be
// interpreted.
func Self() (ID, error) { return Identify(os.Getpid()) }

// Identify returns the ID of the process that has pid now. A zombie has an ID too.
// Identify returns ErrGone or a *BlindError.
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

// Elsewhere reports whether the pid of id belongs to another PID namespace, for example
// another container. Then only locks show whether the process lives.
func (id ID) Elsewhere() bool {
	if id.PID <= 0 {
		return false
	}
	ns, err := namespace()
	return err != nil || id.NS != 0 && id.NS != ns
}

// Alive reports whether this process can see that the process lives. A stopped process is
// alive, and so is one whose main thread has ended while other threads run. A zombie is
// not alive. Alive returns false for a process that is Elsewhere, and an error if this
// process could not look.
func (id ID) Alive() (bool, error) {
	p, err := id.look()
	return err == nil && !p.Dead, notGone(err)
}

// Stopped reports whether the process lives and is stopped, for example by Ctrl-Z. A
// stopped process keeps its locks.
func (id ID) Stopped() bool {
	p, err := id.look()
	return err == nil && !p.Dead && p.Stopped
}

// Dying reports whether the process was killed and has not ended yet. Such a process runs
// no more instructions of its own. It keeps its locks until the system has finished its
// pending calls.
func (id ID) Dying() bool {
	p, err := id.look()
	return err == nil && !p.Dead && dying(id.PID)
}

// look returns the entry of the process. It returns ErrGone if no process or another
// process has the pid.
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

// Process is an entry of the process table.
type Process struct {
	PID    int
	Parent int
	// Session is the pid of the leader of its process session, which may have ended.
	Session int
	// Start is as in ID.
	Start uint64
	// Dead says that all of its threads have ended and its parent has not waited for it.
	Dead bool
	// Stopped says that the process is stopped, for example by Ctrl-Z.
	Stopped bool
	Name    string
}
