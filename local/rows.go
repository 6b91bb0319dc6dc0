package local

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/acode-dev/acode/session"
)

// position packs a session's number and a seq into the key of events.
func position(no int64, seq uint64) int64 { return no<<40 | int64(seq) }

const seqMask = 1<<40 - 1

// rowPosition packs a session's number and a row's number into the key of steps and
// files.
func rowPosition(no, n int64) int64 { return no<<32 | n }

const rowMask = 1<<32 - 1

// sessionRecord is a row of sessions: the state without steps and files, and its
// signature.
type sessionRecord struct {
	no     int64
	sess   *session.Session
	commit session.Commit
}

func readSession(ctx context.Context, q querier, id session.ID) (*sessionRecord, error) {
	r := &sessionRecord{sess: &session.Session{Steps: map[session.StepID]*session.StepState{}, Files: map[string]*session.FileState{}}}
	s, c := r.sess, &r.commit
	err := q.queryRow(ctx, `SELECT no, id, short, task, workspace, plan, plan_bytes, plan_sealed, tasks, step_total, on_failure, config,
		state, left_state, reason, detail, epoch, device, manifest, git, inputs, learnt, rules, last_seq, last_us, created_us, done, calls,
		head, row_digest, steps, files, key_id, hmac FROM sessions WHERE id = ?`, []any{string(id)},
		&r.no, &s.ID, &s.Short, &s.Task, &s.Workspace, &s.Plan.Hash, &s.Plan.Bytes, &s.Plan.Sealed, &s.Tasks, &s.StepTotal, &s.OnFailure, &s.Config,
		&s.State, &s.Left, &s.Reason, &s.Detail, &s.Epoch, &s.Device, &s.Manifest, &s.Git, &s.Inputs, &s.Learnt, &s.Rules, &s.LastSeq, &s.LastUS, &s.CreatedUS, &s.Done, &s.Calls,
		&s.Head, &c.Row, &c.Steps, &c.Files, &c.KeyID, &c.HMAC)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, unknown(string(id))
	}
	if err != nil {
		return nil, rowError("read session", id, err)
	}
	c.Session, c.LastSeq, c.Head, c.Epoch = s.ID, s.LastSeq, s.Head, s.Epoch
	return r, nil
}

// rowError returns the error for a row that could not be read. If SQLite returned the row
// and Go could not convert it, acode did not write its values, and the code is
// ErrCorrupt.
func rowError(doing string, id session.ID, err error) error {
	if err == nil {
		return nil
	}
	mapped := storeError(doing, err)
	var known *session.Error
	if errors.As(mapped, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return mapped
	}
	return &session.Error{Code: session.ErrCorrupt, Message: "a row of the session is unreadable; nothing was changed", Next: session.Do(session.MoveVerify, string(id)), Cause: mapped}
}

// readProjections reads the rows of steps, operations and files into r, and their digests
// into d unless d is nil.
func readProjections(ctx context.Context, q querier, r *sessionRecord, d *digests) error {
	if err := readSteps(ctx, q, r, d); err != nil {
		return err
	}
	if r.sess.Calls > 0 || talks(r.sess) {
		if err := readOperations(ctx, q, r, d); err != nil {
			return err
		}
	}
	return readFiles(ctx, q, r, d)
}

// talks reports whether a step of s is or was a conversation with a model.
func talks(s *session.Session) bool {
	for _, st := range s.Steps {
		if st.Talk != nil {
			return true
		}
	}
	return false
}

func readSteps(ctx context.Context, q querier, r *sessionRecord, d *digests) error {
	return readRows(ctx, q, "read steps", r.sess.ID, `SELECT pos, task, step, status, attempt, key IS NULL, coalesce(key, ''), start_seq, last_seq, started_us, ended_us,
		coalesce(code, ''), coalesce(message, ''), coalesce(capture, ''), coalesce(approval, ''), coalesce(held, ''), coalesce(talk, '') FROM steps WHERE pos BETWEEN ? AND ?`, []any{rowPosition(r.no, 0), rowPosition(r.no, rowMask)}, func(row row) error {
		st := &session.StepState{}
		var pos int64
		var usual bool
		var capture, approval, held, talk string
		err := row.Scan(&pos, &st.Task, &st.Step, &st.Status, &st.Attempt, &usual, &st.Key, &st.StartSeq, &st.LastSeq, &st.StartedUS, &st.EndedUS,
			&st.Code, &st.Message, &capture, &approval, &held, &talk)
		if err != nil {
			return err
		}
		if usual {
			st.Key = mainKey(r.sess.ID, st)
		}
		if err := decodeOptional(capture, &st.Capture); err != nil {
			return err
		}
		if err := decodeOptional(approval, &st.Approval); err != nil {
			return err
		}
		if err := decodeOptional(talk, &st.Talk); err != nil {
			return err
		}
		if held != "" {
			all := &st.Held
			if err := decodeOptional(held, &all); err != nil {
				return err
			}
			st.Held = *all
		}
		if r.sess.Steps[st.StepID] != nil {
			return fmt.Errorf("two rows of %s", st.StepID)
		}
		r.sess.Steps[st.StepID] = st
		if d != nil {
			d.setStep(st, pos&rowMask)
		}
		return nil
	})
}

func readOperations(ctx context.Context, q querier, r *sessionRecord, d *digests) error {
	r.sess.Ops = map[session.StepID]*session.StepState{}
	return readRows(ctx, q, "read operations", r.sess.ID, `SELECT task, step, op, tool, digest, status, attempt, start_seq, last_seq, started_us, ended_us, code, message
		FROM operations WHERE session_no = ?`, []any{r.no}, func(row row) error {
		st := &session.StepState{}
		err := row.Scan(&st.Task, &st.Step, &st.Op, &st.Tool, &st.Digest, &st.Status, &st.Attempt, &st.StartSeq, &st.LastSeq, &st.StartedUS, &st.EndedUS, &st.Code, &st.Message)
		if err != nil {
			return err
		}
		st.Key = session.KeyOf(r.sess.ID, st.StepID, st.Attempt).String()
		r.sess.Ops[st.StepID] = st
		if d != nil {
			d.setOp(st.StepID, st)
		}
		return nil
	})
}

// mainKey returns the session.Key of nearly every step. A row leaves this key out.
func mainKey(id session.ID, st *session.StepState) string {
	return "v1:" + string(id) + ":" + st.Task + "/" + st.Step + "/" + session.OpMain + ":" + strconv.Itoa(st.Attempt)
}

// decodeOptional accepts only text that this program would write. encoding/json ignores
// the case of field names, so a damaged column could decode without error.
func decodeOptional[T any](column string, dst **T) error {
	if column == "" {
		return nil
	}
	*dst = new(T)
	if err := json.Unmarshal([]byte(column), *dst); err != nil {
		return fmt.Errorf("decode column: %w", err)
	}
	if optional(*dst) != column {
		return errors.New("decode column: acode would write it differently")
	}
	return nil
}

func readFiles(ctx context.Context, q querier, r *sessionRecord, d *digests) error {
	return readRows(ctx, q, "read files", r.sess.ID, `SELECT pos, path, hash, size, mode, mtime_ns, ctime_ns, inode, racy, wrote FROM files WHERE pos BETWEEN ? AND ?`,
		[]any{rowPosition(r.no, 0), rowPosition(r.no, rowMask)}, func(row row) error {
			f := &session.FileState{}
			var pos, inode int64
			if err := row.Scan(&pos, &f.Path, &f.Hash, &f.Size, &f.Mode, &f.MTimeNS, &f.CTimeNS, &inode, &f.Racy, &f.Wrote); err != nil {
				return err
			}
			if r.sess.Files[f.Path] != nil {
				return fmt.Errorf("two rows of %s", f.Path)
			}
			f.Inode = uint64(inode)
			r.sess.Files[f.Path] = f
			if d != nil {
				d.setFile(f, pos&rowMask)
			}
			return nil
		})
}

// eventsQuery selects a range of events. It reads payloads as bytes, because a text would
// be copied. It has no LIMIT with a parameter: SQLite prepares such a statement again
// each time.
const eventsQuery = `SELECT pos, id, time_us, type, coalesce(actor, 'acode'), epoch, CAST(payload AS BLOB), hash
	FROM events WHERE pos > ? AND pos <= ? ORDER BY pos`

func readEvents(ctx context.Context, q querier, no int64, id session.ID, after uint64, limit int) (out []session.Event, err error) {
	if limit <= 0 {
		return nil, nil
	}
	err = readRows(ctx, q, "read events", id, eventsQuery, []any{position(no, after), position(no, seqMask)}, func(r row) error {
		e, err := scanEvent(r, id)
		if err != nil {
			return err
		}
		if out = append(out, e); len(out) == limit {
			return errEnough
		}
		return nil
	})
	return out, err
}

func scanEvent(r row, id session.ID) (e session.Event, err error) {
	var pos int64
	e.Session = id
	err = r.Scan(&pos, &e.ID, &e.TimeUS, &e.Type, &e.Actor, &e.Epoch, &e.Payload, &e.Hash)
	e.Seq = uint64(pos) & seqMask
	return e, err
}

// chain checks that events follow one another.
type chain struct {
	id  session.ID
	seq uint64
	// prev is the hash of event seq.
	prev session.Hash
}

// next returns ErrCorrupt unless e is chained to the event before it.
func (c *chain) next(e session.Event) error {
	if e.Seq != c.seq+1 || e.Hash != e.ChainHash(c.prev) {
		return corrupt(session.ErrCorrupt, c.id, c.seq, "event %d is missing or not chained", c.seq+1)
	}
	c.seq, c.prev = e.Seq, e.Hash
	return nil
}

// checkpointQuery selects the checkpoints of a range of events.
const checkpointQuery = `SELECT pos, epoch, hash, checkpoint, payload FROM events WHERE pos > ? AND pos <= ? AND checkpoint IS NOT NULL ORDER BY pos `

// scanCheckpoint reads one checkpoint. If its bytes are invalid, valid is false and only
// Seq is set.
func scanCheckpoint(row row, id session.ID, keyID string) (c session.Checkpoint, valid bool, err error) {
	var pos int64
	var b, payload []byte
	if err := row.Scan(&pos, &c.Epoch, &c.Head, &b, &payload); err != nil {
		return c, false, err
	}
	c.Session, c.Seq = id, uint64(pos)&seqMask
	if decodeCheckpoint(&c, b, payload, keyID) != nil {
		return session.Checkpoint{Seq: c.Seq}, false, nil
	}
	return c, true, nil
}
