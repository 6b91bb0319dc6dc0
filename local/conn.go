package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/acode-dev/acode/session"
	"modernc.org/sqlite"
)

// How long a statement waits for other processes, in milliseconds: in all, for a turn to
// write, and to copy the log back. A process that holds the store for a minute is frozen.
// A shorter wait may be a slow disk.
const (
	busyWait    = 60_000
	turnWait    = 10_000
	restartWait = 200
)

// dsn returns the data source name of the database in home, with pragmas that apply to
// every connection. On macOS a plain sync ends in the cache of the disk, and only
// fullfsync reaches the disk. On Linux the VFS syncs.
func dsn(home, mode string, pragmas ...string) string {
	q := url.Values{}
	q.Set("mode", mode)
	if mode == "rw" {
		q.Set("_txlock", "immediate")
		pragmas = append(pragmas, "fullfsync(1)")
		if vfs := writingVFS(); vfs != "" {
			q.Set("vfs", vfs)
		}
	}
	for _, p := range append([]string{fmt.Sprintf("busy_timeout(%d)", busyWait), "foreign_keys(1)", "trusted_schema(0)"}, pragmas...) {
		q.Add("_pragma", p)
	}
	u := url.URL{Scheme: "file", Path: filepath.Join(home, databaseName), RawQuery: q.Encode()}
	return u.String()
}

// lockOpenFiles makes SQLite's locks belong to the open file instead of the process. Then
// a process that opens and closes the same file again does not lose its locks. Systems
// without such locks use the old kind.
func lockOpenFiles() error {
	_, err := sqlite.OFDLocking(true)
	if err != nil && !errors.Is(err, sqlite.ErrOFDLockingUnavailable) {
		return fmt.Errorf("set locking: %w", err)
	}
	return nil
}

// writeConn is a connection that writes. A Store has one, and so has an Outbox.
type writeConn struct {
	*handle
	// files that were opened
	place []placed
	// error of a write or sync; after it even close must not touch the files
	dead error

	// set for an Outbox, which stops waiting for its turn when its context ends
	drains bool
	// how often another process had the lock
	busy int

	// restart was tried
	restarted bool
	// error of restart, which is not tried again
	refused error

	// writer that committed last through this connection; nil if unknown
	last *Writer
	// the store's clock after that commit
	lastUS int64
	// data version after that commit
	version uint32
}

// left records how writer by left the database after its commit b. A commit without
// events does not take the turn, so left then forgets the writer, and its next commit
// takes the turn.
func (w *writeConn) left(by *Writer, b *batch) {
	w.last, w.lastUS = nil, b.lastUS
	if !b.touched && !b.alone {
		return
	}
	if v, err := w.dataVersion(); err == nil {
		w.last, w.version = by, v
	}
}

// asLeft reports, inside a transaction, whether no one committed since writer by did. If
// so, it returns the store's clock.
func (w *writeConn) asLeft(by *Writer) (lastUS int64, same bool) {
	if w.last != by {
		return 0, false
	}
	v, err := w.dataVersion()
	return w.lastUS, err == nil && v == w.version
}

// dataVersion returns a number that changes with every commit of any connection. Commits
// of other connections count from the next transaction on.
func (w *writeConn) dataVersion() (uint32, error) {
	return w.conn.(sqlite.FileControl).FileControlDataVersion("main")
}

// placed is a file of the store as it was when it was opened.
type placed struct {
	path string
	// zero until it is known
	file fileID
}

// fileID identifies a file.
type fileID struct{ dev, ino uint64 }

// same reports whether path still names the same file.
func (p *placed) same() (bool, error) {
	now, err := whereIs(p.path)
	if err != nil {
		return false, &fs.PathError{Op: "stat", Path: p.path, Err: err}
	}
	if p.file == (fileID{}) {
		p.file = now
	}
	return p.file == now, nil
}

// inPlace returns an error unless the open files still have the names of the store.
// SQLite continues to write to removed files, and those commits would be lost.
func (w *writeConn) inPlace() error {
	for i := range w.place {
		p := &w.place[i]
		same, err := p.same()
		if same {
			continue
		}
		return &session.Error{
			Code: session.ErrStoreIO, Place: p.path, Cause: err,
			Message: "the store was removed or replaced while it was in use; everything committed before is kept in the old files",
			Next:    session.Words("put the store back, then try again"),
		}
	}
	return nil
}

// seen records a failure after which the files must not be touched. A full disk is no
// such failure: everything written before is still good.
func (w *writeConn) seen(err error) error {
	if err == nil {
		return nil
	}
	if judged := storeError("use store", err); w.dead == nil && fatal(judged) && session.CodeOf(judged) != session.ErrDiskFull {
		w.dead = judged
	}
	return err
}

// longestLog is the size to which acode cuts a log that a slow reader made huge. Below
// this size the file keeps its size, because then it is cheaper to sync.
const longestLog = 64 << 20

func openWriteConn(home string) (*writeConn, error) {
	return openConn(home, "journal_mode(WAL)", "synchronous(FULL)", "secure_delete(1)", fmt.Sprintf("wal_autocheckpoint(%d)", growFrames))
}

// openConn opens a connection that writes. If the log is huge, SQLite shortens it with
// the first commit after the log was copied back.
func openConn(home string, pragmas ...string) (*writeConn, error) {
	if info, err := os.Stat(filepath.Join(home, databaseName) + "-wal"); err == nil && info.Size() > longestLog {
		pragmas = append(pragmas, fmt.Sprintf("journal_size_limit(%d)", longestLog))
	}
	l, err := openHandle(dsn(home, "rw", pragmas...))
	if err != nil {
		return nil, storeError("open store", err)
	}
	l.brief = true
	w := &writeConn{handle: l}
	for _, suffix := range []string{"", "-wal"} {
		w.place = append(w.place, placed{path: filepath.Join(home, databaseName) + suffix})
	}
	if err := w.keepWAL(); err != nil {
		_ = w.close() // the first error is the cause
		return nil, storeError("keep log", err)
	}
	_, _ = w.place[0].same() // the first commit returns the error too
	return w, nil
}

// restartOnce runs restart once, before the first transaction. It does not try again
// after a failure, because the kernel may mark pages as written that it failed to write.
func (w *writeConn) restartOnce(ctx context.Context) error {
	if !w.restarted {
		w.restarted, w.refused = true, w.restart(context.WithoutCancel(ctx))
	}
	return w.refused
}

// restart copies the log into the database and syncs it before any new commit is
// acknowledged. Pages that an earlier process failed to sync may look written and not be
// on the disk.
//
// Other processes that read or write may prevent this. restart tries a few times and then
// continues without it, because a process that verifies a large store must not delay a
// resume.
func (w *writeConn) restart(ctx context.Context) error {
	err := w.patience(ctx, restartWait)
	for try, busy := 0, 1; try < 3 && busy != 0 && err == nil; try++ {
		var log, copied int
		err = w.queryRow(ctx, `PRAGMA wal_checkpoint(RESTART)`, nil, &busy, &log, &copied)
		if err != nil && codeOf(err) == session.ErrLocked {
			err = nil
		}
	}
	return cmp.Or(storeError("sync log", err), w.patience(ctx, turnWait))
}

func (w *writeConn) exec(ctx context.Context, query string, args ...any) error {
	return w.seen(w.handle.exec(ctx, query, args...))
}

func (w *writeConn) queryRow(ctx context.Context, query string, args []any, dst ...any) error {
	return w.seen(w.handle.queryRow(ctx, query, args, dst...))
}

// commitError is a failure of COMMIT. The commit may still have happened.
type commitError struct{ err error }

func (e *commitError) Error() string { return "commit: " + e.err.Error() }
func (e *commitError) Unwrap() error { return e.err }

const (
	begin  = `BEGIN IMMEDIATE`
	commit = `COMMIT`

	beginReading = `BEGIN`
	rollback     = `ROLLBACK`
)

// tx runs f between BEGIN IMMEDIATE and COMMIT. Once it has begun, ctx does not interrupt
// it. For a Store, ctx does not interrupt the wait for the turn either. After a failure
// that forbids to touch the files, tx returns that same error.
func (w *writeConn) tx(ctx context.Context, f func(ctx context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.dead != nil {
		return w.dead
	}
	whole := context.WithoutCancel(ctx)
	if err := w.restartOnce(whole); err != nil {
		return err
	}
	if !w.drains {
		ctx = whole
	}
	if err := w.begin(ctx); err != nil {
		return err
	}
	ctx = whole
	if err := f(ctx); err != nil {
		w.rollback()
		return err
	}
	if err := w.exec(ctx, commit); err != nil {
		w.rollback()
		return &commitError{err}
	}
	if err := w.inPlace(); err != nil {
		w.dead = err
		return &commitError{err}
	}
	return nil
}

// begin gives up after this many waits in a row during which no other process committed.
// A drainer waits outboxWait each time.
const (
	idleTurns  = busyWait / turnWait
	drainTurns = 40
)

// begin takes the write lock. It waits as long as other processes commit: on a slow disk
// many sessions share few commits, and SQLite's lock has no queue.
func (w *writeConn) begin(ctx context.Context) error {
	var last int64
	turns := idleTurns
	if w.drains {
		turns = drainTurns
	}
	for idle := 0; ; idle++ {
		err := w.exec(ctx, begin)
		if resultCode(err)&0xff != sqliteBusy || idle >= turns {
			return err
		}
		w.busy++
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var version int64
		if err := w.queryRow(ctx, `PRAGMA data_version`, nil, &version); err != nil {
			return err
		}
		if version != last {
			idle, last = 0, version
		}
	}
}

// close closes the connection. If no other process has the store open, SQLite copies the
// log into the database. After a failed sync that could write pages that never reached
// the disk. Therefore a dead connection stays open until the process ends.
func (w *writeConn) close() error {
	if w.dead != nil {
		return nil
	}
	return w.handle.close()
}

// touch writes a page without changing it. The version of the schema may be an older one,
// so touch reads it first.
func (w *writeConn) touch(ctx context.Context) error {
	var version int
	if err := w.queryRow(ctx, `PRAGMA user_version`, nil, &version); err != nil {
		return err
	}
	return w.exec(ctx, fmt.Sprintf(`PRAGMA user_version = %d`, version))
}
