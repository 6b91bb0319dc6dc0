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

// making is what this process has made of a store that is not complete yet.
type making struct {
	// in the order of their making
	dirs  []string
	files []string
	// nil: create.lock is not held
	unlock func()
}

// makeStore makes or completes a store; its row comes last, so that a store that has one
// is complete. Only one process does this at a time. Where it fails, what it made is
// removed again.
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
		_ = s.wr.close() // it was opened before this process was alone
	}
	if s.wr, err = openWriteConn(home); err != nil {
		return err
	}
	if err := s.migrate(ctx); err != nil {
		return err
	}
	if s.row, err = readStoreRow(ctx, s.wr.link); !errors.Is(err, sql.ErrNoRows) {
		return storeError("read store", err)
	}
	if _, err := os.Lstat(s.source().file()); errors.Is(err, fs.ErrNotExist) {
		m.files = append(m.files, s.source().file())
	}
	return s.firstRow(ctx)
}

// begin makes the directories and takes the lock. Another process that could not make the
// store may have removed both meanwhile.
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

// besideMakers waits until no process makes the store at home, and keeps those that would
// out until unlock: one that fails removes what it has made, also under a process that
// just opens it.
func besideMakers(home string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(home, "create.lock"), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return func() {}, nil // none was made there; what else is wrong shows when the store is opened
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH); err != nil {
		_ = f.Close() // nothing is held
		return nil, storeError("lock store", &fs.PathError{Op: "flock", Path: f.Name(), Err: err})
	}
	return func() { _ = f.Close() }, nil
}

// lockFile waits for the lock on path. A file that lost its name meanwhile is not placed:
// two processes could hold two different files of one name.
func lockFile(path string) (unlock func(), placed bool, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, false, storeError("open lock", err)
	}
	unlock = func() { _ = f.Close() } // closing is what unlocks
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

// folders makes the home of a store and the folders in it, those that are missing: many a
// backup leaves out empty ones.
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

// dir makes a directory and those above it.
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

// undo removes what was made, the database before its log: it must not be read without.
func (m *making) undo(s *Store) {
	if s.wr != nil {
		_ = s.wr.close()
		s.wr = nil
	}
	for i := len(m.files) - 1; i >= 0; i-- {
		_ = os.Remove(m.files[i]) // what cannot be removed is used by the next one
	}
	for i := len(m.dirs) - 1; i >= 0; i-- {
		_ = unix.Rmdir(m.dirs[i]) // unless it holds something by now
	}
}

// firstRow grows the log once, so that no later commit pays for it, then says what the
// store is.
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

// growFrames is how many pages, 4 MiB, a log may have before SQLite copies them back by
// itself.
const growFrames = 500

// growLog rewrites one page until the log has the size that it will keep. Nothing is
// acknowledged yet, so it need not sync before the end.
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
	return s.wr.settle(ctx)
}

const (
	// pageBytes is the size of the database's pages. A receipt of a kilobyte leaves a
	// third of a page of 4 KiB unused, and a tenth of one of 8 KiB.
	pageBytes = 8192

	// applicationID marks the file as a store of acode for tools like file(1): "acod".
	applicationID = 0x61636f64
)

// database makes an empty database that only its owner can read; SQLite gives its mode to
// the files that it makes beside it. The size of pages is settled by the first write,
// which must come before the log.
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
	l, err := openLink(dsn(home, "rw", fmt.Sprintf("page_size(%d)", pageBytes)))
	if err != nil {
		return storeError("make database", err)
	}
	err = l.exec(ctx, fmt.Sprintf(`PRAGMA application_id = %d`, applicationID))
	if cerr := l.close(); err == nil {
		err = cerr
	}
	return storeError("make database", err)
}
