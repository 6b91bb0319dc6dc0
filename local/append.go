package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/acode-dev/acode/session"
)

// Append commits drafts and all staged content in one transaction and applies the events
// to Session. When it returns nil, the events are durable, and each receipt has its
// checkpoint (FR-017). The whole commit costs one sync of the log.
//
// Append is idempotent for receipts. If an attempt was completed before with an equal
// payload, Append changes nothing and returns the first event (FR-031). With another
// payload it returns ErrConflict.
//
// Append returns ErrFenced when another process took the session over. After a failed
// write the outcome is unknown, and every later call returns the same error until
// Recover.
func (w *Writer) Append(ctx context.Context, drafts ...session.Draft) ([]session.Event, error) {
	return w.AppendAnswering(ctx, 0, drafts...)
}

// AppendAnswering is Append, and also removes the request with id requestID in the same
// transaction. A requestID of 0 removes none.
func (w *Writer) AppendAnswering(ctx context.Context, requestID int64, drafts ...session.Draft) ([]session.Event, error) {
	w.st.mu.Lock()
	defer w.st.mu.Unlock()
	if err := w.usable(ctx); err != nil {
		return nil, err
	}
	return w.append(ctx, requestID, drafts)
}

func (w *Writer) append(ctx context.Context, requestID int64, drafts []session.Draft) ([]session.Event, error) {
	b, err := w.batchOf(ctx, drafts)
	if err != nil {
		return nil, w.failed(ctx, err, false)
	}
	b.answers = requestID
	w.before = session.Commit{Epoch: w.sess.Epoch, LastSeq: w.sess.LastSeq, Head: w.sess.Head}
	if requestID == 0 && len(w.pending) == 0 && !slices.ContainsFunc(b.ps, func(p prepared) bool { return p.stored == nil }) {
		for _, p := range b.ps {
			b.events = append(b.events, *p.stored)
		}
		return b.events, nil
	}
	if err := w.st.wr.tx(ctx, b.run); err != nil {
		return nil, w.failed(ctx, appendError(err), b.touched)
	}
	w.no, w.pending = b.no, nil
	w.st.wr.left(w, b)
	if b.touched {
		w.writeHead(b.commit)
	}
	return b.events, nil
}

// appendError is storeError for a commit. It does not claim that nothing was changed,
// because earlier commits of this session may have executed steps.
func appendError(err error) error {
	err = storeError("append", err)
	var e *session.Error
	if errors.As(err, &e) && e.Code == session.ErrCorrupt && resultCode(e.Cause) != 0 {
		e.Message = "the store is damaged and cannot be written; committed events are kept as far as they can be read"
	}
	return err
}

// failed decides whether the writer is usable after err. After a refusal, failed reads
// the session again, because the drafts may have been applied in part.
func (w *Writer) failed(ctx context.Context, err error, touched bool) error {
	var unknown *commitError
	if errors.As(err, &unknown) || fatal(err) {
		w.broken = err
		return err
	}
	if touched && w.no != 0 {
		if rerr := w.reload(context.WithoutCancel(ctx)); rerr != nil {
			w.broken = errors.Join(err, rerr)
		}
	}
	return err
}

// reload reads the state from the projections again. It changes the session in place,
// because callers hold the pointer. The state must be the one that the refused batch
// began with. Otherwise another process took the session over, and reload returns
// ErrFenced.
func (w *Writer) reload(ctx context.Context) error {
	return w.read(ctx, func(q querier) error {
		row, err := readSession(ctx, q, w.sess.ID)
		if err != nil {
			return err
		}
		sums := newDigests(w.st.keys, w.sess.ID)
		if err := readProjections(ctx, q, row, sums); err != nil {
			return err
		}
		if now := (session.Commit{Epoch: row.sess.Epoch, LastSeq: row.sess.LastSeq, Head: row.sess.Head}); now != w.before {
			return &session.Error{Code: session.ErrFenced, Message: "another process took the session over; nothing was written", Place: string(w.sess.ID), Next: session.Do(session.MoveStatus, w.sess.Short)}
		}
		*w.sess, w.sums = *row.sess, sums
		return nil
	})
}

// The statements of a commit.
const (
	insertEvent   = `INSERT INTO events (pos, id, time_us, type, actor, epoch, hash, checkpoint, payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
	updateSession = `UPDATE sessions SET last_seq = ?, last_us = ?, done = ?, calls = ?, head = ?, row_digest = ?, steps = ?, files = ?, key_id = ?, hmac = ? WHERE no = ?`
	updateWhole   = `UPDATE sessions SET plan = ?, plan_bytes = ?, plan_sealed = ?, tasks = ?, step_total = ?, state = ?, left_state = ?, reason = ?, detail = ?, workspace = ?, config = ?, epoch = ?, device = ?, manifest = ?, git = ?, inputs = ?, learnt = ?, rules = ?,
		last_seq = ?, last_us = ?, done = ?, calls = ?, head = ?, row_digest = ?, steps = ?, files = ?, key_id = ?, hmac = ? WHERE no = ?`
	insertSession = `INSERT INTO sessions (plan, plan_bytes, plan_sealed, tasks, step_total, state, left_state, reason, detail, workspace, config, epoch, device, manifest, git, inputs, learnt, rules,
			last_seq, last_us, done, calls, head, row_digest, steps, files, key_id, hmac, no, id, short, task, on_failure, created_us)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	writeStep = `INSERT INTO steps (pos, task, step, status, attempt, key, start_seq, last_seq, started_us, ended_us, code, message, capture, approval, held, talk)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (pos) DO UPDATE SET status = excluded.status, attempt = excluded.attempt, key = excluded.key, start_seq = excluded.start_seq,
			last_seq = excluded.last_seq, started_us = excluded.started_us, ended_us = excluded.ended_us, code = excluded.code, message = excluded.message,
			capture = excluded.capture, approval = excluded.approval, held = excluded.held, talk = excluded.talk`
	writeOperation = `INSERT INTO operations (session_no, task, step, op, tool, digest, status, attempt, start_seq, last_seq, started_us, ended_us, code, message)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (session_no, task, step, op) DO UPDATE SET status = excluded.status, attempt = excluded.attempt, start_seq = excluded.start_seq,
			last_seq = excluded.last_seq, started_us = excluded.started_us, ended_us = excluded.ended_us, code = excluded.code, message = excluded.message`
	deleteOperation = `DELETE FROM operations WHERE session_no = ? AND task = ? AND step = ? AND op = ?`
	writeFile       = `INSERT INTO files (pos, path, hash, size, mode, mtime_ns, ctime_ns, inode, racy, wrote) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (pos) DO UPDATE SET hash = excluded.hash, size = excluded.size, mode = excluded.mode, mtime_ns = excluded.mtime_ns,
			ctime_ns = excluded.ctime_ns, inode = excluded.inode, racy = excluded.racy, wrote = excluded.wrote`
	deleteFile = `DELETE FROM files WHERE pos = ?`

	// nextSession does not reuse a number whose session is gone while other tables still
	// have rows with that number.
	nextSession = `SELECT ` + storeClock + `, max(coalesce(max(no), 0), (SELECT coalesce(max(pos) >> 40, 0) FROM events),
		(SELECT coalesce(max(pos) >> 32, 0) FROM steps), (SELECT coalesce(max(pos) >> 32, 0) FROM files)) + 1 FROM sessions`

	// storeClock is the latest time of any session. Usually sync.turn holds the number of
	// the session that committed last, and its time is the latest one. To look at all
	// sessions would make each step slower the more sessions there are. storeClock looks
	// at all sessions only when the turn names none.
	storeClock = `coalesce((SELECT last_us FROM sessions WHERE no = (SELECT turn FROM sync)), (SELECT max(last_us) FROM sessions), 0)`

	// readFence returns the store's clock, and the epoch, last seq and head of the
	// session. The clock is never behind the session's own time, even if the turn is
	// wrong.
	readFence = `SELECT max(last_us, ` + storeClock + `), epoch, last_seq, head FROM sessions WHERE no = ?`

	insertOutbox = `INSERT OR IGNORE INTO outbox (session_no) VALUES (?)`
	updateTurn   = `UPDATE sync SET turn = ?1 WHERE turn <> ?1`
)

// batch is one transaction of a writer.
type batch struct {
	w  *Writer
	c  *writeConn
	ps []prepared
	// id of the request that the drafts answer; 0 for none
	answers int64
	no      int64
	// time of the newest event in the store
	lastUS int64
	events []session.Event
	// steps, operations and files whose rows must be written, in the order of the events
	steps []session.StepID
	ops   []session.StepID
	files []string
	// columns changed that not every commit changes
	scalars bool
	// events were applied
	touched bool
	// a process took the session over
	acquired bool
	// no other writer committed since this writer did
	alone  bool
	commit session.Commit
}

func (w *Writer) batchOf(ctx context.Context, drafts []session.Draft) (*batch, error) {
	b := &batch{w: w, c: w.st.wr, no: w.no}
	for _, d := range drafts {
		p, err := w.prepare(ctx, d)
		if err != nil {
			return nil, err
		}
		b.ps = append(b.ps, p)
	}
	return b, nil
}

func (b *batch) run(ctx context.Context) error {
	if err := b.fence(ctx); err != nil {
		return err
	}
	for _, p := range b.ps {
		if p.stored != nil {
			b.events = append(b.events, *p.stored)
			continue
		}
		if err := b.add(ctx, p); err != nil {
			return err
		}
	}
	for _, p := range b.w.pending {
		if err := b.insertBlob(ctx, p); err != nil {
			return err
		}
	}
	if b.answers != 0 {
		if err := b.c.exec(ctx, `DELETE FROM requests WHERE id = ? AND session_no = ?`, b.answers, b.no); err != nil {
			return err
		}
	}
	if b.touched {
		if err := b.project(ctx); err != nil {
			return err
		}
	}
	if b.alone || !b.touched {
		return nil
	}
	// A drainer may have taken the session out of the outbox, and another writer may have
	// the turn.
	if err := b.c.exec(ctx, insertOutbox, b.no); err != nil {
		return err
	}
	return b.c.exec(ctx, updateTurn, b.no)
}

// fence returns an error unless the session is as this writer left it. It also reads the
// store's clock, which is the latest time of any session. If no other writer committed
// since this writer did, fence reads nothing.
func (b *batch) fence(ctx context.Context) error {
	if b.no == 0 {
		err := b.c.queryRow(ctx, nextSession, nil, &b.lastUS, &b.no)
		return rowError("read clock", b.w.sess.ID, err)
	}
	if b.lastUS, b.alone = b.c.asLeft(b.w); b.alone {
		return nil
	}
	var epoch, seq uint64
	var head session.Hash
	err := b.c.queryRow(ctx, readFence, []any{b.no}, &b.lastUS, &epoch, &seq, &head)
	if err != nil {
		return rowError("read session", b.w.sess.ID, err)
	}
	s := b.w.sess
	if epoch != s.Epoch || seq != s.LastSeq || head != s.Head {
		return fenced(s, epoch, s.Epoch)
	}
	return nil
}

// defaultActor is the actor of a draft that names none.
const defaultActor = "acode"

// add turns a draft into the next event of the session, applies the event and stores it.
func (b *batch) add(ctx context.Context, p prepared) error {
	s := b.w.sess
	b.lastUS = max(b.w.st.opts.Now().UnixMicro(), b.lastUS+1)
	e := session.Event{Session: s.ID, Seq: s.LastSeq + 1, TimeUS: b.lastUS, Type: p.draft.Type, Actor: p.draft.Actor, Epoch: s.Epoch, Payload: p.payload, Full: p.full}
	if e.Actor == "" {
		e.Actor = defaultActor
	}
	if e.Type == session.ExecutionAcquired {
		e.Epoch++
		b.acquired = true
	}
	var err error
	if e.ID, err = newUUID(e.TimeUS); err != nil {
		return err
	}
	e.Hash = e.ChainHash(s.Head)
	b.touched = true
	delta, err := s.ApplyData(e, p.data)
	if err != nil {
		return err
	}
	b.w.sums.apply(s, delta)
	b.steps, b.ops, b.files = append(b.steps, delta.Steps...), append(b.ops, delta.Ops...), append(b.files, delta.Files...)
	switch e.Type {
	case session.SessionCreated, session.StateChanged, session.ExecutionAcquired, session.InputsChanged:
		b.scalars = true
	default:
		b.scalars = b.scalars || delta.Manifest || delta.Learnt || delta.Scalars
	}
	var checkpoint any
	if e.Type.Receipt() || e.Type == session.CheckpointCreated {
		c := checkpointOf(b.w.st.keys, s, b.w.sums, e, delta)
		checkpoint = encodeCheckpoint(c, b.w.st.row.keyID, p.full == nil && e.Type.Receipt())
	}
	b.events = append(b.events, e)
	return b.c.exec(ctx, insertEvent, position(b.no, e.Seq), e.ID[:], e.TimeUS, string(e.Type), unless(e.Actor, defaultActor), int64(e.Epoch),
		e.Hash[:], checkpoint, string(e.Payload))
}

// checkpointOf returns the checkpoint that belongs to e, the event that s has just
// applied.
func checkpointOf(k *keys, s *session.Session, sums *digests, e session.Event, d session.Delta) session.Checkpoint {
	c := session.Checkpoint{
		Session: s.ID, Seq: e.Seq, State: s.State, Epoch: e.Epoch, Steps: sums.steps.sum, Files: sums.files.sum,
		Plan: s.Plan.Hash, Head: e.Hash, KeyID: k.id, Cursor: d.Cursor,
	}
	c.HMAC = k.sign(c.Signed())
	return c
}

func (b *batch) insertBlob(ctx context.Context, p pendingBlob) error {
	return b.c.exec(ctx, `INSERT INTO blobs (hash, bytes, codec, key_id, data) VALUES (?, ?, ?, ?, ?) ON CONFLICT (hash) DO NOTHING`,
		p.name[:], p.bytes, p.codec, nullable(p.keyID), p.data)
}

// Recover lets the caller try once more after Append failed because the disk is full. It
// deletes the ballast, opens the store again and reads the session again, because the
// last commit may have succeeded. The other writers of this store must be recovered too.
func (w *Writer) Recover(ctx context.Context) error {
	w.st.mu.Lock()
	defer w.st.mu.Unlock()
	if w.broken == nil {
		return nil
	}
	if code := session.CodeOf(w.broken); code != session.ErrDiskFull {
		return w.broken
	}
	_ = os.Remove(filepath.Join(w.st.opts.Home, "ballast")) // another writer may have removed it
	if err := w.st.reopen(ctx); err != nil {
		return err
	}
	epoch, seq := w.sess.Epoch, w.sess.LastSeq
	fresh := &loader{ctx: ctx, q: w.st.wr.handle, k: w.st.keys, id: w.sess.ID}
	if err := fresh.run(w.st.opts.Home); err != nil {
		return err
	}
	if s := fresh.row.sess; s.Epoch > epoch || s.Epoch == epoch && s.LastSeq > seq {
		return fenced(s, s.Epoch, epoch)
	}
	*w.sess, w.sums, w.broken = *fresh.row.sess, fresh.sums, nil
	return nil
}

// reopen replaces the connection that writes. An error from closing the old connection
// does not matter and is ignored.
func (s *Store) reopen(ctx context.Context) error {
	if s.wr != nil {
		_ = s.wr.close()
		s.wr = nil
	}
	wr, err := openWriteConn(s.opts.Home)
	if err != nil {
		return err
	}
	s.wr = wr
	// If the disk has no room to copy the log into the database, the log stays and
	// remains valid. Any other error means that a sync failed.
	wr.restarted = true
	if err := wr.restart(ctx); err != nil && !errors.Is(err, session.ErrDiskFull) {
		return err
	}
	row, err := readStoreRow(ctx, wr.handle)
	if err != nil {
		return storeError("read store", err)
	}
	s.row = row
	return nil
}
