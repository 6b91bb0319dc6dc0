package local

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/acode-dev/acode/session"
	"golang.org/x/sys/unix"
)

// formatVersion is the version of docs/format.md that new stores follow.
const formatVersion = 1

// Open opens the store for writing, and makes it if it is missing. The directory has mode
// 0700, its files have 0600. Open returns ErrStoreMode, ErrStoreNet or ErrNewer before it
// changes anything. It returns ErrKey when the key that the store first used is missing.
func Open(ctx context.Context, opts Options) (*Store, error) {
	if err := checkHome(opts.Home); err != nil {
		return nil, err
	}
	if err := lockOpenFiles(); err != nil {
		return nil, err
	}
	s := &Store{opts: opts}
	ready, err := s.openExisting(ctx)
	if err == nil && !ready {
		err = s.makeStore(ctx)
	}
	if err == nil {
		_, err = s.theKeys(ctx)
	}
	if err == nil {
		err = new(making).folders(opts.Home)
	}
	if err != nil {
		_ = s.Close() // the first error is the cause
		return nil, nameFull(opts.Home, err)
	}
	makeBallast(opts.Home)
	return s, nil
}

// openExisting opens a complete store and migrates it to this version. ready is false
// when there is no complete store yet. SQLite must never open an empty database, because
// it would delete the log beside it.
func (s *Store) openExisting(ctx context.Context) (ready bool, err error) {
	path := filepath.Join(s.opts.Home, databaseName)
	unlock, err := besideMakers(s.opts.Home)
	if err != nil {
		return false, err
	}
	defer func() { unlock() }()
	if h, err := readHeader(path); err != nil || !h.log {
		return false, err
	}
	if err := unix.Access(path, unix.W_OK); errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) { // SQLite would notice at the first write
		return false, storeError("open store", &fs.PathError{Op: "access", Path: path, Err: err})
	}
	if s.wr, err = openWriteConn(s.opts.Home); err != nil {
		return false, err
	}
	version, err := s.version(ctx, s.wr.handle)
	if err != nil || version == 0 {
		return false, err
	}
	if version != s.schema().version {
		unlock()
		unlock = func() {}
		if err := s.upgrade(ctx); err != nil {
			return false, err
		}
	}
	s.row, err = readStoreRow(ctx, s.wr.handle)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, storeError("read store", err)
}

// header holds fields from the first bytes of a database.
type header struct {
	// the database has its log, and therefore more than one page
	log bool
	// version of the schema; 0 for none yet
	version int
}

// readHeader reads the header of the database at path without SQLite. Until the database
// has its log, only one process may open it, under the lock of makeStore, because SQLite
// needs it alone to add the log. A copy made by VACUUM INTO has a schema and no log.
func readHeader(path string) (header, error) {
	log, logErr := os.Lstat(path + "-wal") // read first: the database says that it has a log before the log exists
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return header{}, nil
	}
	if err != nil {
		return header{}, storeError("open store", err)
	}
	defer f.Close()
	// Offsets of the format versions for writing and reading, which are 1 without a log,
	// and of user_version.
	const writer, reader, userVersion = 18, 19, 60
	var b [userVersion + 4]byte
	if _, err := f.ReadAt(b[:], 0); errors.Is(err, io.EOF) {
		return header{}, nil
	} else if err != nil {
		return header{}, storeError("open store", err)
	}
	if b[writer] > 2 { // SQLite would read this database, and fail only at the first write
		return header{}, &session.Error{Code: session.ErrCorrupt, Place: path, Next: session.Words("put the database and its log back from a backup"),
			Message: "the header of the database names an unknown format; nothing was changed; no event is trusted"}
	}
	h := header{log: b[writer] != 1 || b[reader] != 1, version: int(int32(binary.BigEndian.Uint32(b[userVersion:])))}
	if !h.log && logErr == nil && log.Size() > 0 {
		return header{}, &session.Error{Code: session.ErrCorrupt, Place: path + "-wal", Next: session.Words("move the log away, because it belongs to another database, then try again"),
			Message: "the database has a log that belongs to another one, as when a copy made by VACUUM INTO replaced a database; SQLite would overwrite the copy; nothing was changed"}
	}
	return h, nil
}

// upgrade migrates a store of an older program. Only one process does this at a time; the
// others then find the new version.
func (s *Store) upgrade(ctx context.Context) error {
	if err := s.wr.restartOnce(ctx); err != nil {
		return err
	}
	m := &making{}
	if err := m.begin(s.opts.Home); err != nil {
		return err
	}
	defer m.unlock()
	return s.migrate(ctx)
}

func (s *Store) migrate(ctx context.Context) error {
	version, err := s.version(ctx, s.wr.handle)
	if err != nil || version == s.schema().version {
		return err
	}
	// goose opens its own connections, so this one must be closed.
	if err := s.wr.close(); err != nil {
		return storeError("migrate store", err)
	}
	s.wr = nil
	db, err := sql.Open("sqlite", dsn(s.opts.Home, "rw", "journal_mode(WAL)", "synchronous(FULL)"))
	if err != nil {
		return storeError("migrate store", err)
	}
	err = s.schema().run(ctx, db, s.schema().version)
	if err != nil && ctx.Err() != nil { // the error of goose has the cause in its text but not in its chain
		err = context.Cause(ctx)
	}
	if cerr := db.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return storeError("migrate store", err)
	}
	s.wr, err = openWriteConn(s.opts.Home)
	return err
}
