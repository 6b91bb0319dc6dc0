package crash

import (
	"fmt"

	"golang.org/x/sys/unix"
)

const auditArch = unix.AUDIT_ARCH_X86_64

// legacyCalls returns the calls that newer architectures no longer have.
func legacyCalls() map[uint64]shape {
	const cwd = unix.AT_FDCWD
	two := func(a [6]uint64) arguments { return twoPaths(cwd, a[0], cwd, a[1], 0) }
	one := func(a [6]uint64) arguments { return onPath(cwd, a[0]) }
	withMode := func(a [6]uint64) arguments {
		g := onPath(cwd, a[0])
		g.mode = uint32(a[1])
		return g
	}
	return map[uint64]shape{
		unix.SYS_OPEN: {"open", KindOpen, 1, func(a [6]uint64) arguments {
			return arguments{fd: -1, dir: cwd, path: a[0], flags: int(a[1]), mode: uint32(a[2])}
		}},
		unix.SYS_CREAT: {"creat", KindOpen, 0, func(a [6]uint64) arguments {
			return arguments{fd: -1, dir: cwd, path: a[0], mode: uint32(a[1]),
				flags: unix.O_CREAT | unix.O_TRUNC | unix.O_WRONLY}
		}},
		unix.SYS_RENAME: {"rename", KindRename, 0, two},
		unix.SYS_LINK:   {"link", KindLink, 0, two},
		unix.SYS_SYMLINK: {"symlink", KindSymlink, 0, func(a [6]uint64) arguments {
			return arguments{fd: -1, dir: cwd, path: a[1], buf: a[0]}
		}},
		unix.SYS_UNLINK: {"unlink", KindUnlink, 0, one},
		unix.SYS_RMDIR:  {"rmdir", KindRmdir, 0, one},
		unix.SYS_MKDIR:  {"mkdir", KindMkdir, 0, withMode},
		unix.SYS_CHMOD:  {"chmod", KindChmod, 0, withMode},
	}
}

// skipCall prevents the call that tid is about to make.
func skipCall(tid int) error {
	var r unix.PtraceRegs
	if err := unix.PtraceGetRegs(tid, &r); err != nil {
		return fmt.Errorf("read registers: %w", err)
	}
	r.Orig_rax = ^uint64(0)
	if err := unix.PtraceSetRegs(tid, &r); err != nil {
		return fmt.Errorf("write registers: %w", err)
	}
	return nil
}

// setResult replaces the result of the call that tid returns from.
func setResult(tid int, v int64) error {
	var r unix.PtraceRegs
	if err := unix.PtraceGetRegs(tid, &r); err != nil {
		return fmt.Errorf("read registers: %w", err)
	}
	r.Rax = uint64(v)
	if err := unix.PtraceSetRegs(tid, &r); err != nil {
		return fmt.Errorf("write registers: %w", err)
	}
	return nil
}

// setThird replaces the third argument of the call that tid is about to make.
func setThird(tid int, v uint64) error {
	var r unix.PtraceRegs
	if err := unix.PtraceGetRegs(tid, &r); err != nil {
		return fmt.Errorf("read registers: %w", err)
	}
	r.Rdx = v
	if err := unix.PtraceSetRegs(tid, &r); err != nil {
		return fmt.Errorf("write registers: %w", err)
	}
	return nil
}
