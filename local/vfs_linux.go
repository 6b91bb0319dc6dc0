package local

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// writingVFS names the VFS of connections that write; empty: SQLite's own, which is as durable.
func writingVFS() string { return dataSyncs().name }

var dataSyncs = sync.OnceValue(newDataSyncVFS)

// dataSyncVFS is SQLite's own VFS with fdatasync for its sync. The driver's SQLite is built without
// that call, and with each fsync a journaling file system writes the time of the change too, in a
// second flush of the disk's cache.
type dataSyncVFS struct {
	name          string // empty: SQLite does not have it
	open, ownOpen func(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32
	sync, ownSync func(tls *libc.TLS, file uintptr, flags int32) int32

	mu      sync.Mutex
	methods map[uintptr]uintptr // with the other sync, by SQLite's own: a database has others than a log
}

// newDataSyncVFS tells SQLite of the VFS. SQLite keeps the addresses of what it is given for good.
func newDataSyncVFS() *dataSyncVFS {
	v := &dataSyncVFS{methods: map[uintptr]uintptr{}}
	v.open, v.sync = v.openFile, v.syncFile
	tls := libc.NewTLS()
	defer tls.Close()
	const name = "acode"
	cname, err := libc.CString(name)
	vfs := copied[sqlite3.Tsqlite3_vfs](tls, sqlite3.Xsqlite3_vfs_find(tls, 0))
	if err != nil || vfs == 0 {
		return v
	}
	its := at[sqlite3.Tsqlite3_vfs](vfs)
	v.ownOpen = swapped(&its.FxOpen, &v.open)
	its.FpNext, its.FzName = 0, cname
	if sqlite3.Xsqlite3_vfs_register(tls, vfs, 0) == sqlite3.SQLITE_OK {
		v.name = name
	}
	return v
}

// openFile opens a file as SQLite does, and gives it the other sync.
func (v *dataSyncVFS) openFile(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32 {
	rc := v.ownOpen(tls, vfs, name, file, flags, outFlags)
	if f := at[sqlite3.Tsqlite3_file](file); f.FpMethods != 0 {
		f.FpMethods = v.withSync(tls, f.FpMethods)
	}
	return rc
}

// withSync gives a copy of a file's own methods with the other sync; the own ones where there is no
// memory for it.
func (v *dataSyncVFS) withSync(tls *libc.TLS, own uintptr) uintptr {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.methods[own] == 0 {
		methods := copied[sqlite3.Tsqlite3_io_methods](tls, own)
		if methods == 0 {
			return own
		}
		its := at[sqlite3.Tsqlite3_io_methods](methods)
		if own := swapped(&its.FxSync, &v.sync); v.ownSync == nil { // it is the same in all
			v.ownSync = own
		}
		v.methods[own] = methods
	}
	return v.methods[own]
}

// syncFile makes what was written to a file durable, its length too. The first sync of a new log or
// journal is SQLite's own, which makes the name durable as well.
func (v *dataSyncVFS) syncFile(tls *libc.TLS, file uintptr, flags int32) int32 {
	f := at[sqlite3.TunixFile](file)
	if f.FctrlFlags&sqlite3.UNIXFILE_DIRSYNC != 0 {
		return v.ownSync(tls, file, flags)
	}
	if errno, ok := unix.Fdatasync(int(f.Fh)).(unix.Errno); ok {
		f.FlastErrno = int32(errno)
		return sqlite3.SQLITE_IOERR_FSYNC
	}
	return sqlite3.SQLITE_OK
}

// swapped puts f where SQLite keeps the address of a function, and gives that one.
func swapped[F any](at *uintptr, f *F) F {
	was := *(*F)(unsafe.Pointer(at))
	*at = *(*uintptr)(unsafe.Pointer(f))
	return was
}

// at is what SQLite has at an address of its memory.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// copied is the address of a copy of what SQLite has at an address, in its memory; 0 where there is
// none, or no room.
func copied[T any](tls *libc.TLS, address uintptr) uintptr {
	if address == 0 {
		return 0
	}
	to := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(*at[T](address))))
	if to != 0 {
		*at[T](to) = *at[T](address)
	}
	return to
}
