package local

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acode-dev/acode/session"
)

// OpenRead opens the store for reading only. It makes nothing, migrates nothing and
// changes no byte of the database, and it works on a full or read-only disk. When there
// is no store, its error is fs.ErrNotExist.
func OpenRead(ctx context.Context, opts Options) (*Store, error) {
	if info, err := os.Lstat(filepath.Join(opts.Home, databaseName)); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil, noStore(opts.Home)
	}
	if err := checkHome(opts.Home); err != nil {
		return nil, err
	}
	if err := lockOpenFiles(); err != nil {
		return nil, err
	}
	if _, err := readHeader(filepath.Join(opts.Home, databaseName)); err != nil {
		return nil, err
	}
	s := &Store{opts: opts}
	err := s.read(ctx, func(q querier) error {
		var err error
		s.row, err = readStoreRow(ctx, q)
		if errors.Is(err, sql.ErrNoRows) { // the process that made the store did not finish
			return noStore(opts.Home)
		}
		return storeError("read store", err)
	})
	if err != nil {
		_ = s.Close() // the first error is the cause
		return nil, err
	}
	return s, nil
}

// noStore returns the error for a store that does not exist, or no longer exists.
func noStore(home string) error {
	if err := checkLost(home); err != nil {
		return err
	}
	return &session.Error{Code: session.ErrUnknownID, Message: "there is no store yet", Place: home, Next: session.Then("start a session with", session.MoveRun, ""), Cause: fs.ErrNotExist}
}

// checkLost returns an error for a home without a usable database in which sessions left
// heads. A new database would hide that these sessions are lost.
func checkLost(home string) error {
	heads, err := headNames(home)
	if err != nil || len(heads) == 0 {
		return err
	}
	return &session.Error{
		Code: session.ErrCorrupt, Message: fmt.Sprintf("the database of the store is gone or empty; sessions that it held: %d; no event is trusted; nothing was changed", len(heads)),
		Place: filepath.Join(home, databaseName), Next: session.Words("put the database and its log back from a backup, or move " + home + " away to start again"),
	}
}

// reader returns the connection that reads, and opens it at its first use.
func (s *Store) reader(ctx context.Context) (*handle, error) {
	if s.rd != nil {
		return s.rd, nil
	}
	l, err := s.openReader(ctx, dsn(s.opts.Home, "ro", "query_only(1)"))
	if err == nil {
		s.rd = l
		return l, nil
	}
	if code := session.CodeOf(err); code == session.ErrNewer || code == session.ErrCorrupt || code == session.ErrUnknownID {
		return nil, err
	}
	// After a crash, a full or read-only disk may have no room for the -shm file. In
	// exclusive mode SQLite keeps its index of the log in memory. Without locks it can do
	// so with a file opened for reading only, so not even close can write. No writer is
	// active then, because it would have made the -shm file.
	alone := dsn(s.opts.Home, "ro", "locking_mode(EXCLUSIVE)", "query_only(1)") + "&vfs=unix-none"
	l, second := s.openReader(ctx, alone)
	if second != nil {
		return nil, err
	}
	s.rd = l
	return l, nil
}

func (s *Store) openReader(ctx context.Context, name string) (*handle, error) {
	l, err := openHandle(name)
	if err != nil {
		return nil, storeError("open store", err)
	}
	err = storeError("keep log", l.keepWAL())
	if err == nil {
		err = s.readable(ctx, l)
	}
	if err != nil {
		_ = l.close() // the first error is the cause
		return nil, err
	}
	return l, nil
}

// readable returns an error for a database without a schema or with a newer one. It also
// returns an error for a rollback journal, which only an open for writing may play back.
func (s *Store) readable(ctx context.Context, q querier) error {
	v, err := s.version(ctx, q)
	if err == nil && v == 0 { // the process that made the store did not finish
		return noStore(s.opts.Home)
	}
	if resultCode(err) == sqliteRollback {
		return unplayed(s.opts.Home)
	}
	return err
}

// unplayed returns the error for a rollback journal beside the database. Without a
// schema, a process was killed while it made the store. Otherwise a process was killed
// while it added the log, or another program wrote.
func unplayed(home string) error {
	path := filepath.Join(home, databaseName)
	if h, err := readHeader(path); err != nil || h.version == 0 {
		return cmp.Or(err, noStore(home))
	}
	return &session.Error{
		Code: session.ErrStoreIO, Message: "a program was killed while it wrote to the database, and its journal has not been played back; everything committed before is kept",
		Place: path + "-journal", Next: session.Then("leave the file where it is; to play it back", session.MoveResume, ""), Retryable: true,
	}
}

// View returns the state of a session from its projections, without checking it.
func (s *Store) View(ctx context.Context, id session.ID) (*session.Session, error) {
	return look(ctx, s, func(ctx context.Context, q querier) (*session.Session, error) {
		row, err := readSession(ctx, q, id)
		if err != nil {
			return nil, err
		}
		return row.sess, errors.Join(s.remember(ctx, q, row.sess), readProjections(ctx, q, row, nil))
	})
}

// Plan reads the plan of a session.
func (s *Store) Plan(ctx context.Context, sess *session.Session) (*session.Plan, error) {
	return decodeBlob[session.Plan]("plan", func() (io.ReadCloser, error) { return s.OpenBlob(ctx, sess.Plan.Hash) })
}

// errShifted is the error for a row whose columns are not where its header says. Its id
// may look like the beginning of another.
var errShifted = errors.New("a row of table sessions names no session")

// Summaries lists the sessions of a workspace, newest first. An empty workspace means all
// sessions. A row with an invalid id is ErrCorrupt. An empty list is ErrTampered if there
// are heads of sessions that the store no longer has.
func (s *Store) Summaries(ctx context.Context, workspace string) ([]session.Summary, error) {
	var out []session.Summary
	err := s.read(ctx, func(q querier) error {
		return readRows(ctx, q, "list sessions", "", `SELECT id, short, state, reason, task, workspace, tasks, step_total, done, calls, epoch, last_seq, created_us, last_us
			FROM sessions WHERE ? = '' OR workspace = ? ORDER BY no DESC`, []any{workspace, workspace}, func(r row) error {
			var m session.Summary
			err := r.Scan(&m.ID, &m.Short, &m.State, &m.Reason, &m.Task, &m.Workspace, &m.Tasks, &m.Steps, &m.Done, &m.Calls, &m.Epoch, &m.LastSeq, &m.CreatedUS, &m.UpdatedUS)
			if _, bad := session.ParseUUID(string(m.ID)); err == nil && (bad != nil || len(m.Short) != shortLength) {
				err = errShifted
			}
			out = append(out, m)
			return err
		})
	})
	if err == nil && len(out) == 0 {
		err = s.checkHeads(ctx)
	}
	return out, err
}

// checkHeads returns an error for a store that lost whole sessions.
func (s *Store) checkHeads(ctx context.Context) error {
	heads, err := headNames(s.opts.Home)
	if err != nil {
		return nil // without heads, acode cannot know that sessions are missing
	}
	held, err := look(ctx, s, func(ctx context.Context, q querier) ([]string, error) {
		return queryStrings(ctx, q, `SELECT id FROM sessions ORDER BY id`)
	})
	var lost []string
	for _, id := range heads {
		if _, found := slices.BinarySearch(held, string(id)); !found {
			lost = append(lost, string(id))
		}
	}
	if err != nil || len(lost) == 0 {
		return err
	}
	return &session.Error{
		Code: session.ErrTampered, Place: trustedPlace(0), Next: session.Then("put the database and its log back from a backup; to see what the store holds", session.MoveVerify, ""),
		Message: fmt.Sprintf("the store lost its end: it no longer has sessions that it held (%s); nothing was changed", strings.Join(lost, ", ")),
	}
}

// The least number of characters of an id: of the short one, and of the long one, which
// begins with the time.
const (
	minShort = 2
	minLong  = 4
)

// Find returns the one session that ref names: a short id, a UUID, a prefix of one of
// them, or @last for the newest. A prefix has at least minShort or minLong characters.
// Find returns ErrUnknownID, or ErrAmbiguous with the candidates.
func (s *Store) Find(ctx context.Context, ref string) (session.ID, error) {
	all, err := s.Summaries(ctx, "")
	if err != nil {
		return "", err
	}
	if ref == "@last" && len(all) > 0 {
		return all[0].ID, nil
	}
	want := strings.ToLower(ref)
	var found []session.Summary
	for _, m := range all {
		if string(m.ID) == want || m.Short == want {
			return m.ID, nil
		}
		if len(want) >= minShort && strings.HasPrefix(m.Short, want) || len(want) >= minLong && strings.HasPrefix(string(m.ID), want) {
			found = append(found, m)
		}
	}
	switch {
	case len(found) == 1:
		return found[0].ID, nil
	case len(found) > 1:
		return "", ambiguous(ref, found)
	}
	// If there is a head but no row, the session was lost, and Load reports it.
	if _, err := session.ParseUUID(want); err == nil {
		if _, err := os.Lstat(headPath(s.opts.Home, session.ID(want))); err == nil {
			return session.ID(want), nil
		}
	}
	return "", unknown(ref)
}

func unknown(ref string) error {
	return &session.Error{Code: session.ErrUnknownID, Message: fmt.Sprintf("no session has the id %q", ref), Next: session.Do(session.MoveList, "")}
}

// someNames is how many sessions an error lists: thousands may share the first digits of
// their time.
const someNames = 10

func ambiguous(ref string, found []session.Summary) error {
	var names []string
	for _, m := range found {
		names = append(names, fmt.Sprintf("%s (%s, %s)", m.Short, m.ID, m.Task))
	}
	return &session.Error{Code: session.ErrAmbiguous, Message: fmt.Sprintf("%q fits %d sessions: %s", ref, len(found), session.Few(names, someNames)), Next: session.Words("give more of the id")}
}

// Events reads up to limit events of a session above seq after, in order.
func (s *Store) Events(ctx context.Context, id session.ID, after uint64, limit int) ([]session.Event, error) {
	return look(ctx, s, func(ctx context.Context, q querier) ([]session.Event, error) {
		no, err := sessionNumber(ctx, q, id)
		if err != nil {
			return nil, err
		}
		out, err := readEvents(ctx, q, no, id, after, limit)
		for i := range out {
			err = cmp.Or(err, s.expand(ctx, q, &out[i]))
		}
		return out, err
	})
}

// Checkpoints returns the checkpoints of a session, oldest first, without checking their
// digests. damaged has the seqs of those whose signatures do not match.
func (s *Store) Checkpoints(ctx context.Context, id session.ID) (out []session.Checkpoint, damaged map[uint64]bool, err error) {
	k, err := s.theKeys(ctx)
	if err != nil {
		return nil, nil, err
	}
	damaged = map[uint64]bool{}
	err = s.read(ctx, func(q querier) error {
		found, err := readSession(ctx, q, id)
		if err != nil {
			return err
		}
		all := []any{position(found.no, 0), position(found.no, found.commit.LastSeq)}
		return readRows(ctx, q, "read checkpoints", id, checkpointQuery, all, func(r row) error {
			c, valid, err := scanCheckpoint(r, id, k.id)
			c.Plan = found.sess.Plan.Hash
			damaged[c.Seq] = !valid || c.KeyID != k.id || !sameHash(k.sign(c.Signed()), c.HMAC)
			out = append(out, c)
			return err
		})
	})
	return out, damaged, err
}

// OpenBlob opens content. The caller closes it. hash is the one of a BlobRef, or the
// SHA-256 of the content. OpenBlob returns ErrKey when the key that sealed the content is
// missing. For missing or damaged content, it or a later Read returns ErrCorrupt.
func (s *Store) OpenBlob(ctx context.Context, hash string) (io.ReadCloser, error) {
	return look(ctx, s, func(ctx context.Context, q querier) (io.ReadCloser, error) { return s.openBlob(ctx, q, hash) })
}
