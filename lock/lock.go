package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/session"
)

// openFlags neither follow a symbolic link nor wait for the other end of a pipe.
const openFlags = os.O_RDWR | os.O_CREATE | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC

// attempts bounds how often a file that is replaced while it is locked is tried again.
const attempts = 100

// Lock is a lock that this process holds. Its descriptor is closed on exec, so no command
// inherits it.
type Lock struct {
	path  string
	flock *flock.Flock
	// the same file, for what flock.Flock does not give away
	file *os.File
	// see Killed
	killed Holder
}

// persist takes a lock, and puts up for a moment with one that no process has signed that
// is seen to live: somebody only asks whether it is free, or a child of a process that
// has ended has not begun its own program yet. It puts up longer with a process that was
// killed and is still ending.
func persist[L any](take func() (L, error)) (L, error) {
	const pause, patience, untilDead = 10 * time.Millisecond, 100, 3000
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for n, dying := 0, 0; ; n++ {
		l, err := take()
		var by *HeldError
		if !errors.As(err, &by) {
			return l, err
		}
		limit := 0
		switch {
		case by.Holder.Dying():
			limit, dying = untilDead, n
		case by.Holder.PID == 0 || by.Holder.Elsewhere():
			// one that was dying may be gone an instant before its lock is free
			limit = dying + patience
		}
		if n >= limit {
			return l, err
		}
		<-tick.C
	}
}

// Acquire takes the lock at path without waiting for a process that lives, and writes h
// into the file, which it makes when it is missing. It returns
//
//   - ErrLocked with a *HeldError as its cause when somebody else has it,
//   - ErrLockHolder when that is a live process that is no acode,
//   - ErrLockMode or ErrLockOwner when the file is not a regular one of mode 0600 or
//     belongs
//     to another user.
//
// The caller calls Release; the death of the process does the same.
func Acquire(path string, h Holder) (*Lock, error) {
	return persist(func() (*Lock, error) { return acquire(path, h, (*flock.Flock).TryLock) })
}

func acquire(path string, h Holder, try func(*flock.Flock) (bool, error)) (*Lock, error) {
	for range attempts {
		l := &Lock{path: path, flock: flock.New(path, flock.SetFlag(openFlags), flock.SetPermissions(0o600))}
		locked, err := try(l.flock)
		if err != nil {
			return nil, openError(path, err)
		}
		if !locked {
			return nil, held(path)
		}
		current, err := l.take(h)
		if current && err == nil {
			return l, nil
		}
		l.close()
		if err != nil {
			return nil, err
		}
	}
	return nil, replaced(path)
}

func replaced(path string) error {
	return &session.Error{
		Code: session.ErrLocked, Message: "the lock file is replaced faster than it can be locked; nothing was changed",
		Place: path, Next: session.Words("find out what replaces it"), Retryable: true,
	}
}

// take opens the locked file once more, by its path, checks it and signs it. current is
// false when the path has come to name another file, which says nothing against this one.
func (l *Lock) take(h Holder) (current bool, err error) {
	if l.file, err = os.OpenFile(l.path, openFlags, 0o600); err != nil {
		return false, openError(l.path, err)
	}
	if err := check(l.path, l.file); err != nil {
		return false, err
	}
	locked, err := l.flock.Stat()
	if err != nil {
		return false, ioError(l.path, err)
	}
	if opened, err := l.file.Stat(); err != nil || !os.SameFile(opened, locked) {
		return false, nil
	}
	if l.killed, err = holderIn(l.file); err == nil {
		err = write(l.file, h)
	}
	if err != nil {
		return false, ioError(l.path, err)
	}
	return true, nil
}

// Killed is the holder before this one, when it ended without a Release; else the zero
// Holder.
func (l *Lock) Killed() Holder { return l.killed }

func (l *Lock) close() {
	if l.file != nil {
		// every write to it was checked
		_ = l.file.Close()
	}
	// its descriptor closes with it, and that unlocks in any case
	_ = l.flock.Unlock()
}

// Release gives the lock up. The file stays and names nobody: removing it would let two
// processes hold two different files of one name.
func (l *Lock) Release() error {
	if !l.flock.Locked() && !l.flock.RLocked() {
		return nil
	}
	// The kernel's lock is what counts; a file that still names us is only a wrong
	// report.
	_ = overwrite(l.file, nil)
	_ = l.file.Close()
	if err := l.flock.Unlock(); err != nil {
		return ioError(l.path, err)
	}
	return nil
}

// same reports whether path still names the file that f is, not following a symbolic
// link.
func same(path string, f *os.File) bool {
	there, err := os.Lstat(path)
	if err != nil {
		return false
	}
	here, err := f.Stat()
	return err == nil && os.SameFile(here, there)
}

// check refuses a lock file that somebody else could have written or held.
func check(path string, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return ioError(path, err)
	}
	return checkInfo(path, info)
}

func checkInfo(path string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return notRegular(path)
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; int(owner) != os.Geteuid() {
		return &session.Error{
			Code: session.ErrLockOwner, Message: fmt.Sprintf("the lock file belongs to user %d, not to user %d; it was not used", owner, os.Geteuid()),
			Place: path, Next: session.Words("find out who made it before anything is changed"),
		}
	}
	if mode := info.Mode() &^ fs.ModeType; mode != 0o600 {
		return &session.Error{
			Code: session.ErrLockMode, Message: fmt.Sprintf("the lock file has mode %04o instead of 0600, so others could have changed it; it was not used", mode.Perm()),
			Place: path, Next: session.Words("find out who changed it, then give it mode 0600 again"),
		}
	}
	return nil
}

func notRegular(path string) error {
	return &session.Error{
		Code: session.ErrLockMode, Message: "the lock file is not a regular file; it was not used",
		Place: path, Next: session.Words("find out who replaced it before anything is changed"),
	}
}

// held makes the error for a lock that somebody else has.
func held(path string) error {
	if info, err := os.Lstat(path); err == nil {
		if err := checkInfo(path, info); err != nil {
			return err
		}
	}
	h, alive, err := Read(path)
	if err != nil || !alive && !h.Dying() {
		// a process that took it just now, or a child of one that died
		h = Holder{}
	}
	if exe := h.foreign(); alive && exe != "" {
		return &session.Error{
			Code: session.ErrLockHolder, Message: fmt.Sprintf("the lock is held by a process that is not acode: %s; nothing was changed", exe),
			Place: path, Next: session.Words(fmt.Sprintf("find out what process %d is", h.PID)), Cause: &HeldError{path, h},
		}
	}
	return lockedBy(path, h)
}

func lockedBy(path string, h Holder) error {
	look := session.MoveList
	if h.Session != "" {
		look = session.MoveStatus
	}
	return &session.Error{
		Code: session.ErrLocked, Message: "another process has the lock; nothing was changed",
		Next: session.Then("wait until it ends, or look at it with", look, string(h.Session)), Retryable: true, Cause: &HeldError{path, h},
	}
}

// openError says why a lock file could not be opened: its kind, owner and mode first.
func openError(path string, err error) error {
	if info, statErr := os.Lstat(path); statErr == nil {
		if refused := checkInfo(path, info); refused != nil {
			return refused
		}
	}
	return ioError(path, err)
}

func ioError(path string, err error) error {
	code, message := session.DiskCode(err, session.ErrStoreIO), "the lock file cannot be used; nothing was changed"
	switch code {
	case session.ErrDiskFull:
		message = "no room left for the lock file; nothing was changed"
	case session.ErrReadOnly:
		message = "the lock file lies on a read-only file system; nothing was changed"
	}
	return &session.Error{Code: code, Message: message, Place: path, Cause: err, Retryable: code == session.ErrDiskFull}
}
