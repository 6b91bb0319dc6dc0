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

// Open opens the store for writing and makes it where there is none: the directory 0700,
// its files 0600. It returns ErrStoreMode, ErrStoreNet and ErrNewer before anything is
// touched, and ErrKey when the key that the store first used is not at hand.
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
		_ = s.Close() // the first error says more
		return nil, nameFull(opts.Home, err)
	}
	makeBallast(opts.Home)
	return s, nil
}

// openExisting opens a store that is complete and brings it to this version; ready is
// false when there is none yet. SQLite never sees an empty database: it would delete the
// log beside it.
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
	if err := unix.Access(path, unix.W_OK); errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) { // SQLite finds out at the first write
		return false, storeError("open store", &fs.PathError{Op: "access", Path: path, Err: err})
	}
	if s.wr, err = openWriteConn(s.opts.Home); err != nil {
		return false, err
	}
	version, err := s.version(ctx, s.wr.link)
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
	s.row, err = readStoreRow(ctx, s.wr.link)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, storeError("read store", err)
}

// header is what the first bytes of a database say, without SQLite.
type header struct {
	// it has got its log, and with it more than one page
	log bool
	// of its schema; 0: none yet
	version int
}

// readHeader looks at the database at path. Until it has got its log only one process may
// open it, under the lock of makeStore: to give it the log needs it alone. A copy that
// VACUUM INTO made has a schema and no log.
func readHeader(path string) (header, error) {
	log, logErr := os.Lstat(path + "-wal") // before the database, which says first that it has one
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return header{}, nil
	}
	if err != nil {
		return header{}, storeError("open store", err)
	}
	defer f.Close()
	// the first two: 1 without a log
	const writer, reader, userVersion = 18, 19, 60
	var b [userVersion + 4]byte
	if _, err := f.ReadAt(b[:], 0); errors.Is(err, io.EOF) {
		return header{}, nil
	} else if err != nil {
		return header{}, storeError("open store", err)
	}
	if b[writer] > 2 { // SQLite would read it, and refuse to write only when something was to be recorded
		return header{}, &session.Error{Code: session.ErrCorrupt, Place: path, Next: session.Words("put the database and its log back from a backup"),
			Message: "the header of the database names a format that nobody writes; nothing was changed; no event is trusted"}
	}
	h := header{log: b[writer] != 1 || b[reader] != 1, version: int(int32(binary.BigEndian.Uint32(b[userVersion:])))}
	if !h.log && logErr == nil && log.Size() > 0 {
		return header{}, &session.Error{Code: session.ErrCorrupt, Place: path + "-wal", Next: session.Words("move the log away, which belongs to another database, then try again"),
			Message: "a log lies beside a database that has none, as where a copy of VACUUM INTO was put in the place of another database; SQLite would write it over the copy; nothing was changed"}
	}
	return h, nil
}

// upgrade migrates a store that an older program made. Only one process does this at a
// time; the others find that it is done.
func (s *Store) upgrade(ctx context.Context) error {
	if err := s.wr.settle(ctx); err != nil {
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
	version, err := s.version(ctx, s.wr.link)
	if err != nil || version == s.schema().version {
		return err
	}
	// goose takes connections itself, and there is only one.
	if err := s.wr.close(); err != nil {
		return storeError("migrate store", err)
	}
	s.wr = nil
	db, err := sql.Open("sqlite", dsn(s.opts.Home, "rw", "journal_mode(WAL)", "synchronous(FULL)"))
	if err != nil {
		return storeError("migrate store", err)
	}
	err = s.schema().run(ctx, db, s.schema().version)
	if err != nil && ctx.Err() != nil { // the text of goose says it and its chain does not
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
