package kernel

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// namespaces are the flags of new namespaces.
	namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
	// argOffset is the place of the low half of the first argument in the data of a filter.
	argOffset = 16
)

// refusal says how a system call fails.
type refusal struct {
	call uint32
	no   unix.Errno
	// flags limit the refusal to calls whose first argument has one of them; 0 means every
	// call.
	flags uint32
}

func refusals() map[string][]refusal {
	return map[string][]refusal{
		// clone3 hides its flags from the filter
		NoNamespaces: {{unix.SYS_CLONE, unix.EPERM, namespaces}, {unix.SYS_UNSHARE, unix.EPERM, namespaces}, {unix.SYS_CLONE3, unix.ENOSYS, 0}},
		NoMounts: {{unix.SYS_MOUNT, unix.EACCES, 0}, {unix.SYS_OPEN_TREE, unix.EACCES, 0}, {unix.SYS_MOVE_MOUNT, unix.EACCES, 0},
			{unix.SYS_MOUNT_SETATTR, unix.EACCES, 0}, {unix.SYS_PIVOT_ROOT, unix.EACCES, 0}},
		NoLandlock:  {{unix.SYS_LANDLOCK_CREATE_RULESET, unix.ENOSYS, 0}, {unix.SYS_LANDLOCK_ADD_RULE, unix.ENOSYS, 0}, {unix.SYS_LANDLOCK_RESTRICT_SELF, unix.ENOSYS, 0}},
		LandlockOff: {{unix.SYS_LANDLOCK_CREATE_RULESET, unix.EOPNOTSUPP, 0}},
		NoDomains:   {{unix.SYS_LANDLOCK_RESTRICT_SELF, unix.EPERM, 0}},
		NoFilters:   {{unix.SYS_SECCOMP, unix.EINVAL, 0}},
	}
}

func become(name string) error {
	refused := refusals()[name]
	if refused == nil {
		return fmt.Errorf("there is no kernel %q", name)
	}
	prog := []unix.SockFilter{load(0)}
	for _, r := range refused {
		prog = append(prog, r.filter()...)
	}
	prog = append(prog, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	filter := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	if _, _, no := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&filter))); no != 0 {
		return fmt.Errorf("install the filter: %w", no)
	}
	return nil
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

// filter returns instructions that expect the number of the call to be loaded, and leave
// it so if they do not refuse the call.
func (r refusal) filter() []unix.SockFilter {
	verdict := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(r.no)}
	if r.flags == 0 {
		return []unix.SockFilter{{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: r.call, Jf: 1}, verdict}
	}
	return []unix.SockFilter{{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: r.call, Jf: 4}, load(argOffset),
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: r.flags, Jf: 1}, verdict, load(0)}
}
