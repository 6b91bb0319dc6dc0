package crash

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const auditArch = unix.AUDIT_ARCH_AARCH64

// legacyCalls returns an empty table, because this architecture has no older calls.
func legacyCalls() map[uint64]shape { return map[uint64]shape{} }

// regsetSystemCall is NT_ARM_SYSTEM_CALL: the number of the call, which is in no
// register.
const regsetSystemCall = 0x404

// skipCall prevents the call that tid is about to make.
func skipCall(tid int) error {
	none := int32(-1)
	v := unix.Iovec{Base: (*byte)(unsafe.Pointer(&none)), Len: uint64(unsafe.Sizeof(none))}
	if err := ptrace(unix.PTRACE_SETREGSET, tid, regsetSystemCall, uintptr(unsafe.Pointer(&v))); err != nil {
		return fmt.Errorf("write number of call: %w", err)
	}
	return nil
}

// setResult replaces the result of the call that tid returns from.
func setResult(tid int, v int64) error {
	var r unix.PtraceRegsArm64
	if err := unix.PtraceGetRegSetArm64(tid, unix.NT_PRSTATUS, &r); err != nil {
		return fmt.Errorf("read registers: %w", err)
	}
	r.Regs[0] = uint64(v)
	if err := unix.PtraceSetRegSetArm64(tid, unix.NT_PRSTATUS, &r); err != nil {
		return fmt.Errorf("write registers: %w", err)
	}
	return nil
}

// setThird replaces the third argument of the call that tid is about to make.
func setThird(tid int, v uint64) error {
	var r unix.PtraceRegsArm64
	if err := unix.PtraceGetRegSetArm64(tid, unix.NT_PRSTATUS, &r); err != nil {
		return fmt.Errorf("read registers: %w", err)
	}
	r.Regs[2] = v
	if err := unix.PtraceSetRegSetArm64(tid, unix.NT_PRSTATUS, &r); err != nil {
		return fmt.Errorf("write registers: %w", err)
	}
	return nil
}
