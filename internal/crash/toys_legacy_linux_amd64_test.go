package crash_test

import (
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// toyLegacy makes the calls that only older architectures have.
func toyLegacy(dir string) error {
	call := func(nr uintptr, a, b string, mode uintptr) (uintptr, error) {
		var args [3]uintptr
		for i, s := range []string{a, b} {
			if s == "" {
				args[i] = mode
				continue
			}
			p, err := unix.BytePtrFromString(s)
			if err != nil {
				return 0, err
			}
			args[i] = uintptr(unsafe.Pointer(p))
			// This keeps the string alive.
			defer func() { _ = *p }()
		}
		if nr == unix.SYS_OPEN {
			args[1], args[2] = unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, mode
		}
		r, _, errno := unix.Syscall(nr, args[0], args[1], args[2])
		if errno != 0 {
			return 0, errno
		}
		return r, nil
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, c := range []struct {
		nr   uintptr
		a, b string
		mode uintptr
	}{
		{unix.SYS_MKDIR, in("d"), "", 0o700}, {unix.SYS_OPEN, in("d/o"), "", 0o600},
		{unix.SYS_CREAT, in("c"), "", 0o600}, {unix.SYS_RENAME, in("c"), in("d/r"), 0},
		{unix.SYS_LINK, in("d/r"), in("l"), 0}, {unix.SYS_SYMLINK, "l", in("s"), 0},
		{unix.SYS_CHMOD, in("s"), "", 0o400}, {unix.SYS_UNLINK, in("d/o"), "", 0},
		{unix.SYS_MKDIR, in("e"), "", 0o700}, {unix.SYS_RMDIR, in("e"), "", 0},
	} {
		if _, err := call(c.nr, c.a, c.b, c.mode); err != nil {
			return err
		}
	}
	return nil
}
