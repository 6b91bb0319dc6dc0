package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing/fstest"

	"github.com/acode-dev/acode/migrations"
	"github.com/acode-dev/acode/session"
	"modernc.org/sqlite"
)

// Short makes new stores with a short log, which is faster.
func Short(o Options) Options {
	o.frames = 4
	return o
}

// Checkpoint copies the log into the database.
func (s *Store) Checkpoint(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wr.restart(ctx)
}

// Exec runs a statement on the connection that writes.
func (s *Store) Exec(ctx context.Context, query string, args ...any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wr.handle.exec(ctx, query, args...)
}

// LogFrames returns the number of pages in the log.
func (s *Store) LogFrames(ctx context.Context) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var busy, copied int
	err = s.wr.handle.queryRow(ctx, `PRAGMA wal_checkpoint(PASSIVE)`, nil, &busy, &n, &copied)
	return n, err
}

// Dump returns the rows of all tables with meaning as text.
func (s *Store) Dump(ctx context.Context) (string, error) {
	var out strings.Builder
	err := s.read(ctx, func(q querier) error {
		for _, table := range []string{"store", "sessions", "events", "steps", "operations", "files", "blobs", "requests"} {
			err := q.each(ctx, `SELECT * FROM `+table, nil, func(r row) error {
				for i, v := range r.values {
					fmt.Fprintf(&out, "%s.%s=%v\n", table, r.columns[i], v)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return out.String(), err
}

// Fixture computes the worked example of docs/format.md.
func Fixture() (map[string]string, error) {
	k, err := newKeys(sourceFile, []byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		return nil, err
	}
	id := session.ID("01890a5d-ac96-774b-bcce-b302099a8057")
	e := session.Event{Session: id, Seq: 1, TimeUS: 1893553445000000, Type: session.SessionCreated, Actor: "acode", Payload: []byte(`{"v":1}`)}
	for i := range e.ID {
		e.ID[i] = byte(i)
	}
	e.Hash = e.ChainHash(session.Hash{})
	st := &session.StepState{StepID: session.StepID{Task: "t", Step: "s"}, Status: session.StepDone, Attempt: 1, StartSeq: 2, LastSeq: 3, StartedUS: 4, EndedUS: 5}
	st.Key = mainKey(id, st)
	d := newDigests(k, id)
	d.setStep(st, next)
	one := d.steps.sum
	st2 := *st
	st2.Step = "s2"
	st2.Key = mainKey(id, &st2)
	d.setStep(&st2, next)
	f := newDigests(k, id)
	f.setFile(&session.FileState{Path: "a", Hash: "aa", Size: 3, Mode: 0o644, Wrote: true}, next)
	cp := session.Checkpoint{Session: id, Seq: 1, Cursor: st.StepID, State: session.Executing, Epoch: 1, Steps: d.steps.sum, Files: f.files.sum, Plan: "p", Head: e.Hash, KeyID: k.id}
	cp.HMAC = k.sign(cp.Signed())
	c := session.Commit{Session: id, LastSeq: 1, Head: e.Hash, Epoch: 1, Row: d.row(&session.Session{ID: id, Short: "abc123"}), Steps: d.steps.sum, Files: f.files.sum, KeyID: k.id}
	c.HMAC = k.sign(c.Signed())
	head, err := encodeHead(c)
	if err != nil {
		return nil, err
	}
	sum := session.Hash(sha256.Sum256([]byte("secret")))
	op := newDigests(k, id)
	call := session.StepState{StepID: session.StepID{Task: "calls", Step: "calls", Op: "n1"}, Tool: "run_command", Digest: "dd", Status: session.InProgress, Attempt: 1, StartSeq: 5, LastSeq: 5, StartedUS: 6}
	op.setOp(call.StepID, &call)
	return map[string]string{
		"operation row": op.steps.sum.String(),
		"key id":        k.id, "event hash": e.Hash.String(), "step row": one.String(), "two step rows": d.steps.sum.String(), "file row": f.files.sum.String(),
		"checkpoint, short": hex.EncodeToString(encodeCheckpoint(cp, k.id, true)), "checkpoint, long": hex.EncodeToString(encodeCheckpoint(cp, k.id, false)),
		"session row": c.Row.String(), "checkpoint hmac": cp.HMAC.String(), "commit hmac": c.HMAC.String(), "head": hex.EncodeToString(head),
		"sealed name": k.blobName(sum, true).String(),
	}, nil
}

// EncodeCheckpoint exports encodeCheckpoint.
func EncodeCheckpoint(c session.Checkpoint, keyID string, usual bool) []byte {
	return encodeCheckpoint(c, keyID, usual)
}

// DecodeCheckpoint exports decodeCheckpoint.
func DecodeCheckpoint(c *session.Checkpoint, b, payload []byte, keyID string) error {
	return decodeCheckpoint(c, b, payload, keyID)
}

// StoreError exports storeError.
func StoreError(doing string, err error) error { return storeError(doing, err) }

// Fatal exports fatal.
func Fatal(err error) bool { return fatal(err) }

// SchemaSum is the digest of the schema that this version makes.
const SchemaSum = schemaSum

// Schema returns the schema as text.
func (s *Store) Schema(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows, err := schemaRows(ctx, s.wr.handle)
	return strings.Join(rows, "\n"), err
}

// DSN exports dsn.
func DSN(home, mode string, pragmas ...string) string { return dsn(home, mode, pragmas...) }

// Pragma reads a setting of the connection that writes, or of one that reads.
func (s *Store) Pragma(ctx context.Context, name string, writer bool) (v string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	get := func(q querier) error {
		var value any
		err := q.queryRow(ctx, `PRAGMA `+name, nil, &value)
		v = fmt.Sprint(value)
		return err
	}
	if writer {
		return v, get(s.wr.handle)
	}
	return v, s.read(ctx, get)
}

// Hold begins a read transaction, which lasts until release.
func (s *Store) Hold(ctx context.Context) (release func(), err error) {
	ready, end, done := make(chan error, 1), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		err := s.read(ctx, func(q querier) error {
			var n int
			err := q.queryRow(ctx, `SELECT count(*) FROM events`, nil, &n)
			ready <- err
			<-end
			return err
		})
		if err != nil {
			ready <- err
		}
	}()
	return func() { close(end); <-done }, <-ready
}

// TryWrite writes through a connection that reads.
func (s *Store) TryWrite(ctx context.Context) error {
	l, err := s.reader(ctx)
	if err == nil {
		err = l.exec(ctx, `CREATE TABLE intruder (x)`)
	}
	return err
}

// Reload reads the session again, as after a refused batch.
func (w *Writer) Reload(ctx context.Context) error {
	w.st.mu.Lock()
	defer w.st.mu.Unlock()
	return w.reload(ctx)
}

// RemoveDelivered removes delivered sessions from the outbox, as Changed does when there
// are enough.
func (o *Outbox) RemoveDelivered(ctx context.Context, _ []int64) error { return o.removeDelivered(ctx) }

// Enlisted returns the numbers of the sessions in the outbox.
func (o *Outbox) Enlisted(ctx context.Context) (nos []int64, err error) {
	err = o.read(ctx, func(q querier) error {
		return q.each(ctx, `SELECT session_no FROM outbox ORDER BY session_no`, nil, func(r row) error {
			nos = append(nos, r.values[0].(int64))
			return nil
		})
	})
	return nos, err
}

// Plans returns SQLite's query plans for the queries that run again and again.
func (o *Outbox) Plans(ctx context.Context) (plans map[string][]string, err error) {
	plans = map[string][]string{}
	err = o.read(ctx, func(q querier) error {
		for name, query := range map[string]string{"changed": changedQuery, "watched": watchedQuery, "backlog": backlogQuery} {
			err := q.each(ctx, `EXPLAIN QUERY PLAN `+query, nil, func(r row) error {
				plans[name] = append(plans[name], fmt.Sprint(r.values[3]))
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return plans, err
}

// OutboxPragma reads a setting of the Outbox's connection.
func (o *Outbox) OutboxPragma(ctx context.Context, name string) (v string, err error) {
	var value any
	err = o.read(ctx, func(q querier) error { return q.queryRow(ctx, `PRAGMA `+name, nil, &value) })
	return fmt.Sprint(value), err
}

// OutboxExec runs a statement on the Outbox's connection.
func (o *Outbox) OutboxExec(ctx context.Context, query string, args ...any) error {
	return o.tx(ctx, "test", func(ctx context.Context) error { return o.conn.exec(ctx, query, args...) })
}

// TakeOut removes delivered sessions from the outbox, as Changed does.
func (o *Outbox) TakeOut(ctx context.Context, _ int64) error { return o.removeDelivered(ctx) }

// DeliveredRows is how many delivered sessions may stay in the outbox.
const DeliveredRows = deliveredRows

// OutboxFrames is how many pages the log has before an Outbox copies it back.
const OutboxFrames = outboxFrames

// Truncate copies the log into the database and empties it, unless a reader needs it.
func (s *Store) Truncate(ctx context.Context) (busy bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var log, copied int
	err = s.wr.handle.queryRow(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`, nil, &busy, &log, &copied)
	return busy, err
}

// PagesWritten returns how many pages the connection that writes has written since it was
// opened.
func (s *Store) PagesWritten(ctx context.Context) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, _, err = s.wr.conn.(sqlite.DBStatus).Status(sqlite.DBStatusCacheWrite, false)
	return n, err
}

// WithMigration adds the migration in file to the schema of new stores. sum is the digest
// of the resulting schema.
func WithMigration(o Options, file, sum string) Options {
	files := fstest.MapFS{}
	names, err := fs.Glob(migrations.SQLite(), "*.sql")
	if err != nil {
		panic(err)
	}
	for _, name := range names {
		b, err := fs.ReadFile(migrations.SQLite(), name)
		if err != nil {
			panic(err)
		}
		files[name] = &fstest.MapFile{Data: b}
	}
	version := migrations.SQLiteVersion + 1
	files[fmt.Sprintf("%04d_synthetic.sql", version)] = &fstest.MapFile{Data: []byte(file)}
	o.schema = &schema{files, version, sum}
	return o
}

// Retime changes times of a session's events and signs everything again, as only a
// program with the key can.
func (s *Store) Retime(ctx context.Context, id session.ID, times map[uint64]int64) error {
	row, err := readSession(ctx, s.wr.handle, id)
	if err != nil {
		return err
	}
	if err := errors.Join(readProjections(ctx, s.wr.handle, row, nil), s.wr.handle.exec(ctx, `DROP TRIGGER events_update`)); err != nil {
		return err
	}
	events, err := readEvents(ctx, s.wr.handle, row.no, id, 0, tailBatch)
	if err != nil {
		return err
	}
	sess, c := row.sess, row.commit
	sess.Head = session.Hash{}
	for _, e := range events {
		if us, ok := times[e.Seq]; ok {
			e.TimeUS = us
		}
		sess.Head = e.ChainHash(sess.Head)
		if err := s.wr.handle.exec(ctx, `UPDATE events SET time_us = ?, hash = ? WHERE pos = ?`, e.TimeUS, sess.Head[:], position(row.no, e.Seq)); err != nil {
			return err
		}
	}
	c.Head, c.Row = sess.Head, newDigests(s.keys, id).row(sess)
	c.HMAC = s.keys.sign(c.Signed())
	err = s.wr.handle.exec(ctx, `UPDATE sessions SET head = ?, row_digest = ?, hmac = ? WHERE no = ?`, c.Head[:], c.Row[:], c.HMAC[:], row.no)
	return errors.Join(err, os.Remove(headPath(s.opts.Home, id)), s.wr.handle.exec(ctx, `CREATE TRIGGER events_update BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END`))
}
