package crash

import (
	"fmt"

	"golang.org/x/sys/unix"
)

const auditArch = unix.AUDIT_ARCH_AARCH64

// legacyCalls gives the calls that newer architectures no longer have: here, none.
func legacyCalls() map[uint64]shape { return map[uint64]shape{} }

// setThird changes the third argument of the call that tid is about to make.
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
