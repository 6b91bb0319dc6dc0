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

// SQLite's primary result codes that acode treats specially, and two extended ones.
// sqliteShmSize means that there is no room for the -shm file, so the disk is full.
// sqliteRollback means that a killed process left a rollback journal beside a database
// that is opened for reading.
const (
	// the statements of acode are correct, so the schema is not
	sqliteError     = 1
	sqliteBusy      = 5
	sqliteLocked    = 6
	sqliteReadOnly  = 8
	sqliteInterrupt = 9
	sqliteIOErr     = 10
	sqliteCorrupt   = 11
	sqliteFull      = 13
	sqliteCantOpen  = 14
	// a violated constraint: acode's rows keep all of them, so the database is damaged
	sqliteForbidden = 19
	sqliteNotADB    = 26
	sqliteShmSize   = 4874
	sqliteRollback  = 776
)

// resultCode returns the extended result code of SQLite in err, or 0.
func resultCode(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

// storeError turns an error of SQLite or of a file into an error with a code and advice.
// doing names the attempted action. An error that already has a code stays as it is.
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
		e.Next = session.Then("restore data that cannot be verified from a backup, database and log together; to verify", session.MoveVerify, "")
	case session.ErrStoreIO:
		e.Message = "the store could not be read or written; everything committed before is kept"
		e.Next = session.Words("check the disk, then resume")
		if errors.Is(err, fs.ErrPermission) {
			e.Next = session.Words("check who may write there, or name your own store with ACODE_HOME")
		}
	case session.ErrLocked:
		e.Message = "another process is writing to the store and does not finish; everything committed before is kept"
		e.Next = session.Words("find the process that has acode.db open (fuser -v): a frozen acode process (stopped, suspended) or a database tool in a transaction; continue or end it, then resume")
		e.Retryable = true
	default:
		return e.Cause
	}
	if (e.Code == session.ErrStoreIO || e.Code == session.ErrDiskFull) && limited() {
		e.Next = session.Words("raise the limit of file sizes (ulimit -f), or check the disk, then resume")
	}
	return e
}

// limited reports whether the size of files is limited for this process. SQLite reports
// this limit as an error of the disk.
func limited() bool {
	var limit unix.Rlimit
	return unix.Getrlimit(unix.RLIMIT_FSIZE, &limit) == nil && limit.Cur != unix.RLIM_INFINITY
}

func codeOf(err error) session.Code {
	rc := resultCode(err)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded): // SQLite then returns any code
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
	// lerr is the error of a rename.
	var lerr *os.LinkError
	otherwise := session.ErrInternal
	if errors.As(err, &perr) || errors.As(err, &lerr) {
		otherwise = session.ErrStoreIO
	}
	return session.DiskCode(err, otherwise)
}

// nameFull returns an error that says that the disk is full if the file system has no
// inodes left. SQLite only reports that it cannot open the file.
func nameFull(home string, err error) error {
	if !errors.Is(err, session.ErrStoreIO) && !errors.Is(err, session.ErrDiskFull) || !noInodes(home) {
		return err
	}
	return &session.Error{Code: session.ErrDiskFull, Place: home, Cause: err, Next: session.Words("remove unneeded files from that file system, then try again"),
		Message: "the file system of the store has no free inodes; everything committed before is kept"}
}

// noInodes reports whether the file system at path can hold no more files. If path does
// not exist, the nearest directory above it counts.
func noInodes(path string) bool {
	var st unix.Statfs_t
	err := unix.Statfs(path, &st)
	for ; errors.Is(err, fs.ErrNotExist) && filepath.Dir(path) != path; err = unix.Statfs(path, &st) {
		path = filepath.Dir(path)
	}
	return err == nil && st.Files > 0 && st.Ffree == 0
}

// fatal reports whether the connection must not be used after err, because a write or an
// fsync failed. A retry is not safe: the kernel may have dropped the pages that it could
// not write.
func fatal(err error) bool {
	switch session.CodeOf(err) {
	case session.ErrDiskFull, session.ErrReadOnly, session.ErrCorrupt, session.ErrStoreIO:
		return true
	}
	return false
}

// corrupt returns the error for a session whose journal or projections differ from the
// signed ones.
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
