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

// How long a statement waits for other processes, in milliseconds: at all, for a turn to
// write, and to copy the log back. Who keeps a store for a minute is frozen; for less a
// disk may have stalled.
const (
	busyWait    = 60_000
	turnWait    = 10_000
	restartWait = 200
)

// dsn names the database of home with pragmas that reach every connection. Where the
// system's sync stops at the cache of the disk, as that of macOS does, only fullfsync
// makes it reach the disk; on Linux the VFS syncs.
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

// lockOpenFiles makes SQLite's locks belong to the open file instead of the process, so
// that no other open and close of the same file drops them. Systems without such locks go
// on with the old kind.
func lockOpenFiles() error {
	_, err := sqlite.OFDLocking(true)
	if err != nil && !errors.Is(err, sqlite.ErrOFDLockingUnavailable) {
		return fmt.Errorf("set locking: %w", err)
	}
	return nil
}

// writeConn is a connection that writes: the one of a Store or that of an Outbox.
type writeConn struct {
	*link
	// the files that were opened
	place []placed
	// a write or a sync failed: not even a close may touch the files again
	dead error

	// an Outbox has it, which gives its turn up when its context ends
	drains bool
	// how often another process had the lock
	busy int

	// the log was copied back
	settled bool
	// why it could not be; it is not tried again
	refused error

	// the writer that committed through this connection last; nil: not known
	last *Writer
	// the store's clock then
	lastUS int64
	// of the data then
	version uint32
}

// left notes how writer by left the database with its commit b. Without an event it did
// not take the turn, which its next one has to.
func (w *writeConn) left(by *Writer, b *batch) {
	w.last, w.lastUS = nil, b.lastUS
	if !b.touched && !b.alone {
		return
	}
	if v, err := w.dataVersion(); err == nil {
		w.last, w.version = by, v
	}
}

// asLeft reports, in a transaction, whether nobody committed anything since writer by
// did, and gives the store's clock if so.
func (w *writeConn) asLeft(by *Writer) (lastUS int64, same bool) {
	if w.last != by {
		return 0, false
	}
	v, err := w.dataVersion()
	return w.lastUS, err == nil && v == w.version
}

// dataVersion changes with every commit of anybody; what others committed counts from the
// begin of the next transaction.
func (w *writeConn) dataVersion() (uint32, error) {
	return w.conn.(sqlite.FileControl).FileControlDataVersion("main")
}

// placed is a file of the store as it was when it was opened.
type placed struct {
	path string
	// zero: not known yet
	file fileID
}

// fileID tells one file from another.
type fileID struct{ dev, ino uint64 }

// same reports whether path still names the file that it named before.
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

// inPlace reports whether the files that are written are those that have the names of the
// store. SQLite goes on writing to files that were removed, where nobody will find it
// again.
func (w *writeConn) inPlace() error {
	for i := range w.place {
		p := &w.place[i]
		same, err := p.same()
		if same {
			continue
		}
		return &session.Error{
			Code: session.ErrStoreIO, Place: p.path, Cause: err,
			Message: "the store was removed or replaced while it was in use; what was committed before is kept where those files are",
			Next:    session.Words("put the store back, then try again"),
		}
	}
	return nil
}

// seen takes notice of a failure after which the files are left alone. Where only room
// was missing, what was written before is as good as ever.
func (w *writeConn) seen(err error) error {
	if err == nil {
		return nil
	}
	if judged := storeError("use store", err); w.dead == nil && fatal(judged) && session.CodeOf(judged) != session.ErrDiskFull {
		w.dead = judged
	}
	return err
}

// longestLog is what is left of the file of a log that an old reader made huge. Below it
// the file keeps its size, with which it is cheaper to sync.
const longestLog = 64 << 20

func openWriteConn(home string) (*writeConn, error) {
	return openConn(home, "journal_mode(WAL)", "synchronous(FULL)", "secure_delete(1)", fmt.Sprintf("wal_autocheckpoint(%d)", growFrames))
}

// openConn shortens a huge log with the first commit after it was copied back.
func openConn(home string, pragmas ...string) (*writeConn, error) {
	if info, err := os.Stat(filepath.Join(home, databaseName) + "-wal"); err == nil && info.Size() > longestLog {
		pragmas = append(pragmas, fmt.Sprintf("journal_size_limit(%d)", longestLog))
	}
	l, err := openLink(dsn(home, "rw", pragmas...))
	if err != nil {
		return nil, storeError("open store", err)
	}
	l.brief = true
	w := &writeConn{link: l}
	for _, suffix := range []string{"", "-wal"} {
		w.place = append(w.place, placed{path: filepath.Join(home, databaseName) + suffix})
	}
	if err := w.keepWAL(); err != nil {
		_ = w.close() // the first error says more
		return nil, storeError("keep log", err)
	}
	_, _ = w.place[0].same() // the first commit says so too
	return w, nil
}

// settle is restart, once, before the first transaction. What fails is not tried again:
// the system may take pages for written that it gave up on.
func (w *writeConn) settle(ctx context.Context) error {
	if !w.settled {
		w.settled, w.refused = true, w.restart(context.WithoutCancel(ctx))
	}
	return w.refused
}

// restart copies the log into the database, synced, before anything new is acknowledged:
// pages that an earlier process failed to sync may look written and not be. Other
// processes that read or write may keep it from finishing, which is tried again a few
// times and then let be: whoever verifies a large store must not hold a resume up.
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
	return w.seen(w.link.exec(ctx, query, args...))
}

func (w *writeConn) queryRow(ctx context.Context, query string, args []any, dst ...any) error {
	return w.seen(w.link.queryRow(ctx, query, args, dst...))
}

// commitError is a failure of COMMIT: the commit may have happened all the same.
type commitError struct{ err error }

func (e *commitError) Error() string { return "commit: " + e.err.Error() }
func (e *commitError) Unwrap() error { return e.err }

const (
	begin  = `BEGIN IMMEDIATE`
	commit = `COMMIT`

	beginReading = `BEGIN`
	rollback     = `ROLLBACK`
)

// tx runs f between BEGIN IMMEDIATE and COMMIT. Once begun it is not cut short by ctx,
// and that of a Store waits for its turn all the same. After a failure that the files are
// left alone for it gives the same one.
func (w *writeConn) tx(ctx context.Context, f func(ctx context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.dead != nil {
		return w.dead
	}
	whole := context.WithoutCancel(ctx)
	if err := w.settle(whole); err != nil {
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

// How many times in a row nobody may have committed while this one waited for its turn,
// which a drainer does for outboxWait each time.
const (
	idleTurns  = busyWait / turnWait
	drainTurns = 40
)

// begin takes the lock for writing, and waits as long as others commit: on a slow disk
// many sessions share few commits, and SQLite gives its lock to anyone.
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

// close copies the log into the database where nobody else has the store open. After a
// failed sync that would write pages that may never have reached the disk, so a dead
// connection is left to the end of the process.
func (w *writeConn) close() error {
	if w.dead != nil {
		return nil
	}
	return w.link.close()
}

// touch writes a page that does not change: that of the version of the schema, which may
// be an older one.
func (w *writeConn) touch(ctx context.Context) error {
	var version int
	if err := w.queryRow(ctx, `PRAGMA user_version`, nil, &version); err != nil {
		return err
	}
	return w.exec(ctx, fmt.Sprintf(`PRAGMA user_version = %d`, version))
}
