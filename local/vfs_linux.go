package local

import (
	"path/filepath"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// writingVFS returns the name of the VFS of connections that write. Empty means SQLite's
// own, which is as durable.
func writingVFS() string { return dataSyncs().name }

var dataSyncs = sync.OnceValue(newDataSyncVFS)

// dataSyncVFS is SQLite's own VFS with fdatasync as its sync. The driver's SQLite is
// built without fdatasync. With each fsync, a journaling file system also writes the time
// of the change, in a second flush of the disk's cache.
type dataSyncVFS struct {
	// empty if SQLite does not have the VFS
	name          string
	open, ownOpen opener
	sync          func(tls *libc.TLS, file uintptr, flags int32) int32

	mu sync.Mutex
	// maps SQLite's own methods of a kind of file to a copy with the other sync; a
	// database has other methods than a log
	methods map[uintptr]uintptr
}

// opener is a method that opens a file.
type opener = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32

// newDataSyncVFS registers the VFS with SQLite, which keeps the addresses forever.
func newDataSyncVFS() *dataSyncVFS {
	v := &dataSyncVFS{sync: syncFile, methods: map[uintptr]uintptr{}}
	v.open = v.openFile
	tls := libc.NewTLS()
	defer tls.Close()
	const name = "acode"
	cname, err := libc.CString(name)
	vfs := copied[sqlite3.Tsqlite3_vfs](tls, sqlite3.Xsqlite3_vfs_find(tls, 0))
	if err != nil || vfs == 0 {
		return v
	}
	its := at[sqlite3.Tsqlite3_vfs](vfs)
	v.ownOpen = *(*opener)(unsafe.Pointer(&its.FxOpen))
	its.FpNext, its.FzName, its.FxOpen = 0, cname, *(*uintptr)(unsafe.Pointer(&v.open))
	if sqlite3.Xsqlite3_vfs_register(tls, vfs, 0) == sqlite3.SQLITE_OK {
		v.name = name
	}
	return v
}

// openFile opens a file as SQLite does, and sets its sync.
func (v *dataSyncVFS) openFile(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32 {
	rc := v.ownOpen(tls, vfs, name, file, flags, outFlags)
	if f := at[sqlite3.Tsqlite3_file](file); f.FpMethods != 0 {
		f.FpMethods = v.withSync(tls, f.FpMethods)
	}
	return rc
}

// withSync returns a copy of a file's methods with the other sync. It returns the file's
// own methods if there is no memory.
func (v *dataSyncVFS) withSync(tls *libc.TLS, own uintptr) uintptr {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.methods[own] == 0 {
		methods := copied[sqlite3.Tsqlite3_io_methods](tls, own)
		if methods == 0 {
			return own
		}
		at[sqlite3.Tsqlite3_io_methods](methods).FxSync = *(*uintptr)(unsafe.Pointer(&v.sync))
		v.methods[own] = methods
	}
	return v.methods[own]
}

// syncFile makes the content and length of a file durable. The first sync of a new log or
// journal also makes its name durable.
func syncFile(_ *libc.TLS, file uintptr, _ int32) int32 {
	f := at[sqlite3.TunixFile](file)
	if unix.Fdatasync(int(f.Fh)) != nil {
		return sqlite3.SQLITE_IOERR_FSYNC
	}
	if f.FctrlFlags&sqlite3.UNIXFILE_DIRSYNC == 0 {
		return sqlite3.SQLITE_OK
	}
	if syncDir(filepath.Dir(libc.GoString(f.FzPath))) != nil {
		return sqlite3.SQLITE_IOERR_DIR_FSYNC
	}
	f.FctrlFlags &^= sqlite3.UNIXFILE_DIRSYNC
	return sqlite3.SQLITE_OK
}

// at returns a pointer to an address in SQLite's memory.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// copied returns the address of a copy of the value at an address, in SQLite's memory. It
// returns 0 if address is 0 or there is no memory.
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
