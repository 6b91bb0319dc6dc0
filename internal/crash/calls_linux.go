package crash

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Kind is the effect of a call, independent of its name: renameat2 is a KindRename.
type Kind string

// The kinds of calls that a Tracer sees.
const (
	// KindOpen is an open that may create or truncate.
	KindOpen Kind = "open"
	// KindWrite is a write to a regular file.
	KindWrite Kind = "write"
	// KindCopy is copy_file_range, sendfile or splice into a regular file.
	KindCopy Kind = "copy"
	// KindTruncate changes the length.
	KindTruncate Kind = "truncate"
	// KindAllocate is fallocate.
	KindAllocate Kind = "allocate"
	// KindSync is fsync or fdatasync of a file or directory.
	KindSync Kind = "sync"
	// KindSyncRange is sync_file_range, which promises nothing.
	KindSyncRange Kind = "sync_range"
	// KindSyncAll is syncfs or sync.
	KindSyncAll Kind = "sync_all"
	KindRename  Kind = "rename"
	KindLink    Kind = "link"
	KindUnlink  Kind = "unlink"
	KindSymlink Kind = "symlink"
	KindMkdir   Kind = "mkdir"
	KindRmdir   Kind = "rmdir"
	KindChmod   Kind = "chmod"
	// KindLock is flock.
	KindLock Kind = "lock"
	// KindExec starts a program.
	KindExec Kind = "exec"
	// KindSend is connect, bind or a message on a unix socket.
	KindSend Kind = "send"
	// KindAck is output on descriptor 1 or 2. It is recorded and never counted.
	KindAck Kind = "ack"
)

// Ending is how a call ended.
type Ending string

// The endings of a call.
const (
	// Returned means that the program saw Ret.
	Returned Ending = "returned"
	// Interrupted means that the thread died in the call. The call may have had its
	// effect.
	Interrupted Ending = "interrupted"
	// Prevented means that the thread was killed at the entry. The call had no effect.
	Prevented Ending = "prevented"
)

// Inode identifies a file independently of its names while the file exists.
type Inode struct{ Dev, Ino uint64 }

// Call is one durable call as the tracer saw it.
//
// Begin and End are ticks of one clock that counts entries and exits of all calls of a
// Tracer. A call took place wholly before another one if its End is below the Begin of
// the other. Overlapping calls may have had their effects in either order.
type Call struct {
	Begin, End uint64
	// Run is the number of the run of the tracer, from 1.
	Run int
	// N is the number of the call among the calls of its role in its run, from 1. It is 0
	// for KindAck.
	N int
	// Role is the role of the process at the entry.
	Role     string
	PID, TID int
	Kind     Kind
	// Name is the name of the system call.
	Name string
	// Path is absolute. For a descriptor it is the path that the kernel reports.
	Path string
	// NewPath is the second path of a rename or link.
	NewPath string
	// Target is the target of a symbolic link.
	Target string
	// FD is -1 for a call without a descriptor. For an open it is the new descriptor.
	FD int
	// Inode is the file behind FD, or the file that Path named or now names.
	Inode Inode
	// Created means that Path did not exist at the entry, and the call creates it.
	Created bool
	// Flags are those of the open, of the descriptor of a write, or the mode of a
	// fallocate.
	Flags int
	// Mode holds the permission bits of an open, mkdir or chmod.
	Mode uint32
	// Offset is the start of a write or the new length of a truncate.
	Offset int64
	// Length is the requested number of bytes.
	Length int64
	// Data is the data passed to a write, or the argv of an exec, separated by NUL.
	Data []byte
	// Ret is the result at the exit; a failure is a negative errno.
	Ret    int64
	Ending Ending
}

// String returns one line for reports, without data.
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

// shape describes the effect of a system call and the places of its arguments.
type shape struct {
	name string
	kind Kind
	// openFlags is the index of the argument that the filter checks; 0 means none.
	openFlags int
	args      func(a [6]uint64) arguments
}

// arguments holds the meanings of the six registers of a call.
type arguments struct {
	// fd is -1 for none.
	fd int
	// dir and dir2 are the directories of relative paths.
	dir, dir2 int
	// path and path2 are addresses; 0 means none.
	path, path2 uint64
	flags       int
	mode        uint32
	buf, length uint64
	// vector means that buf and length are an array of iovec and its size.
	vector bool
	offset int64
	// here means that the offset is that of the descriptor.
	here bool
}

func descriptor(v uint64) int { return int(int32(v)) }

func onFD(a [6]uint64) arguments { return arguments{fd: descriptor(a[0])} }

func noFD(a [6]uint64) arguments { return arguments{fd: -1} }

func onPath(dir int, path uint64) arguments { return arguments{fd: -1, dir: dir, path: path} }

func twoPaths(dir int, path uint64, dir2 int, path2 uint64, flags uint64) arguments {
	return arguments{fd: -1, dir: dir, path: path, dir2: dir2, path2: path2, flags: int(flags)}
}

// callTable returns the traced calls by number: the calls of every architecture, and the
// older ones that only some have.
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
