package sandbox

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Offsets in the data of a filter. The low half of an argument comes first on all
// architectures that acode is built for.
const (
	callOffset = 0
	archOffset = 4
	argOffset  = 16
)

// x32Bit marks the second table of system calls of amd64.
const x32Bit = 0x40000000

// filter installs the filter of system calls. It closes ways around Landlock and the
// namespaces: kernel interfaces that they do not cover, and kinds of sockets that no
// network namespace confines.
func (s stage) filter() error {
	prog := s.program()
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	if _, _, no := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&fprog))); no != 0 {
		return fmt.Errorf("install the filter of system calls: %w", no)
	}
	return nil
}

func (s stage) program() []unix.SockFilter {
	arch := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]
	p := program{}
	p.load(archOffset)
	p.unless(unix.BPF_JEQ, arch, refuse(unix.ENOSYS))
	p.load(callOffset)
	if runtime.GOARCH == "amd64" {
		p.when(unix.BPF_JGE, x32Bit, refuse(unix.ENOSYS))
	}
	// without clone3, which hides its flags from the filter, programs use clone
	for _, nr := range []uint32{unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_CLONE3} {
		p.when(unix.BPF_JEQ, nr, refuse(unix.ENOSYS))
	}
	for _, nr := range s.refused() {
		p.when(unix.BPF_JEQ, nr, refuse(unix.EPERM))
	}
	// limits of another process could end it
	p.call(unix.SYS_PRLIMIT64, 0, func(p *program) { p.unless(unix.BPF_JEQ, 0, refuse(unix.EPERM)) })
	for _, nr := range []uint32{unix.SYS_CLONE, unix.SYS_UNSHARE} {
		p.call(nr, 0, func(p *program) { p.when(unix.BPF_JSET, unix.CLONE_NEWUSER, refuse(unix.EPERM)) })
	}
	if s.ReadOnly {
		// attributes of a file that is open for reading
		p.call(unix.SYS_IOCTL, 1, func(p *program) {
			p.when(unix.BPF_JEQ, unix.FS_IOC_SETFLAGS, refuse(unix.EPERM))
			p.when(unix.BPF_JEQ, setAttributes, refuse(unix.EPERM))
		})
	}
	p.call(unix.SYS_SOCKET, 0, func(p *program) {
		for _, family := range s.families() {
			p.when(unix.BPF_JEQ, family, unix.SECCOMP_RET_ALLOW)
		}
		if s.Mode == Filter && !s.Network {
			p.ret(refuse(unix.EPERM))
			return
		}
		p.unless(unix.BPF_JEQ, unix.AF_NETLINK, refuse(unix.EAFNOSUPPORT))
		p.load(argOffset + 2*8)
		p.unless(unix.BPF_JEQ, unix.NETLINK_ROUTE, refuse(unix.EAFNOSUPPORT))
	})
	p.ret(unix.SECCOMP_RET_ALLOW)
	return p
}

// metadata are the calls that change modes, owners, times and attributes, which Landlock
// does not restrict. oldMetadata are those that only amd64 has.
var (
	metadata = []uint32{
		unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT,
		unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_SETXATTRAT,
		unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_REMOVEXATTRAT, fileSetattr,
	}
	// chmod, chown, lchown, utime, utimes, futimesat
	oldMetadata = []uint32{90, 92, 94, 132, 235, 261}
)

// setAttributes is FS_IOC_FSSETXATTR.
const setAttributes = 0x401c5820

// fileSetattr is the number of file_setattr on all architectures.
const fileSetattr = 469

// refused lists calls that are refused always.
func (s stage) refused() []uint32 {
	calls := []uint32{
		// keys of the login session, which the kernel does not separate
		unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
		// interfaces with many flaws in the past, which builds and tests do not need
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
		unix.SYS_SETNS,
	}
	if s.ReadOnly {
		calls = append(calls, metadata...)
		if runtime.GOARCH == "amd64" {
			calls = append(calls, oldMetadata...)
		}
	}
	if s.Mode == Filter {
		// shared memory and queues of other processes; files of memory work
		calls = append(calls, unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SEMGET, unix.SYS_MSGGET, unix.SYS_MQ_OPEN)
	}
	return calls
}

// families lists the kinds of sockets that are allowed.
func (s stage) families() []uint32 {
	switch {
	case s.Mode == Namespaces:
		return []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6}
	case s.Network:
		return []uint32{unix.AF_INET, unix.AF_INET6}
	}
	return nil
}

func refuse(no unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(no) }

// program is a filter that is being written. The number of the call is loaded between two
// calls of its methods, except inside call.
type program []unix.SockFilter

func (p *program) load(offset uint32) {
	*p = append(*p, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset})
}

func (p *program) ret(verdict uint32) {
	*p = append(*p, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: verdict})
}

// when returns verdict if the loaded value passes the test with k.
func (p *program) when(test uint16, k, verdict uint32) {
	*p = append(*p, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | test, K: k, Jf: 1})
	p.ret(verdict)
}

// unless returns verdict if the loaded value does not pass the test with k.
func (p *program) unless(test uint16, k, verdict uint32) {
	*p = append(*p, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | test, K: k, Jt: 1})
	p.ret(verdict)
}

// call writes the part of the filter for the call nr. The low half of the argument arg is
// loaded.
func (p *program) call(nr uint32, arg uint32, write func(*program)) {
	var body program
	body.load(argOffset + arg*8)
	write(&body)
	body.ret(unix.SECCOMP_RET_ALLOW)
	*p = append(*p, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | unix.BPF_JEQ, K: nr, Jf: uint8(len(body))})
	*p = append(*p, body...)
}
