package lock

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/machine"
	"github.com/acode-dev/acode/session"
)

// Holder says who holds a lock. PID, StartTime, BootID and Namespace together name one process
// for ever: a pid alone is used again.
type Holder struct {
	PID       int        `json:"pid"`
	Namespace uint64     `json:"pid_ns,omitempty"` // in which PID counts; 0 where there is only one, or nobody said
	StartTime uint64     `json:"start_time"`       // as the system counts it; only ever compared
	BootID    string     `json:"boot_id"`
	Host      string     `json:"host"`
	Command   string     `json:"command"` // as typed, for people
	Since     time.Time  `json:"since"`
	Session   session.ID `json:"session,omitempty"`
	Key       string     `json:"key,omitempty"` // of the command, in a command lock
}

// Self describes this process. The caller adds the session.
func Self(command string, now time.Time) (Holder, error) {
	pid := os.Getpid()
	ns, err := machine.Namespace()
	if err != nil {
		return Holder{}, err
	}
	start, _, startErr := process(pid)
	boot, bootErr := machine.BootID()
	host, hostErr := os.Hostname()
	if err := errors.Join(startErr, bootErr, hostErr); err != nil {
		return Holder{}, fmt.Errorf("describe own process: %w", err)
	}
	return Holder{PID: pid, Namespace: ns, StartTime: start, BootID: boot, Host: host, Command: command, Since: now.UTC()}, nil
}

// Alive reports whether the process that h names is seen to run: its pid, start time and boot id
// match. A frozen process is alive, one that ended and was not waited for is not. One that is
// Elsewhere is not seen.
func (h Holder) Alive() bool {
	return h.PID > 0 && !h.Elsewhere() && h.seen()
}

func (h Holder) seen() bool {
	boot, err := machine.BootID()
	if err != nil || boot != h.BootID {
		return false
	}
	start, _, err := process(h.PID)
	return err == nil && start == h.StartTime
}

// Stopped reports whether the process of h lives and is stopped, as by Ctrl-Z: it does nothing, and
// keeps what it holds.
func (h Holder) Stopped() bool {
	if !h.Alive() {
		return false
	}
	_, stopped, err := process(h.PID)
	return err == nil && stopped
}

// Elsewhere reports whether the pid of h counts in another process table than the one that this
// process sees, as in another container: then only the lock itself tells whether h lives.
func (h Holder) Elsewhere() bool {
	if h.PID <= 0 {
		return false
	}
	ns, err := machine.Namespace()
	return err != nil || h.Namespace != 0 && h.Namespace != ns
}

// Process names the process: its pid, and whose that is.
func (h Holder) Process() string {
	if h.Elsewhere() {
		return fmt.Sprintf("pid %d in another PID namespace", h.PID)
	}
	return fmt.Sprintf("pid %d", h.PID)
}

// String says who it is in one line.
func (h Holder) String() string {
	if h.PID == 0 {
		return "a process that the lock file does not name"
	}
	s := "process " + strings.TrimPrefix(h.Process(), "pid ")
	if h.Command != "" {
		s += fmt.Sprintf(" (%s)", h.Command)
	}
	if h.Host != "" {
		s += " on " + h.Host
	}
	return s + " since " + h.Since.UTC().Format(time.DateTime) + " UTC"
}

// foreign gives the executable of a live holder that is no acode; empty when it is one or
// cannot be looked at.
func (h Holder) foreign() string {
	if h.Elsewhere() {
		return ""
	}
	exe, err := executable(h.PID)
	if err != nil {
		return ""
	}
	own, err := os.Executable()
	base := strings.TrimSuffix(filepath.Base(exe), " (deleted)")
	if err != nil || strings.Contains(base, "acode") || base == filepath.Base(own) || sameExecutable(h.PID) {
		return ""
	}
	return exe
}

// HeldError is the cause of an ErrLocked: somebody else has the lock.
type HeldError struct {
	Path   string
	Holder Holder // zero when the file does not say
}

// Error names the holder.
func (e *HeldError) Error() string { return fmt.Sprintf("%s is held by %s", e.Path, e.Holder) }

// contentBytes is the size of every lock file: each holder overwrites all of what the one
// before wrote, in one write, so that a reader never meets half of each.
const contentBytes = 1024

// write puts h into the file. A command line that is too long is cut.
func write(f *os.File, h Holder) error {
	for {
		b, err := json.Marshal(h)
		if err != nil {
			return fmt.Errorf("encode holder: %w", err)
		}
		if len(b) < contentBytes {
			return overwrite(f, b)
		}
		if h.Command == "" {
			h.Host, h.Key = "", ""
		}
		h.Command = strings.ToValidUTF8(h.Command[:len(h.Command)/2], "")
	}
}

// erase makes the file name nobody.
func erase(f *os.File) error { return overwrite(f, nil) }

func overwrite(f *os.File, b []byte) error {
	content := []byte(strings.Repeat(" ", contentBytes-1) + "\n")
	copy(content, b)
	if _, err := f.WriteAt(content, 0); err != nil {
		return fmt.Errorf("write holder: %w", err)
	}
	if info, err := f.Stat(); err == nil && info.Size() > contentBytes {
		return f.Truncate(contentBytes)
	}
	return nil
}

// hidden reports whether the process of h may live and /proc does not show it, as with hidepid what runs
// with other rights.
func (h Holder) hidden() bool {
	if h.PID <= 0 {
		return false
	}
	_, _, err := process(h.PID)
	return err != nil && !errors.Is(err, errGone) && !errors.Is(unix.Kill(h.PID, 0), unix.ESRCH)
}

// Read says what the lock file at path says, and whether the holder that it names is alive.
// It writes nothing and takes no lock, so that it never disturbs a holder; but where that is
// Elsewhere, or hidden, it asks for the lock, shared and for an instant. A file that is missing, empty or not
// of this form names nobody.
func Read(path string) (h Holder, held bool, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return Holder{}, false, nil
	}
	if err != nil {
		return Holder{}, false, openError(path, err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return Holder{}, false, notRegular(path)
	}
	if h, err = holderIn(f); err != nil {
		return Holder{}, false, err
	}
	if h.Elsewhere() || h.hidden() {
		held, err = isLocked(f)
		return h, held, err
	}
	return h, h.PID > 0 && h.seen(), nil
}

// isLocked reports whether somebody has the lock of f for himself.
func isLocked(f *os.File) (bool, error) {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) // f is closed next, which gives it back
		switch {
		case err == nil:
			return false, nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return true, nil
		case !errors.Is(err, unix.EINTR):
			return false, ioError(f.Name(), err)
		}
	}
}

// holderIn is the holder that the file names; zero when it names nobody.
func holderIn(f *os.File) (h Holder, err error) {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, contentBytes))
	if err != nil {
		return Holder{}, fmt.Errorf("read lock file: %w", err)
	}
	if json.Unmarshal(b, &h) != nil {
		return Holder{}, nil
	}
	return h, nil
}
