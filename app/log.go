package app

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/acode-dev/acode/session"
)

// openLog opens the log that the settings name.
func (s *Setup) openLog() (log *slog.Logger, end func() error, err error) {
	c := s.Settings.Config.Log
	dir := c.Dir
	if dir == "" {
		dir = filepath.Join(s.home(), "log")
	}
	f, err := openLogFile(dir, c.MaxBytes, c.Keep)
	if err != nil {
		return nil, nil, err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return slog.New(slog.NewJSONHandler(f, &slog.HandlerOptions{Level: level, ReplaceAttr: s.Redactor.Attr})), f.Close, nil
}

// LogRefused logs an attempt to resume that ended before its store was open, because
// configuration, workspace, store or key was refused (NFR-014). It creates no store, and
// ignores a log that cannot be written.
func (s *Setup) LogRefused(ref string, refusal error) {
	if info, err := os.Stat(s.home()); err != nil || !info.IsDir() {
		return
	}
	log, end, err := s.openLog()
	if err != nil {
		return
	}
	logRefused(log, ref, refusal)
	_ = end() // the record is already written
}

// logRefused logs an attempt to resume that ended before the session was loaded
// (NFR-014).
func logRefused(log *slog.Logger, id string, err error) {
	log.Warn("resume refused", "event", "session_resume_refused", "session_id", id, "code", string(session.CodeOf(err)), "error", err.Error())
}

// logFile is a log that is renamed when it is too large. Several processes may write to
// one log. Records are appended whole, and after a rename each other process writes at
// most one record to the old file.
type logFile struct {
	mu   sync.Mutex
	path string
	max  int64
	keep int
	f    *os.File
}

func openLogFile(dir string, maxBytes int64, keep int) (*logFile, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, logError(dir, err)
	}
	l := &logFile{path: filepath.Join(dir, "acode.log"), max: maxBytes, keep: keep}
	return l, l.open()
}

func (l *logFile) open() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return logError(l.path, err)
	}
	l.f = f
	return nil
}

func logError(place string, err error) error {
	return &session.Error{Code: session.DiskCode(err, session.ErrStoreIO), Message: "the log cannot be written; nothing was changed", Place: place, Cause: err}
}

// Write appends one record. It drops errors, because a log that cannot be written, for
// example on a full disk, must never stop a session.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if info, err := l.f.Stat(); err == nil && l.max > 0 && info.Size()+int64(len(p)) > l.max {
		l.rotate()
	}
	_, _ = l.f.Write(p)
	return len(p), nil
}

// rotate renames acode.log to acode.log.1, acode.log.1 to acode.log.2 and so on, and
// drops the last one. If keep is 0, it removes acode.log.
func (l *logFile) rotate() {
	current, err := os.Stat(l.path)
	mine, err2 := l.f.Stat()
	if err == nil && err2 == nil && os.SameFile(current, mine) {
		for i := l.keep; i > 1; i-- {
			_ = os.Rename(fmt.Sprintf("%s.%d", l.path, i-1), fmt.Sprintf("%s.%d", l.path, i)) // not all exist at first
		}
		if l.keep == 0 {
			_ = os.Remove(l.path) // if it fails, the log continues to grow
		} else {
			_ = os.Rename(l.path, l.path+".1") // if it fails, the log continues to grow
		}
	}
	old := l.f
	if l.open() == nil {
		_ = old.Close() // everything in it was written
	}
}

// Close closes the log.
func (l *logFile) Close() error { return l.f.Close() }
