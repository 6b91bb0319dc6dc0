package crash

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Kind says what a call does, whatever its name: renameat2 is a KindRename.
type Kind string

// The kinds of calls that a Tracer sees.
const (
	// open that may create or truncate
	KindOpen Kind = "open"
	// write to a regular file
	KindWrite Kind = "write"
	// copy_file_range, sendfile or splice into a regular file
	KindCopy Kind = "copy"
	// change of length
	KindTruncate Kind = "truncate"
	// fallocate
	KindAllocate Kind = "allocate"
	// fsync or fdatasync of a file or directory
	KindSync Kind = "sync"
	// sync_file_range, which promises nothing
	KindSyncRange Kind = "sync_range"
	// syncfs or sync
	KindSyncAll Kind = "sync_all"
	KindRename  Kind = "rename"
	KindLink    Kind = "link"
	KindUnlink  Kind = "unlink"
	KindSymlink Kind = "symlink"
	KindMkdir   Kind = "mkdir"
	KindRmdir   Kind = "rmdir"
	KindChmod   Kind = "chmod"
	// flock
	KindLock Kind = "lock"
	// start of a program
	KindExec Kind = "exec"
	// connect, bind or message on a unix socket
	KindSend Kind = "send"
	// output on descriptor 1 or 2; recorded, never counted
	KindAck Kind = "ack"
)

// Ending says how a call ended.
type Ending string

// The endings of a call.
const (
	// the program saw Ret
	Returned Ending = "returned"
	// the thread died in the call; it may have had its effect
	Interrupted Ending = "interrupted"
	// the thread was killed at the entry; nothing happened
	Prevented Ending = "prevented"
)

// Inode identifies a file independently of its names, as long as it exists.
type Inode struct{ Dev, Ino uint64 }

// Call is one durable call as the tracer saw it.
//
// Begin and End are ticks of one clock that counts entries and exits of all calls of a
// Tracer: a call took place wholly before another one when its End is below the other's
// Begin, and overlapping calls may have had their effects in either order.
type Call struct {
	Begin, End uint64
	// number of the run of the tracer, from 1
	Run int
	// place among the calls of its role in its run, from 1; 0 for KindAck
	N int
	// role of the process at the entry
	Role     string
	PID, TID int
	Kind     Kind
	// name of the system call
	Name string
	// absolute; for a descriptor the path that the kernel gives for it
	Path string
	// second path of a rename or link
	NewPath string
	// what a symlink holds
	Target string
	// -1 when the call takes none; of an open, the new one
	FD int
	// of the file behind FD, or of the one that Path named or now names
	Inode Inode
	// Path did not exist at the entry, and the call makes it
	Created bool
	// of the open, or of the descriptor of a write; mode of a fallocate
	Flags int
	// permission bits of an open, mkdir or chmod
	Mode uint32
	// where a write begins, or a truncate cuts
	Offset int64
	// bytes asked for
	Length int64
	// what a write offers; argv of an exec, separated by NUL
	Data []byte
	// result at the exit, negative errno for a failure
	Ret    int64
	Ending Ending
}

// String gives one line for reports, without data.
func (c Call) String() string {
	s := fmt.Sprintf("%s %d: %s %s", c.Role, c.N, c.Name, c.Path)
	if c.NewPath != "" {
		s += " -> " + c.NewPath
	}
	if c.Kind == KindWrite || c.Kind == KindCopy {
		s += fmt.Sprintf(" [%d+%d]", c.Offset, c.Length)
	}
	if c.Ending != Returned {
		return s + " (" + string(c.Ending) + ")"
	}
	return fmt.Sprintf("%s = %d", s, c.Ret)
}

// OK reports whether the program saw the call succeed.
func (c Call) OK() bool { return c.Ending == Returned && c.Ret >= 0 }

// shape describes a system call: what it does and where its arguments are.
type shape struct {
	name string
	kind Kind
	// index of the argument that the filter looks at; 0 for none
	openFlags int
	args      func(a [6]uint64) arguments
}

// arguments are the meanings of the six registers of a call.
type arguments struct {
	// -1 for none
	fd int
	// directories that the paths are relative to
	dir, dir2 int
	// addresses; 0 for none
	path, path2 uint64
	flags       int
	mode        uint32
	buf, length uint64
	// buf and length are an array of iovec and its size
	vector bool
	offset int64
	// offset is the descriptor's own
	here bool
}

func descriptor(v uint64) int { return int(int32(v)) }

func onFD(a [6]uint64) arguments { return arguments{fd: descriptor(a[0])} }

func noFD(a [6]uint64) arguments { return arguments{fd: -1} }

func onPath(dir int, path uint64) arguments { return arguments{fd: -1, dir: dir, path: path} }

func twoPaths(dir int, path uint64, dir2 int, path2 uint64, flags uint64) arguments {
	return arguments{fd: -1, dir: dir, path: path, dir2: dir2, path2: path2, flags: int(flags)}
}

// callTable gives the calls that are traced, by number: those that every architecture
// has, and the older ones that only some have.
func callTable() map[uint64]shape {
	t := legacyCalls()
	for _, add := range []func(map[uint64]shape){addFileCalls, addNameCalls, addOtherCalls} {
		add(t)
	}
	return t
}

func addFileCalls(t map[uint64]shape) {
	t[unix.SYS_OPENAT] = shape{"openat", KindOpen, 2, func(a [6]uint64) arguments {
		return arguments{fd: -1, dir: descriptor(a[0]), path: a[1], flags: int(a[2]), mode: uint32(a[3])}
	}}
	t[unix.SYS_OPENAT2] = shape{"openat2", KindOpen, 0, func(a [6]uint64) arguments {
		return arguments{fd: -1, dir: descriptor(a[0]), path: a[1], buf: a[2]}
	}}
	t[unix.SYS_WRITE] = shape{"write", KindWrite, 0, func(a [6]uint64) arguments {
		return arguments{fd: descriptor(a[0]), buf: a[1], length: a[2], here: true}
	}}
	t[unix.SYS_PWRITE64] = shape{"pwrite64", KindWrite, 0, func(a [6]uint64) arguments {
		return arguments{fd: descriptor(a[0]), buf: a[1], length: a[2], offset: int64(a[3])}
	}}
	t[unix.SYS_WRITEV] = shape{"writev", KindWrite, 0, func(a [6]uint64) arguments {
		return arguments{fd: descriptor(a[0]), buf: a[1], length: a[2], vector: true, here: true}
	}}
	positioned := func(a [6]uint64) arguments {
		off := int64(a[3])
		return arguments{fd: descriptor(a[0]), buf: a[1], length: a[2], vector: true, offset: off, here: off == -1}
	}
	t[unix.SYS_PWRITEV] = shape{"pwritev", KindWrite, 0, positioned}
	t[unix.SYS_PWRITEV2] = shape{"pwritev2", KindWrite, 0, positioned}
	t[unix.SYS_COPY_FILE_RANGE] = shape{"copy_file_range", KindCopy, 0, func(a [6]uint64) arguments {
		return arguments{fd: descriptor(a[2]), buf: a[3], length: a[4], here: a[3] == 0}
	}}
	t[unix.SYS_SENDFILE] = shape{"sendfile", KindCopy, 0, func(a [6]uint64) arguments {
		return arguments{fd: descriptor(a[0]), length: a[3], here: true}
	}}
	t[unix.SYS_SPLICE] = shape{"splice", KindCopy, 0, func(a [6]uint64) arguments {
		return arguments{fd: descriptor(a[2]), length: a[4], here: a[3] == 0}
	}}
	t[unix.SYS_FTRUNCATE] = shape{"ftruncate", KindTruncate, 0, func(a [6]uint64) arguments {
		return arguments{fd: descriptor(a[0]), offset: int64(a[1])}
	}}
	t[unix.SYS_TRUNCATE] = shape{"truncate", KindTruncate, 0, func(a [6]uint64) arguments {
		return arguments{fd: -1, dir: unix.AT_FDCWD, path: a[0], offset: int64(a[1])}
	}}
	t[unix.SYS_FALLOCATE] = shape{"fallocate", KindAllocate, 0, func(a [6]uint64) arguments {
		return arguments{fd: descriptor(a[0]), flags: int(a[1]), offset: int64(a[2]), length: a[3]}
	}}
	t[unix.SYS_FSYNC] = shape{"fsync", KindSync, 0, onFD}
	t[unix.SYS_FDATASYNC] = shape{"fdatasync", KindSync, 0, onFD}
	t[unix.SYS_SYNC_FILE_RANGE] = shape{"sync_file_range", KindSyncRange, 0, onFD}
	t[unix.SYS_SYNCFS] = shape{"syncfs", KindSyncAll, 0, onFD}
	t[unix.SYS_SYNC] = shape{"sync", KindSyncAll, 0, noFD}
}

func addNameCalls(t map[uint64]shape) {
	t[unix.SYS_RENAMEAT] = shape{"renameat", KindRename, 0, func(a [6]uint64) arguments {
		return twoPaths(descriptor(a[0]), a[1], descriptor(a[2]), a[3], 0)
	}}
	t[unix.SYS_RENAMEAT2] = shape{"renameat2", KindRename, 0, func(a [6]uint64) arguments {
		return twoPaths(descriptor(a[0]), a[1], descriptor(a[2]), a[3], a[4])
	}}
	t[unix.SYS_LINKAT] = shape{"linkat", KindLink, 0, func(a [6]uint64) arguments {
		return twoPaths(descriptor(a[0]), a[1], descriptor(a[2]), a[3], a[4])
	}}
	t[unix.SYS_SYMLINKAT] = shape{"symlinkat", KindSymlink, 0, func(a [6]uint64) arguments {
		return arguments{fd: -1, dir: descriptor(a[1]), path: a[2], buf: a[0]}
	}}
	t[unix.SYS_UNLINKAT] = shape{"unlinkat", KindUnlink, 0, func(a [6]uint64) arguments {
		g := onPath(descriptor(a[0]), a[1])
		g.flags = int(a[2])
		return g
	}}
	t[unix.SYS_MKDIRAT] = shape{"mkdirat", KindMkdir, 0, func(a [6]uint64) arguments {
		g := onPath(descriptor(a[0]), a[1])
		g.mode = uint32(a[2])
		return g
	}}
	t[unix.SYS_FCHMOD] = shape{"fchmod", KindChmod, 0, func(a [6]uint64) arguments {
		return arguments{fd: descriptor(a[0]), mode: uint32(a[1])}
	}}
	chmodAt := func(a [6]uint64) arguments {
		g := onPath(descriptor(a[0]), a[1])
		g.mode = uint32(a[2])
		return g
	}
	t[unix.SYS_FCHMODAT] = shape{"fchmodat", KindChmod, 0, chmodAt}
	t[unix.SYS_FCHMODAT2] = shape{"fchmodat2", KindChmod, 0, chmodAt}
}

func addOtherCalls(t map[uint64]shape) {
	t[unix.SYS_FLOCK] = shape{"flock", KindLock, 0, func(a [6]uint64) arguments {
		return arguments{fd: descriptor(a[0]), flags: int(a[1])}
	}}
	t[unix.SYS_EXECVE] = shape{"execve", KindExec, 0, func(a [6]uint64) arguments {
		return arguments{fd: -1, dir: unix.AT_FDCWD, path: a[0], buf: a[1]}
	}}
	t[unix.SYS_EXECVEAT] = shape{"execveat", KindExec, 0, func(a [6]uint64) arguments {
		return arguments{fd: -1, dir: descriptor(a[0]), path: a[1], buf: a[2]}
	}}
	address := func(a [6]uint64) arguments {
		return arguments{fd: descriptor(a[0]), path: a[1], length: a[2]}
	}
	t[unix.SYS_CONNECT] = shape{"connect", KindSend, 0, address}
	t[unix.SYS_BIND] = shape{"bind", KindSend, 0, address}
	t[unix.SYS_SENDTO] = shape{"sendto", KindSend, 0, func(a [6]uint64) arguments {
		return arguments{fd: descriptor(a[0]), buf: a[1], length: a[2]}
	}}
	t[unix.SYS_SENDMSG] = shape{"sendmsg", KindSend, 0, func(a [6]uint64) arguments {
		return arguments{fd: descriptor(a[0]), buf: a[1]}
	}}
}
