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

// openFlags make open fail on a symbolic link and not wait for the other end of a pipe.
const openFlags = os.O_RDWR | os.O_CREATE | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC

// inheritedFlags open a lock file that commands inherit. They cannot write to it.
const inheritedFlags = openFlags &^ os.O_RDWR

// attempts is how many times a file that is replaced while it is being locked is tried
// again.
const attempts = 100

// Lock is a lock that this process holds. Its descriptor is closed on exec, so no command
// inherits it.
type Lock struct {
	path  string
	flock *flock.Flock
	// file is the same file as that of flock, for calls that flock.Flock does not
	// offer.
	file *os.File
	// killed is the result of Killed.
	killed Holder
}

// persist takes a lock and tries again for a moment if the lock file names no process
// that can be seen here. Another process may only be testing whether the lock is free, or
// a child of a process that ended has not started its own program yet. persist waits
// longer for a process that was killed and is still ending.
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
			// a dying holder may be gone an instant before its lock is free
			limit = dying + patience
		}
		if n >= limit {
			return l, err
		}
		<-tick.C
	}
}

// Acquire takes the lock at path and writes h into the file. It makes the file when it
// is missing. It does not wait for a live process. It returns
//
//   - ErrLocked with a *HeldError as its cause if another process has the lock,
//   - ErrLockHolder if that is a live process that is not acode,
//   - ErrLockMode or ErrLockOwner if the file is not a regular one of mode 0600 or
//     belongs
//     to another user.
//
// The caller calls Release. The death of the process does the same.
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
		Place: path, Next: session.Words("find the program that replaces it"), Retryable: true,
	}
}

// take opens the locked file again by its path, checks it and writes h into it. current
// is false if the path names another file by now. The caller then tries again.
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

// Killed returns the holder before this one if it ended without a Release, and the zero
// Holder otherwise.
func (l *Lock) Killed() Holder { return l.killed }

func (l *Lock) close() {
	if l.file != nil {
		// every write to it was checked
		_ = l.file.Close()
	}
	// closing the descriptor unlocks the file in any case
	_ = l.flock.Unlock()
}

// Release gives the lock up. The file stays and names no holder. If it were removed,
// two processes could hold two files of one name.
func (l *Lock) Release() error {
	if !l.flock.Locked() && !l.flock.RLocked() {
		return nil
	}
	// Only the kernel's lock counts. A file that still names us is only a wrong report.
	_ = overwrite(l.file, nil)
	_ = l.file.Close()
	if err := l.flock.Unlock(); err != nil {
		return ioError(l.path, err)
	}
	return nil
}

// same reports whether path still names the file f. It does not follow a symbolic link.
func same(path string, f *os.File) bool {
	there, err := os.Lstat(path)
	if err != nil {
		return false
	}
	here, err := f.Stat()
	return err == nil && os.SameFile(here, there)
}

// check refuses a lock file that another user could have written or held.
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
			Place: path, Next: session.Words("find out who made it before you change anything"),
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
		Place: path, Next: session.Words("find out who replaced it before you change anything"),
	}
}

// held returns the error for a lock that another process has.
func held(path string) error {
	if info, err := os.Lstat(path); err == nil {
		if err := checkInfo(path, info); err != nil {
			return err
		}
	}
	h, alive, err := Read(path)
	if err != nil || !alive && !h.Dying() {
		// the process took the lock just now, or is a child of one that died
		h = Holder{}
	}
	if exe := h.foreign(); alive && exe != "" {
		return &session.Error{
			Code: session.ErrLockHolder, Message: fmt.Sprintf("the lock is held by a process that is not acode: %s; nothing was changed", exe),
			Place: path, Next: session.Words(fmt.Sprintf("find out which program process %d runs", h.PID)), Cause: &HeldError{path, h},
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

// openError says why a lock file cannot be opened. The kind, owner and mode of the file
// come first.
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
