package crash

import (
	"fmt"
	"maps"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data.
const (
	dataNr   = 0
	dataArch = 4
	dataArgs = 16
)

// openTMPFILE is the bit that O_TMPFILE adds to O_DIRECTORY.
const openTMPFILE = unix.O_TMPFILE &^ unix.O_DIRECTORY

// openMask holds the flags that make an open durable, because they change a name or a
// length.
const openMask = unix.O_CREAT | unix.O_TRUNC | openTMPFILE

// installFilter makes every durable call of the calling thread stop for the tracer. It
// also applies to all threads and processes that the thread starts.
func installFilter() error {
	prog := filter()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0,
		uintptr(unsafe.Pointer(&fprog)))
	if errno != 0 {
		return fmt.Errorf("install seccomp filter: %w", errno)
	}
	return nil
}

// filter returns the BPF program. It traces the calls of the table and allows all others.
// It allows calls of a foreign architecture, because their numbers have other meanings.
func filter() []unix.SockFilter {
	stmt := func(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }
	jump := func(op uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, Jt: yes, Jf: no, K: k}
	}
	load := func(at uint32) unix.SockFilter { return stmt(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, at) }
	trace := stmt(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_TRACE)
	allow := stmt(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW)

	prog := []unix.SockFilter{load(dataArch), jump(unix.BPF_JEQ, auditArch, 1, 0), allow, load(dataNr)}
	table := callTable()
	for _, nr := range slices.Sorted(maps.Keys(table)) {
		if flags := table[nr].openFlags; flags > 0 {
			prog = append(prog, jump(unix.BPF_JEQ, uint32(nr), 0, 4), load(dataArgs+8*uint32(flags)),
				jump(unix.BPF_JSET, openMask, 0, 1), trace, allow)
			continue
		}
		prog = append(prog, jump(unix.BPF_JEQ, uint32(nr), 0, 1), trace)
	}
	return append(prog, allow)
}
