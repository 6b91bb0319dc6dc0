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

	"github.com/acode-dev/acode/process"
	"github.com/acode-dev/acode/session"
)

// Holder names the process that holds a lock. A pid that is used again does not match
// it. The zero Holder names no process.
type Holder struct {
	process.ID
	Host string `json:"host"`
	// Command is the command line as typed, for people.
	Command string     `json:"command"`
	Since   time.Time  `json:"since"`
	Session session.ID `json:"session,omitempty"`
	// Key is the key of the command, in a command lock.
	Key string `json:"key,omitempty"`
	// Turns says that the holder executes single operations for an agent, and holds the
	// lock only during each of them.
	Turns bool `json:"turns,omitempty"`
	// Client is the agent that started the holder as its server; zero if none did.
	Client process.ID `json:"client,omitzero"`
}

// Serving returns h as that of a server whose agent is the parent of this process. If
// the agent has ended already, h names none.
func (h Holder) Serving() Holder {
	if id, err := process.Identify(os.Getppid()); err == nil {
		h.Client = id
	}
	return h
}

// Left reports whether the agent of h has ended. Its server will end, too.
func (h Holder) Left() bool {
	lives, err := h.Client.Alive()
	return h.Client.PID > 0 && !h.Client.Elsewhere() && !lives && err == nil
}

// Self describes this process. The caller adds the session. Self returns ErrEnvironment
// if /proc does not show the processes, because pids mean nothing then.
func Self(command string, now time.Time) (Holder, error) {
	id, err := process.Self()
	var blind *process.BlindError
	if errors.As(err, &blind) {
		return Holder{}, &session.Error{Code: session.ErrEnvironment, Message: blind.Message + ", so acode cannot tell which processes live; nothing was changed",
			Next: session.Words(blind.Next), Cause: blind.Err}
	}
	host, hostErr := os.Hostname()
	if err := errors.Join(err, hostErr); err != nil {
		return Holder{}, fmt.Errorf("describe own process: %w", err)
	}
	return Holder{ID: id, Host: host, Command: command, Since: now.UTC()}, nil
}

// Alive reports whether the process of h is seen to run, as process.ID says. A process
// that cannot be examined counts as not running.
func (h Holder) Alive() bool {
	lives, err := h.ID.Alive()
	return lives && err == nil
}

// Process names the process by its pid, and says when that is a pid of another PID
// namespace.
func (h Holder) Process() string {
	if h.Elsewhere() {
		return fmt.Sprintf("pid %d in another PID namespace", h.PID)
	}
	return fmt.Sprintf("pid %d", h.PID)
}

// String describes the holder in one line.
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
	if !h.Since.IsZero() {
		s += " since " + h.Since.UTC().Format(time.DateTime) + " UTC"
	}
	return s
}

// foreign returns the executable of a live holder that is not acode. It returns "" if
// the holder is acode or cannot be examined.
func (h Holder) foreign() string {
	if h.Elsewhere() {
		return ""
	}
	exe, err := process.Executable(h.PID)
	if err != nil {
		return ""
	}
	own, err := os.Executable()
	base := strings.TrimSuffix(filepath.Base(exe), " (deleted)")
	if err != nil || strings.Contains(base, "acode") || base == filepath.Base(own) || process.SameExecutable(h.PID) {
		return ""
	}
	return exe
}

// HeldError is the cause of an ErrLocked: another process has the lock.
type HeldError struct {
	Path string
	// Holder is zero when the file does not name one.
	Holder Holder
}

// Error names the holder.
func (e *HeldError) Error() string { return fmt.Sprintf("%s is held by %s", e.Path, e.Holder) }

// contentBytes is the size of every lock file. Each holder overwrites the whole file in
// one write, so that a reader never sees parts of two holders.
const contentBytes = 1024

// write puts h into the file. It shortens a command line that is too long.
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

// overwrite replaces the content of the file by b. A nil b leaves a file that names no
// holder.
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

// Read returns the holder that the lock file at path names, and reports whether it is
// alive. A holder that was killed and is still ending executes nothing any more and
// counts as dead. Read writes nothing. It takes no lock, so that it never disturbs a
// holder, with one exception: if the holder is Elsewhere, Read takes the lock, shared
// and for an instant. A file that is missing, empty or not of this form names no
// holder.
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
	if h.Elsewhere() {
		// closing f releases the lock again
		free, err := tryFlock(f, unix.LOCK_SH)
		return h, !free && err == nil, err
	}
	return h, h.Alive() && !h.Dying(), nil
}

// holderIn returns the holder that the file names, or zero if it names none.
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
