package local

import (
	"context"
	"errors"
	"fmt"

	"github.com/acode-dev/acode/session"
)

// Append commits drafts and whatever Stage holds in one transaction and applies them to
// Session. When it returns nil they are durable, each receipt with its checkpoint (FR-017),
// for one sync of the log. Completing an attempt twice with an equal payload changes nothing
// and gives the first event (FR-031), with another payload it returns ErrConflict. It returns
// ErrFenced when another process took the session over. After a failed write the outcome is
// unknown, and every later call returns the same error until Recover.
func (w *Writer) Append(ctx context.Context, drafts ...session.Draft) ([]session.Event, error) {
	return w.AppendAnswering(ctx, 0, drafts...)
}

// AppendAnswering is Append that removes the request which drafts answer in the same
// transaction. requestID 0 answers none.
func (w *Writer) AppendAnswering(ctx context.Context, requestID int64, drafts ...session.Draft) ([]session.Event, error) {
	w.st.mu.Lock()
	defer w.st.mu.Unlock()
	if err := w.usable(ctx); err != nil {
		return nil, err
	}
	return w.append(ctx, requestID, drafts)
}

func (w *Writer) append(ctx context.Context, requestID int64, drafts []session.Draft) ([]session.Event, error) {
	ps := make([]prepared, 0, len(drafts))
	work := requestID != 0 || len(w.pending) > 0
	for _, d := range drafts {
		p, err := w.prepare(ctx, d)
		if err != nil {
			return nil, w.failed(ctx, err, false)
		}
		work = work || p.stored == nil
		ps = append(ps, p)
	}
	b := &batch{w: w, c: w.st.wr}
	if !work {
		return b.stored(ps), nil
	}
	if err := w.st.wr.tx(ctx, func(ctx context.Context) error { return b.run(ctx, ps, requestID) }); err != nil {
		return nil, w.failed(ctx, storeError("append", err), b.touched)
	}
	w.no, w.pending = b.no, nil
	w.st.row.lastUS = b.lastUS
	if b.touched {
		w.writeHead(b.commit)
	}
	return b.events, nil
}

// failed decides what an error leaves of the writer. A refusal leaves it as it was before,
// read again because the drafts may have been applied in part.
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

// reload takes the state from the projections again, in place: others hold the pointer.
func (w *Writer) reload(ctx context.Context) error {
	return w.query(ctx, func(q querier) error {
		row, err := readSession(ctx, q, w.sess.ID)
		if err != nil {
			return err
		}
		if err := readProjections(ctx, q, row); err != nil {
			return err
		}
		*w.sess = *row.sess
		w.sums = newDigests(w.st.keys, w.sess.ID)
		w.sums.all(w.sess)
		return nil
	})
}

// batch is one transaction of a writer.
type batch struct {
	w       *Writer
	c       *writeConn
	no      int64
	lastUS  int64 // of the store
	events  []session.Event
	steps   map[session.StepID]bool
	files   map[string]bool
	scalars bool // more of the session's row changed than what every commit changes
	touched bool // events were applied
	commit  session.Commit
}

func (b *batch) stored(ps []prepared) []session.Event {
	for _, p := range ps {
		b.events = append(b.events, *p.stored)
	}
	return b.events
}

func (b *batch) run(ctx context.Context, ps []prepared, requestID int64) error {
	b.steps, b.files = map[session.StepID]bool{}, map[string]bool{}
	b.no = b.w.no
	if err := b.fence(ctx); err != nil {
		return err
	}
	for _, p := range ps {
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
	if requestID != 0 {
		if err := b.c.exec(ctx, `DELETE FROM requests WHERE id = ? AND session_no = ?`, requestID, b.no); err != nil {
			return err
		}
	}
	if !b.touched {
		return nil
	}
	return b.project(ctx)
}

// fence checks that the session is as this writer left it, and reads the store's clock.
func (b *batch) fence(ctx context.Context) error {
	if b.no == 0 {
		return b.c.queryRow(ctx, `SELECT last_us, (SELECT coalesce(max(no), 0) + 1 FROM sessions) FROM store WHERE one = 1`, nil, &b.lastUS, &b.no)
	}
	var epoch, seq uint64
	var head []byte
	err := b.c.queryRow(ctx, `SELECT st.last_us, se.epoch, se.last_seq, se.head FROM store st, sessions se WHERE st.one = 1 AND se.no = ?`,
		[]any{b.no}, &b.lastUS, &epoch, &seq, &head)
	if err != nil {
		return err
	}
	s := b.w.sess
	if epoch != s.Epoch || seq != s.LastSeq || hash32(head) != s.Head {
		return fenced(epoch, s.Epoch)
	}
	return nil
}

// defaultActor acts where a draft names nobody.
const defaultActor = "acode"

// add gives a draft its id, seq, time, epoch and hash, applies and stores it.
func (b *batch) add(ctx context.Context, p prepared) error {
	s := b.w.sess
	b.lastUS = max(b.w.st.opts.Now().UnixMicro(), b.lastUS+1)
	e := session.Event{Session: s.ID, Seq: s.LastSeq + 1, TimeUS: b.lastUS, Type: p.draft.Type, Actor: p.draft.Actor, Epoch: s.Epoch, Payload: p.payload, Full: p.full}
	if e.Actor == "" {
		e.Actor = defaultActor
	}
	if e.Type == session.ExecutionAcquired {
		e.Epoch++
	}
	var err error
	if e.ID, err = newUUID(e.TimeUS); err != nil {
		return err
	}
	e.Hash = e.ChainHash(s.Head)
	b.touched = true
	delta, err := s.Apply(e)
	if err != nil {
		return err
	}
	b.w.sums.apply(s, delta)
	b.note(e, delta)
	err = b.c.exec(ctx, `INSERT INTO events (pos, id, time_us, type, actor, epoch, payload, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		position(b.no, e.Seq), e.ID[:], e.TimeUS, string(e.Type), unless(e.Actor, defaultActor), int64(e.Epoch), string(e.Payload), e.Hash[:])
	if err != nil {
		return err
	}
	b.events = append(b.events, e)
	if e.Type.Receipt() || e.Type == session.CheckpointCreated {
		return b.checkpoint(ctx, p, e, delta)
	}
	return nil
}

func (b *batch) note(e session.Event, d session.Delta) {
	for _, id := range d.Steps {
		b.steps[id] = true
	}
	for _, path := range d.Files {
		b.files[path] = true
	}
	switch e.Type {
	case session.SessionCreated, session.StateChanged, session.ExecutionAcquired:
		b.scalars = true
	}
}

// checkpointOf is the checkpoint that goes with e, the event that s has just applied.
func checkpointOf(k *keys, s *session.Session, sums *digests, e session.Event, d session.Delta) session.Checkpoint {
	c := session.Checkpoint{
		Session: s.ID, Seq: e.Seq, State: s.State, Epoch: e.Epoch, Steps: sums.steps, Files: sums.files,
		Plan: s.Plan.Hash, Head: e.Hash, KeyID: k.id,
	}
	if e.Type.Receipt() && len(d.Steps) > 0 {
		c.Cursor = d.Steps[0]
	}
	c.HMAC = k.sign(c.Signed())
	return c
}

// wholeEvery is how many checkpoints may rely on one before them for their files, so that
// reading one never searches far.
const wholeEvery = 64

func (b *batch) checkpoint(ctx context.Context, p prepared, e session.Event, d session.Delta) error {
	w := b.w
	c := checkpointOf(w.st.keys, w.sess, w.sums, e, d)
	var task, step, files any
	if p.full != nil || !e.Type.Receipt() {
		task, step = c.Cursor.Task, c.Cursor.Step
	}
	if w.leaning == 0 || w.leaning >= wholeEvery || c.Files != w.leanOn {
		files, w.leaning, w.leanOn = digestBytes(c.Files), 0, c.Files
	}
	w.leaning++
	return b.c.exec(ctx, `INSERT INTO checkpoints (pos, task, step, state, steps, files, key_id, hmac) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		position(b.no, c.Seq), task, step, unless(string(c.State), string(session.Executing)), digestBytes(c.Steps), files,
		unless(c.KeyID, w.st.row.keyID), c.HMAC[:])
}

// digestBytes leaves the digest of no rows out.
func digestBytes(h session.Hash) []byte {
	if h == (session.Hash{}) {
		return []byte{}
	}
	return h[:]
}

func (b *batch) insertBlob(ctx context.Context, p pendingBlob) error {
	var keyID any
	if p.keyID != "" {
		keyID = p.keyID
	}
	return b.c.exec(ctx, `INSERT INTO blobs (hash, bytes, codec, key_id, data) VALUES (?, ?, ?, ?, ?) ON CONFLICT (hash) DO NOTHING`,
		p.name[:], p.bytes, p.codec, keyID, p.data)
}

// project writes the rows that the events changed, then signs the commit.
func (b *batch) project(ctx context.Context) error {
	s, sums := b.w.sess, b.w.sums
	c := session.Commit{Session: s.ID, LastSeq: s.LastSeq, Head: s.Head, Epoch: s.Epoch, Row: sums.row(s), Steps: sums.steps, Files: sums.files, KeyID: b.w.st.keys.id}
	c.HMAC = b.w.st.keys.sign(c.Signed())
	b.commit = c
	if err := b.projectSession(ctx, c); err != nil {
		return err
	}
	for id := range b.steps {
		if err := b.projectStep(ctx, s.Steps[id]); err != nil {
			return err
		}
	}
	for path := range b.files {
		if err := b.projectFile(ctx, s.Files[path]); err != nil {
			return err
		}
	}
	row := b.w.st.row
	row.lastUS = b.lastUS
	sum := b.w.st.keys.sign(row.signed())
	return b.c.exec(ctx, `UPDATE store SET last_us = ?, hmac = ? WHERE one = 1`, b.lastUS, sum[:])
}

func (b *batch) projectSession(ctx context.Context, c session.Commit) error {
	s := b.w.sess
	if !b.scalars {
		return b.c.exec(ctx, `UPDATE sessions SET last_seq = ?, last_us = ?, done = ?, head = ?, row_digest = ?, steps = ?, files = ?, key_id = ?, hmac = ? WHERE no = ?`,
			int64(s.LastSeq), s.LastUS, s.Done, s.Head[:], c.Row[:], c.Steps[:], c.Files[:], c.KeyID, c.HMAC[:], b.no)
	}
	return b.c.exec(ctx, `INSERT INTO sessions (no, id, short, task, workspace, plan, plan_bytes, plan_sealed, tasks, step_total, on_failure, config,
			state, left_state, reason, detail, epoch, device, manifest, git, last_seq, last_us, created_us, done, head, row_digest, steps, files, key_id, hmac)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (no) DO UPDATE SET workspace = excluded.workspace, config = excluded.config, state = excluded.state, left_state = excluded.left_state,
			reason = excluded.reason, detail = excluded.detail, epoch = excluded.epoch, device = excluded.device, manifest = excluded.manifest, git = excluded.git,
			last_seq = excluded.last_seq, last_us = excluded.last_us, done = excluded.done, head = excluded.head, row_digest = excluded.row_digest,
			steps = excluded.steps, files = excluded.files, key_id = excluded.key_id, hmac = excluded.hmac`,
		b.no, string(s.ID), s.Short, s.Task, s.Workspace, s.Plan.Hash, s.Plan.Bytes, s.Plan.Sealed, s.Tasks, s.StepTotal, string(s.OnFailure), s.Config,
		string(s.State), string(s.Left), string(s.Reason), s.Detail, int64(s.Epoch), s.Device, s.Manifest, s.Git, int64(s.LastSeq), s.LastUS, s.CreatedUS, s.Done,
		s.Head[:], c.Row[:], c.Steps[:], c.Files[:], c.KeyID, c.HMAC[:])
}

func (b *batch) projectStep(ctx context.Context, st *session.StepState) error {
	key := nullable(st.Key)
	if st.Key == mainKey(b.w.sess.ID, st) {
		key = nil
	} else if st.Key == "" {
		key = ""
	}
	return b.c.exec(ctx, `INSERT INTO steps (session_no, task, step, status, attempt, key, start_seq, last_seq, started_us, ended_us, code, message, capture, approval)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (session_no, task, step) DO UPDATE SET status = excluded.status, attempt = excluded.attempt, key = excluded.key, start_seq = excluded.start_seq,
			last_seq = excluded.last_seq, started_us = excluded.started_us, ended_us = excluded.ended_us, code = excluded.code, message = excluded.message,
			capture = excluded.capture, approval = excluded.approval`,
		b.no, st.Task, st.Step, string(st.Status), st.Attempt, key, int64(st.StartSeq), int64(st.LastSeq), st.StartedUS, st.EndedUS,
		nullable(string(st.Code)), nullable(st.Message), nullable(optional(st.Capture)), nullable(optional(st.Approval)))
}

func (b *batch) projectFile(ctx context.Context, f *session.FileState) error {
	return b.c.exec(ctx, `INSERT INTO files (session_no, path, hash, size, mode, mtime_ns, ctime_ns, inode, racy, wrote) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (session_no, path) DO UPDATE SET hash = excluded.hash, size = excluded.size, mode = excluded.mode, mtime_ns = excluded.mtime_ns,
			ctime_ns = excluded.ctime_ns, inode = excluded.inode, racy = excluded.racy, wrote = excluded.wrote`,
		b.no, f.Path, f.Hash, f.Size, f.Mode, f.MTimeNS, f.CTimeNS, int64(f.Inode), f.Racy, f.Wrote)
}

func nullable(s string) any { return unless(s, "") }

// unless leaves out what is the rule.
func unless(s, rule string) any {
	if s == rule {
		return nil
	}
	return s
}

// Ask leaves a request for the process that holds the session. It is no event.
func (s *Store) Ask(ctx context.Context, r session.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wr == nil {
		return readOnly()
	}
	r, err := s.redactRequest(r)
	if err != nil {
		return err
	}
	err = s.wr.tx(ctx, func(ctx context.Context) error {
		var no int64
		row, err := readSession(ctx, s.wr.conn, r.Session)
		if err != nil {
			return err
		}
		no = row.no
		sum := s.keys.sign(requestRow(r))
		return s.wr.exec(ctx, `INSERT INTO requests (session_no, kind, task, step, digest, reason, by, mac) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			no, string(r.Kind), r.Step.Task, r.Step.Step, r.Digest, r.Reason, r.By, sum[:])
	})
	if err != nil {
		return storeError("ask", err)
	}
	return nil
}

func requestRow(r session.Request) []byte {
	return texts([]byte("acode-request-v1\x00"), string(r.Session), string(r.Kind), r.Step.Task, r.Step.Step, r.Digest, r.Reason, r.By)
}

// Requests lists what others asked of this process, oldest first. One that acode did not
// write is an error.
func (w *Writer) Requests(ctx context.Context) ([]session.Request, error) {
	w.st.mu.Lock()
	defer w.st.mu.Unlock()
	var out []session.Request
	err := w.query(ctx, func(q querier) (err error) {
		out, err = readRequests(ctx, q, w.st.keys, w.no, w.sess.ID)
		return err
	})
	return out, err
}

func readRequests(ctx context.Context, q querier, k *keys, no int64, id session.ID) ([]session.Request, error) {
	rows, err := q.QueryContext(ctx, `SELECT id, kind, task, step, digest, reason, by, mac FROM requests WHERE session_no = ? ORDER BY id`, no)
	if err != nil {
		return nil, storeError("read requests", err)
	}
	defer rows.Close()
	var out []session.Request
	for rows.Next() {
		r := session.Request{Session: id}
		var sum []byte
		if err := rows.Scan(&r.ID, &r.Kind, &r.Step.Task, &r.Step.Step, &r.Digest, &r.Reason, &r.By, &sum); err != nil {
			return out, rowError("read request", id, err)
		}
		if !sameHash(hash32(sum), k.sign(requestRow(r))) {
			return out, &session.Error{Code: session.ErrTampered, Message: "a request is not what was signed", Place: fmt.Sprintf("request %d", r.ID), Next: "acode verify " + string(id)}
		}
		out = append(out, r)
	}
	return out, storeError("read requests", rows.Err())
}
