// Package workspace gives confined access to the directory that a session works in. It
// does file steps, the manifest of tracked files, the search for changes between runs,
// and the state of git.
//
// Invariants, cited by tests:
//
//	W1  No byte outside the root is read or written through a path, even if there are
//	    symbolic links, "..", absolute names, hard links, FIFOs or devices. None of them
//	    blocks.
//	W2  The handle that was hashed is the handle that is used. A path that holds
//	    something else by then is left alone, and the error is FILE-001 (Threat 5).
//	W3  A group of changes is applied as a whole or not at all. After a kill at any
//	    point, Inspect says how far it got, Rollback puts the files back, and a new
//	    attempt completes.
//	W4  When Apply returns nil, the files and the directories that name them are
//	    durable.
//	W5  Examining the workspace executes nothing in it.
//
// Package subtree resolves the parents of a file, which are kept open. Every call names
// a file by its last component relative to such a handle, which cannot lead elsewhere.
package workspace

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/subtree"
)

// Root is an open workspace. Its methods may be called from several goroutines, but the
// methods of one key from one at a time.
type Root struct {
	// Redact masks the secrets in the texts that ReadText, List and Search return. It is
	// set before any method is called.
	Redact *redact.Redactor

	dir  string
	root *os.Root
	now  func() time.Time
	// hook is for tests. It is called before each effect, and when Apply checks its
	// work.
	hook func(op string) error

	// patience is how long git may take for one answer.
	patience time.Duration

	mu       sync.Mutex
	prepared map[string]*prepared
	// calm holds, by path, files that were hashed when they were not racy.
	calm map[string]session.FileState

	guard guard
}

// Open opens dir as a workspace. now is the wall clock. Open returns ErrEnvironment if
// dir does not exist or is not a directory. The caller closes the Root.
func Open(dir string, now func() time.Time) (*Root, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, missing(dir, err)
	}
	root, err := subtree.Open(abs)
	if err != nil {
		return nil, missing(abs, err)
	}
	return &Root{dir: abs, root: root, now: now, patience: gitPatience, prepared: map[string]*prepared{}, calm: map[string]session.FileState{}}, nil
}

func missing(dir string, cause error) error {
	return &session.Error{Code: session.ErrEnvironment, Place: dir, Cause: reason(cause),
		Message: "the workspace cannot be opened; nothing was changed",
		Next:    session.Then("put the directory back, or name its new place with", session.MoveWorkIn, "")}
}

func (r *Root) repository() repository { return repository{r.dir, r.patience} }

// Dir returns the absolute path that the workspace was opened by.
func (r *Root) Dir() string { return r.dir }

// InPlace returns ErrEnvironment if the path that the workspace was opened by leads
// elsewhere by now. Commands use that path, but file steps use the open directory, so
// they would work in different places.
func (r *Root) InPlace() error {
	opened, err := r.root.Stat(".")
	if err == nil {
		var there fs.FileInfo
		if there, err = os.Stat(r.dir); err == nil && os.SameFile(opened, there) {
			return nil
		}
	}
	message := "the workspace was moved, replaced or covered while the session executed; the step was not begun"
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		message = "the workspace cannot be used any more; the step was not begun"
	}
	return &session.Error{Code: session.ErrEnvironment, Place: r.dir, Cause: reason(err), Message: message,
		Next: session.Then("put the directory back, or name its new place with", session.MoveWorkIn, "")}
}

// Close closes the workspace and everything that is still prepared.
func (r *Root) Close() error {
	r.mu.Lock()
	keys := slices.Collect(maps.Keys(r.prepared))
	r.mu.Unlock()
	for _, key := range keys {
		r.Discard(key)
	}
	return r.root.Close()
}

// Refuse returns ErrWorkspace if dir is the root of the file system or home, by any
// name, unless allowed names it.
func Refuse(dir, home string, allowed []string) error {
	same := func(other string) bool { return sameDirectory(dir, other) }
	if !same("/") && (home == "" || !same(home)) || slices.ContainsFunc(allowed, same) {
		return nil
	}
	return &session.Error{Code: session.ErrWorkspace, Place: dir,
		Message: "the root of the file system and the home directory are refused as a workspace; nothing was changed",
		Next:    session.Hint{Text: "use another directory, or allow this one with", Do: session.MoveAllowWorkspace, Path: dir}}
}

func sameDirectory(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	x, err := os.Stat(a)
	if err != nil {
		return filepath.Clean(a) == filepath.Clean(b)
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// effect announces an effect to the tests' hook, which may make it fail or end the
// process.
func (r *Root) effect(op string) error {
	if r.hook == nil {
		return nil
	}
	return r.hook(op)
}

// clean checks that name can only mean a file below the root and returns its shortest
// form.
func clean(name string) (string, error) {
	switch {
	case name == "":
		return "", escape(name, "an empty path names no file")
	case !utf8.ValidString(name):
		return "", escape(strings.ToValidUTF8(name, "�"), "the path is not valid UTF-8")
	case strings.ContainsRune(name, 0):
		return "", escape(strings.ReplaceAll(name, "\x00", "�"), "the path contains a NUL byte")
	case path.IsAbs(name):
		return "", escape(name, "the path is absolute")
	case slices.Contains(strings.Split(name, "/"), ".."):
		return "", escape(name, "the path contains \"..\"")
	}
	c := path.Clean(name)
	if !fs.ValidPath(c) {
		return "", escape(name, "the path is not relative to the workspace")
	}
	return c, nil
}

// cleanFile is clean for a file below the root, which cannot be the root itself.
func cleanFile(name string) (string, error) {
	c, err := clean(name)
	if err == nil && (c == "." || strings.HasSuffix(name, "/")) {
		return "", stepError(name, "the path names a directory")
	}
	return c, err
}

func escape(name, why string) error {
	return &session.Error{Code: session.ErrEscape, Place: name,
		Message: why + "; it was left alone",
		Next:    session.Words("name a regular file with one link, below the workspace")}
}

func stepError(name, what string) error {
	return &session.Error{Code: session.ErrFileStep, Place: name, Message: what + "; nothing was changed",
		Next: session.Words("correct the plan or the workspace")}
}

func fileChanged(name, what string) error {
	return &session.Error{Code: session.ErrFileChanged, Place: name, Message: what + "; nothing was overwritten",
		Next: session.Words("look at the file, then resume"), Retryable: true}
}

// failure gives an error of the operating system on name its code.
func failure(name, doing string, err error) error {
	var known *session.Error
	var end interruption
	if err == nil || errors.As(err, &known) || errors.As(err, &end) {
		return err
	}
	e := &session.Error{Code: session.DiskCode(err, session.ErrFileStep), Place: name, Message: doing + " failed", Cause: reason(err),
		Next: session.Words("correct the plan or the workspace")}
	var no unix.Errno
	switch {
	case !errors.As(err, &no):
		return escape(name, "the path leads out of the workspace")
	case e.Code == session.ErrDiskFull:
		e.Next, e.Retryable = session.Words("make room, then resume"), true
	case e.Code == session.ErrReadOnly:
		e.Next = session.Words("make the file system writable, then resume")
	case no == unix.EIO:
		e.Code, e.Next = session.ErrStoreIO, session.Words("check the disk, then resume")
	// these say nothing about the step
	case no == unix.EMFILE || no == unix.ENFILE || no == unix.ENOMEM:
		e.Code, e.Next, e.Retryable = session.ErrStoreIO, session.Words("give acode more open files or memory (ulimit -a), then resume"), true
	case no == unix.ELOOP:
		return escape(name, "the path is a symbolic link")
	case no == unix.ENOENT:
		e.Message, e.Cause = "no such file", nil
	case no == unix.ENOTDIR:
		e.Message, e.Cause = "a part of the path is not a directory", nil
	}
	return e
}

// reason returns an error of package os without its path, because messages have their
// own place.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
