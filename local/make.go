package local

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// making records the files that this process made for an unfinished store.
type making struct {
	// directories in the order of their making
	dirs  []string
	files []string
	// nil if create.lock is not held
	unlock func()
}

// makeStore makes or completes a store. It inserts the row of the store last, so that a
// store with this row is complete. Only one process does this at a time. On failure
// makeStore removes the files that it made.
func (s *Store) makeStore(ctx context.Context) (err error) {
	home := s.opts.Home
	h, err := readHeader(filepath.Join(home, databaseName))
	if err == nil && h.version == 0 {
		err = checkLost(home)
	}
	if err != nil {
		return err
	}
	m := &making{}
	defer func() {
		var unknown *commitError
		if err = nameFull(home, err); err != nil && !errors.As(err, &unknown) {
			m.undo(s)
		}
		if m.unlock != nil {
			m.unlock()
		}
	}()
	if err := m.begin(home); err != nil {
		return err
	}
	if err := m.database(ctx, home); err != nil {
		return err
	}
	if s.wr != nil {
		_ = s.wr.close() // it was opened before this process held the lock
	}
	if s.wr, err = openWriteConn(home); err != nil {
		return err
	}
	if err := s.migrate(ctx); err != nil {
		return err
	}
	if s.row, err = readStoreRow(ctx, s.wr.handle); !errors.Is(err, sql.ErrNoRows) {
		return storeError("read store", err)
	}
	if _, err := os.Lstat(s.source().file()); errors.Is(err, fs.ErrNotExist) {
		m.files = append(m.files, s.source().file())
	}
	return s.firstRow(ctx)
}

// begin makes the directories and takes the lock. A failing process may remove both
// meanwhile; then begin tries again.
func (m *making) begin(home string) error {
	path := filepath.Join(home, "create.lock")
	for {
		if err := m.folders(home); err != nil {
			return err
		}
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			m.files = append(m.files, path)
		}
		unlock, placed, err := lockFile(path)
		if placed {
			m.unlock = unlock
			return nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
}

// besideMakers waits until no process makes the store at home, and keeps other makers out
// until unlock. A maker that fails removes its files, even if another process has just
// opened them.
func besideMakers(home string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(home, "create.lock"), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return func() {}, nil // no store was ever made there; the open reports any other problem
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH); err != nil {
		_ = f.Close() // nothing is held
		return nil, storeError("lock store", &fs.PathError{Op: "flock", Path: f.Name(), Err: err})
	}
	return func() { _ = f.Close() }, nil
}

// lockFile waits for the lock on path. placed is false if the file was removed or
// replaced meanwhile: then another process could hold the lock of a new file with the
// same name.
func lockFile(path string) (unlock func(), placed bool, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, false, storeError("open lock", err)
	}
	unlock = func() { _ = f.Close() } // closing the file releases the lock
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		unlock()
		return nil, false, storeError("lock store", &fs.PathError{Op: "flock", Path: path, Err: err})
	}
	held, err := f.Stat()
	named, nerr := os.Lstat(path)
	if err := cmp.Or(err, nerr); err != nil || !os.SameFile(held, named) {
		unlock()
		return nil, false, storeError("look at lock", err)
	}
	return unlock, true, nil
}

// folders makes the directories of a store that are missing. Many backups leave out empty
// directories.
func (m *making) folders(home string) error {
	before := len(m.dirs)
	for _, dir := range []string{home, filepath.Join(home, "heads"), filepath.Join(home, "blobs")} {
		if err := m.dir(dir); err != nil {
			return storeError("make store", err)
		}
	}
	for _, dir := range m.dirs[before:] {
		if err := syncDir(filepath.Dir(dir)); err != nil {
			return err
		}
	}
	return nil
}

// dir makes a directory and its parents.
func (m *making) dir(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	} else if errors.Is(err, fs.ErrNotExist) && filepath.Dir(path) != path {
		if err := m.dir(filepath.Dir(path)); err != nil {
			return err
		}
	}
	err := os.Mkdir(path, 0o700)
	if err == nil {
		m.dirs = append(m.dirs, path)
		return nil
	}
	if info, serr := os.Stat(path); serr == nil && info.IsDir() { // another process made it meanwhile
		return nil
	}
	return err
}

// undo removes the files that were made. It removes the database before its log, because
// no one must read the database without the log.
func (m *making) undo(s *Store) {
	if s.wr != nil {
		_ = s.wr.close()
		s.wr = nil
	}
	for i := len(m.files) - 1; i >= 0; i-- {
		_ = os.Remove(m.files[i]) // the next process uses a file that stays
	}
	for i := len(m.dirs) - 1; i >= 0; i-- {
		_ = unix.Rmdir(m.dirs[i]) // fails if it is no longer empty
	}
}

// firstRow grows the log once, so that no later commit has to. Then it inserts the row
// that describes the store.
func (s *Store) firstRow(ctx context.Context) error {
	if err := s.growLog(ctx); err != nil {
		return storeError("grow log", err)
	}
	device := make([]byte, 16)
	if _, err := rand.Read(device); err != nil {
		return fmt.Errorf("make device id: %w", err)
	}
	row := storeRow{format: formatVersion, device: hex.EncodeToString(device)}
	k, err := s.source().choose(ctx, row.device)
	if err != nil {
		return err
	}
	row.keySource, row.keyID = k.source, k.id
	row.hmac = k.sign(row.signed())
	err = s.wr.tx(ctx, func(ctx context.Context) error {
		return s.wr.exec(ctx, `INSERT INTO store (one, format, device, key_source, key_id, hmac) VALUES (1, ?, ?, ?, ?, ?)`,
			row.format, row.device, row.keySource, row.keyID, row.hmac[:])
	})
	if err != nil {
		return storeError("make store", err)
	}
	s.row = row
	return nil
}

// growFrames is the number of pages (4 MiB) after which SQLite copies the log back into
// the database.
const growFrames = 500

// growLog rewrites one page until the log has its lasting size. Nothing is acknowledged
// yet, so it need not sync before the end.
func (s *Store) growLog(ctx context.Context) error {
	for _, q := range []string{`PRAGMA wal_autocheckpoint = 0`, `PRAGMA synchronous = OFF`} {
		if err := s.wr.exec(ctx, q); err != nil {
			return err
		}
	}
	frames := growFrames
	if s.opts.frames > 0 {
		frames = s.opts.frames
	}
	for range frames {
		if err := s.wr.touch(ctx); err != nil {
			return err
		}
	}
	for _, q := range []string{`PRAGMA synchronous = FULL`, fmt.Sprintf(`PRAGMA wal_autocheckpoint = %d`, growFrames)} {
		if err := s.wr.exec(ctx, q); err != nil {
			return err
		}
	}
	return s.wr.restartOnce(ctx)
}

const (
	// pageBytes is the size of the database's pages. Receipts of about a kilobyte waste a
	// third of a page of 4 KiB, and a tenth of a page of 8 KiB.
	pageBytes = 8192

	// applicationID marks the file as a store of acode for tools like file(1): "acod".
	applicationID = 0x61636f64
)

// database makes an empty database that only its owner can read. SQLite gives the same
// mode to the files beside it. The first write fixes the page size, so it must come
// before the log exists.
func (m *making) database(ctx context.Context, home string) error {
	path := filepath.Join(home, databaseName)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		m.files = append(m.files, path+"-shm", path+"-wal", path+"-journal", path)
		err = f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return storeError("make database", err)
	}
	if err := syncDir(home); err != nil {
		return err
	}
	l, err := openHandle(dsn(home, "rw", fmt.Sprintf("page_size(%d)", pageBytes)))
	if err != nil {
		return storeError("make database", err)
	}
	err = l.exec(ctx, fmt.Sprintf(`PRAGMA application_id = %d`, applicationID))
	if cerr := l.close(); err == nil {
		err = cerr
	}
	return storeError("make database", err)
}
