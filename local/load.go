package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/acode-dev/acode/session"
)

// LoadReport describes the checks of Load.
type LoadReport struct {
	// Order covers the events from the checkpoint on.
	Order session.ReplayOrder
	// Checkpoint is the seq of the checkpoint in use; 0 if there is none yet.
	Checkpoint uint64
	// BadCheckpoint says why the newest checkpoint was not used; normally empty.
	BadCheckpoint string
	// Warnings are unusual but harmless findings.
	Warnings []string
}

// Load opens a session to continue it. It checks the signed commit, the newest checkpoint
// and the chain above it, and every projection. The time grows with the plan and not with
// the history.
//
// Load returns ErrTampered or ErrCorrupt with the last trusted seq. It returns
// ErrNoCheckpoint when there are receipts but no valid checkpoint. It changes nothing.
// With a store opened for reading it returns a Writer that cannot write.
func (s *Store) Load(ctx context.Context, id session.ID) (*Writer, error) {
	k, err := s.theKeys(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &Writer{st: s, sess: &session.Session{ID: id}}
	read := s.read
	if s.wr != nil {
		read = s.wr.snapshot
	}
	err = read(ctx, func(q querier) error {
		l := &loader{ctx: ctx, q: q, k: k, id: id}
		if err := l.run(s.opts.Home); err != nil {
			return err
		}
		w.no, w.sess, w.sums, w.report = l.row.no, l.row.sess, l.sums, l.report
		s.used = true
		if err := s.remember(ctx, q, w.sess); err != nil {
			return err
		}
		if s.wr != nil {
			return s.checkWritable(ctx, q)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

type loader struct {
	ctx context.Context
	q   querier
	k   *keys
	id  session.ID
	// head is nil if there is none or if it is damaged; why is the reason.
	head   *session.Commit
	why    error
	row    *sessionRecord
	sums   *digests
	report LoadReport
}

func (l *loader) run(home string) error {
	if err := l.begin(home); err != nil {
		return err
	}
	if l.head == nil {
		l.noWitness()
	} else if err := l.checkHead(); err != nil {
		return err
	}
	if err := l.checkChain(); err != nil {
		return err
	}
	return l.checkProjections()
}

// begin reads the head and the row of the session, which is signed. The head must not be
// newer than the rows that are compared with it. Therefore the head is read before the
// snapshot or inside it, never after it.
func (l *loader) begin(home string) (err error) {
	l.head, l.why = readHead(home, l.k, l.id)
	if l.why != nil && !errors.Is(l.why, errHead) {
		return l.why
	}
	if l.row, err = readSession(l.ctx, l.q, l.id); err != nil {
		return l.lost(err)
	}
	return l.checkCommit()
}

// lost returns the error for a session that has no row. If it has a head file, the store
// lost its end.
func (l *loader) lost(err error) error {
	switch {
	case !errors.Is(err, session.ErrUnknownID):
		return err
	case l.head != nil:
		return lostEnd(l.id, 0, l.head.LastSeq)
	}
	return cmp.Or(l.why, err)
}

// noWitness warns that the session has no head to compare it with.
func (l *loader) noWitness() {
	why := "the session has no head file"
	if l.why != nil {
		why = "the head file of the session is damaged, perhaps by a power cut"
	}
	l.report.Warnings = append(l.report.Warnings, why+": acode could not check that the store still has its newest events")
}

func lostEnd(id session.ID, have, had uint64) error {
	return corrupt(session.ErrTampered, id, have, "the store lost its end: it holds %d events of the session and held %d", have, had)
}

func (l *loader) checkCommit() error {
	c := l.row.commit
	renamed := c
	renamed.KeyID = l.k.id
	if signed := sameHash(l.k.sign(renamed.Signed()), c.HMAC); c.KeyID != l.k.id && !signed {
		return &session.Error{Code: session.ErrKey, Message: fmt.Sprintf("the session is signed with key %s, and the key of this store is %s; nothing was changed", c.KeyID, l.k.id), Next: session.Then("make that key available again, or run", session.MoveVerify, string(l.id))}
	}
	if c.KeyID != l.k.id || !sameHash(l.k.sign(c.Signed()), c.HMAC) {
		return corrupt(session.ErrTampered, l.id, 0, "the newest commit does not match its signature")
	}
	return nil
}

// checkHead compares the database with the head file, which may be older.
func (l *loader) checkHead() error {
	c, head := l.row.commit, *l.head
	switch {
	case head.LastSeq > c.LastSeq:
		return lostEnd(l.id, c.LastSeq, head.LastSeq)
	case head.LastSeq == c.LastSeq && head != c:
		return corrupt(session.ErrTampered, l.id, 0, "the newest commit and its head differ")
	}
	at, err := l.hashAt(head.LastSeq)
	if err != nil {
		return err
	}
	if at != head.Head {
		return corrupt(session.ErrTampered, l.id, head.LastSeq-1, "the journal was continued from an older copy: event %d is not the acknowledged one", head.LastSeq)
	}
	return nil
}

// hashAt returns the hash of an event. It returns the zero hash for seq 0 and for a
// missing event.
func (l *loader) hashAt(seq uint64) (session.Hash, error) {
	h, err := hashOf(l.ctx, l.q, l.row.no, l.id, seq)
	if errors.Is(err, session.ErrUnknownID) {
		return session.Hash{}, nil
	}
	return h, err
}

// checkpoint finds the newest valid checkpoint. ok is false when there is none.
func (l *loader) checkpoint() (c session.Checkpoint, ok bool, err error) {
	span := []any{position(l.row.no, 0), position(l.row.no, l.row.commit.LastSeq)}
	err = readRows(l.ctx, l.q, "read checkpoints", l.id, checkpointQuery+`DESC`, span, func(r row) error {
		found, valid, err := scanCheckpoint(r, l.id, l.k.id)
		if err != nil {
			return err
		}
		found.Plan = cmp.Or(found.Plan, l.row.sess.Plan.Hash)
		if valid && found.KeyID == l.k.id && sameHash(l.k.sign(found.Signed()), found.HMAC) {
			c, ok = found, true
			return errEnough
		}
		if l.report.BadCheckpoint == "" {
			l.report.BadCheckpoint = fmt.Sprintf("the checkpoint at seq %d does not match its signature", found.Seq)
		}
		return nil
	})
	return c, ok, err
}

// tailBatch limits how many events are in memory at once.
const tailBatch = 1000

// checkChain follows the hashes from the newest valid checkpoint to the signed end.
func (l *loader) checkChain() error {
	c, ok, err := l.checkpoint()
	if err != nil {
		return err
	}
	from := uint64(1)
	if ok {
		from, l.report.Checkpoint = c.Seq, c.Seq
		if c.Seq == l.row.commit.LastSeq && (c.Steps != l.row.commit.Steps || c.Files != l.row.commit.Files || c.State != l.row.sess.State) {
			return corrupt(session.ErrTampered, l.id, c.Seq, "the newest checkpoint and the newest commit differ")
		}
	}
	receipts, err := l.follow(from)
	if err != nil {
		return err
	}
	if ok && receipts > 1 && l.report.BadCheckpoint == "" {
		l.report.BadCheckpoint = "the newest checkpoint is missing"
	}
	if !ok && receipts > 0 {
		return corrupt(session.ErrNoCheckpoint, l.id, l.row.commit.LastSeq, "no checkpoint of the session is valid")
	}
	return nil
}

// follow checks every event from seq from to the signed end and counts the receipts.
func (l *loader) follow(from uint64) (receipts int, err error) {
	chain := chain{id: l.id, seq: from - 1}
	if chain.prev, err = l.hashAt(from - 1); err != nil {
		return 0, err
	}
	last, lastUS := l.row.commit.LastSeq, int64(0)
	for chain.seq < last {
		at := chain.seq
		events, err := readEvents(l.ctx, l.q, l.row.no, l.id, at, int(min(tailBatch, last-at)))
		if err != nil {
			return 0, err
		}
		if len(events) == 0 {
			return 0, corrupt(session.ErrCorrupt, l.id, at, "the journal ends at event %d of %d", at, last)
		}
		for _, e := range events {
			if err := chain.next(e); err != nil {
				return 0, err
			}
			if e.Type.Receipt() {
				receipts++
			}
		}
		if err := l.order(events, at, lastUS); err != nil {
			return 0, err
		}
		lastUS = events[len(events)-1].TimeUS
	}
	if chain.prev != l.row.commit.Head {
		return 0, corrupt(session.ErrCorrupt, l.id, 0, "the end of the journal is not the signed one")
	}
	return receipts, l.checkEnd()
}

// checkEnd returns an error for events above the signed end. Otherwise the next receipt
// would find its seq taken, after its effect.
func (l *loader) checkEnd() error {
	last := l.row.commit.LastSeq
	var more bool
	err := l.q.queryRow(l.ctx, `SELECT EXISTS (SELECT 1 FROM events WHERE pos > ? AND pos <= ?)`, []any{position(l.row.no, last), position(l.row.no, seqMask)}, &more)
	if err != nil {
		return rowError("read event", l.id, err)
	}
	if more {
		return corrupt(session.ErrTampered, l.id, last, "the journal continues after event %d, the last signed one", last)
	}
	return nil
}

// order sorts a batch by time and id, and compares this order with seq (FR-038). The
// report keeps the order of the last batch. Without damage, that is all events above the
// checkpoint.
func (l *loader) order(events []session.Event, at uint64, lastUS int64) error {
	order, err := session.Order(slices.Clone(events))
	if err != nil || events[0].TimeUS <= lastUS {
		return &session.Error{Code: session.ErrOrder, Message: "the events are in another order by time than by seq; nothing was changed", Place: trustedPlace(at), Next: session.Do(session.MoveVerify, string(l.id)), Cause: err}
	}
	l.report.Order = order
	return nil
}

// checkProjections compares every row with the digests in the signed commit.
func (l *loader) checkProjections() error {
	l.sums = newDigests(l.k, l.id)
	if err := readProjections(l.ctx, l.q, l.row, l.sums); err != nil {
		return err
	}
	c := l.row.commit
	for _, part := range []struct {
		name       string
		have, want session.Hash
	}{{"session", l.sums.row(l.row.sess), c.Row}, {"steps", l.sums.steps.sum, c.Steps}, {"files", l.sums.files.sum, c.Files}} {
		if !sameHash(part.have, part.want) {
			return l.rowsDiffer(part.name)
		}
	}
	if !l.sums.steps.complete() || !l.sums.files.complete() {
		return corrupt(session.ErrTampered, l.id, c.LastSeq, "the rows of tables steps and files are not numbered as acode wrote them")
	}
	return nil
}

func (l *loader) rowsDiffer(table string) error {
	return corrupt(session.ErrTampered, l.id, l.row.commit.LastSeq, "the rows of table %s do not match the signed digests", table)
}

// Workspace returns the directory in which a session was last executed, and its short id.
// It checks the signature of the session's row first, because acode enters that directory
// before it reads anything else.
func (s *Store) Workspace(ctx context.Context, id session.ID) (dir, short string, err error) {
	k, err := s.theKeys(ctx)
	if err != nil {
		return "", "", err
	}
	err = s.read(ctx, func(q querier) error {
		l := &loader{ctx: ctx, q: q, k: k, id: id}
		if err := l.begin(s.opts.Home); err != nil {
			return err
		}
		if !sameHash(newDigests(k, id).row(l.row.sess), l.row.commit.Row) {
			return l.rowsDiffer("session")
		}
		dir, short = l.row.sess.Workspace, l.row.sess.Short
		return nil
	})
	return dir, short, err
}
