package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/acode-dev/acode/session"
	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
)

// SQLite's primary result codes that mean something of their own here, and two extended
// ones: no room for the -shm file, behind which a full disk hides, and a rollback journal
// that a kill left beside a database that is opened for reading.
const (
	// our statements are right, so the schema is not
	sqliteError     = 1
	sqliteBusy      = 5
	sqliteLocked    = 6
	sqliteReadOnly  = 8
	sqliteInterrupt = 9
	sqliteIOErr     = 10
	sqliteCorrupt   = 11
	sqliteFull      = 13
	sqliteCantOpen  = 14
	// a constraint: our rows keep them all, so what is there does not
	sqliteForbidden = 19
	sqliteNotADB    = 26
	sqliteShmSize   = 4874
	sqliteRollback  = 776
)

// resultCode gives SQLite's extended result code in err, 0 when it has none.
func resultCode(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

// storeError maps a failure of SQLite or of a file of the store to what people can act
// on. doing names what was attempted. An error that already has a code keeps it.
func storeError(doing string, err error) error {
	if err == nil {
		return nil
	}
	var known *session.Error
	if errors.As(err, &known) {
		return err
	}
	e := &session.Error{Cause: fmt.Errorf("%s: %w", doing, err)}
	switch e.Code = codeOf(err); e.Code {
	case session.ErrDiskFull:
		e.Message = "there is no room left for the store; everything committed before is kept"
		e.Next = session.Words("free some space, then resume")
	case session.ErrReadOnly:
		e.Message = "the store cannot be written; everything committed before is kept"
		e.Next = session.Words("make the store's file system writable, then resume")
	case session.ErrCorrupt:
		e.Message = "the store is damaged; nothing was changed; no event is trusted before it is verified"
		e.Next = session.Then("what a verification cannot read either comes back only from a backup, database and log together; to verify", session.MoveVerify, "")
	case session.ErrStoreIO:
		e.Message = "the store could not be read or written; everything committed before is kept"
		e.Next = session.Words("check the disk, then resume")
		if errors.Is(err, fs.ErrPermission) {
			e.Next = session.Words("see who may write there, or name a store of your own with ACODE_HOME")
		}
	case session.ErrLocked:
		e.Message = "another process is in the middle of writing to the store and does not end; everything committed before is kept"
		e.Next = session.Words("see who has acode.db open (fuser -v): an acode process that is frozen (stopped, suspended), or a database tool in a transaction, keeps the store until it goes on or ends; then resume")
		e.Retryable = true
	default:
		return e.Cause
	}
	if (e.Code == session.ErrStoreIO || e.Code == session.ErrDiskFull) && limited() {
		e.Next = session.Words("raise the limit of the size of files (ulimit -f), or see to the disk, then resume")
	}
	return e
}

// limited reports whether this process may write files of some size only, which SQLite
// tells as an error of the disk.
func limited() bool {
	var limit unix.Rlimit
	return unix.Getrlimit(unix.RLIMIT_FSIZE, &limit) == nil && limit.Cur != unix.RLIM_INFINITY
}

func codeOf(err error) session.Code {
	rc := resultCode(err)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded): // SQLite says anything then
		return session.ErrInternal
	case rc == sqliteShmSize, rc&0xff == sqliteFull:
		return session.ErrDiskFull
	case rc&0xff == sqliteReadOnly:
		return session.ErrReadOnly
	case rc&0xff == sqliteCorrupt, rc == sqliteError, rc&0xff == sqliteForbidden, rc&0xff == sqliteNotADB:
		return session.ErrCorrupt
	case rc&0xff == sqliteBusy, rc&0xff == sqliteLocked:
		return session.ErrLocked
	case rc&0xff == sqliteIOErr, rc&0xff == sqliteCantOpen:
		return session.ErrStoreIO
	}
	var perr *fs.PathError
	// of a rename
	var lerr *os.LinkError
	otherwise := session.ErrInternal
	if errors.As(err, &perr) || errors.As(err, &lerr) {
		otherwise = session.ErrStoreIO
	}
	return session.DiskCode(err, otherwise)
}

// nameFull says of a file that could not be made on a file system without inodes that the
// disk is full: SQLite only says that it cannot open the file.
func nameFull(home string, err error) error {
	if !errors.Is(err, session.ErrStoreIO) && !errors.Is(err, session.ErrDiskFull) || !noInodes(home) {
		return err
	}
	return &session.Error{Code: session.ErrDiskFull, Place: home, Cause: err, Next: session.Words("remove files that nobody needs from that file system, then try again"),
		Message: "the file system of the store has no inodes left for another file; everything committed before is kept"}
}

// noInodes reports whether the file system at path, or where it would be, can hold no
// more files.
func noInodes(path string) bool {
	var st unix.Statfs_t
	err := unix.Statfs(path, &st)
	for ; errors.Is(err, fs.ErrNotExist) && filepath.Dir(path) != path; err = unix.Statfs(path, &st) {
		path = filepath.Dir(path)
	}
	return err == nil && st.Files > 0 && st.Ffree == 0
}

// fatal reports whether nobody can trust this connection any more after err: a write or
// an fsync failed somewhere. It is never retried, because the kernel may have forgotten
// the pages that it could not write.
func fatal(err error) bool {
	switch session.CodeOf(err) {
	case session.ErrDiskFull, session.ErrReadOnly, session.ErrCorrupt, session.ErrStoreIO:
		return true
	}
	return false
}

// corrupt is the refusal of a session whose journal or projections are not what was
// signed.
func corrupt(code session.Code, id session.ID, trusted uint64, format string, args ...any) error {
	return &session.Error{
		Code: code, Message: fmt.Sprintf(format, args...) + "; nothing was changed",
		Place: trustedPlace(trusted), Next: session.Do(session.MoveVerify, string(id)),
	}
}

func trustedPlace(seq uint64) string {
	if seq == 0 {
		return "no event is trusted"
	}
	return fmt.Sprintf("trusted up to seq %d", seq)
}
