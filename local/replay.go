package local

import (
	"cmp"
	"fmt"
	"reflect"

	"github.com/acode-dev/acode/session"
)

// replayer computes a session from its events and compares it with its rows.
type replayer struct {
	v   *verifier
	row *sessionRecord
	// rows are the digests of the rows.
	rows *digests
	sess *session.Session
	// sums are the digests of the computed state.
	sums    *digests
	blobbed map[string]bool
}

func (r *replayer) run() error {
	checkpoints, err := r.checkpoints()
	if err != nil {
		return err
	}
	if !r.replay(checkpoints) {
		return nil
	}
	for seq := range checkpoints {
		r.add(fmt.Sprintf("checkpoint at seq %d", seq), "it belongs to no event with a checkpoint")
	}
	if r.sess.LastSeq != r.row.commit.LastSeq || r.sess.Head != r.row.commit.Head {
		r.add(fmt.Sprintf("seq %d", r.sess.LastSeq), fmt.Sprintf("the journal does not end at the signed event %d", r.row.commit.LastSeq))
	}
	r.compare()
	return nil
}

func (r *replayer) add(place, message string) {
	r.v.problem(Problem{Session: r.row.sess.ID, Code: session.ErrTampered, Place: place, Message: message, Trusted: r.sess.LastSeq})
}

func (r *replayer) checkpoints() (map[uint64]session.Checkpoint, error) {
	out := map[uint64]session.Checkpoint{}
	all := []any{position(r.row.no, 0), position(r.row.no, seqMask)}
	return out, readRows(r.v.ctx, r.v.q, "read checkpoints", r.row.sess.ID, checkpointQuery, all, func(found row) error {
		c, _, err := scanCheckpoint(found, r.row.sess.ID, r.v.k.id) // an invalid one differs from the computed one
		out[c.Seq] = c
		return err
	})
}

// replay applies all events. It returns false if an event does not follow the one before
// it, because nothing after that event can be computed.
func (r *replayer) replay(checkpoints map[uint64]session.Checkpoint) bool {
	for after := uint64(0); ; after = r.sess.LastSeq {
		events, err := readEvents(r.v.ctx, r.v.q, r.row.no, r.row.sess.ID, after, tailBatch)
		if err != nil {
			r.v.add(r.row.sess.ID, err, fmt.Sprintf("seq %d", after+1), after)
			return false
		}
		for i := range events {
			if err := r.apply(&events[i], checkpoints); err != nil {
				r.v.add(r.row.sess.ID, err, fmt.Sprintf("seq %d", events[i].Seq), r.sess.LastSeq)
				return false
			}
		}
		if len(events) < tailBatch {
			return true
		}
	}
}

func (r *replayer) apply(e *session.Event, checkpoints map[uint64]session.Checkpoint) error {
	r.v.report.Events++
	if err := r.v.s.expand(r.v.ctx, r.v.q, e); err != nil {
		return err
	}
	before := r.sess.LastSeq
	delta, err := r.sess.Apply(*e)
	if err != nil {
		r.sess.LastSeq = before
		return err
	}
	r.sums.apply(r.sess, delta)
	for _, ref := range namedBy(*e, append(blobFields(), wholeField)) {
		r.blob(ref.Hash)
	}
	if e.Type.Receipt() || e.Type == session.CheckpointCreated {
		r.checkpoint(*e, delta, checkpoints)
	}
	return nil
}

// checkpoint compares the stored checkpoint of e with the computed one, and deletes it
// from stored.
func (r *replayer) checkpoint(e session.Event, d session.Delta, stored map[uint64]session.Checkpoint) {
	r.v.report.Checkpoints++
	place := fmt.Sprintf("checkpoint at seq %d", e.Seq)
	got, ok := stored[e.Seq]
	delete(stored, e.Seq)
	if !ok {
		r.add(place, "it is missing")
		return
	}
	got.Plan = cmp.Or(got.Plan, r.row.sess.Plan.Hash)
	if want := checkpointOf(r.v.k, r.sess, r.sums, e, d); got != want {
		r.add(place, "it differs from the one computed from the events")
	}
}

func (r *replayer) blob(hash string) {
	if r.blobbed == nil {
		r.blobbed = map[string]bool{}
	}
	if !r.blobbed[hash] {
		r.blobbed[hash] = true
		r.v.blob(r.row.sess.ID, hash, fmt.Sprintf("seq %d", r.sess.LastSeq))
	}
}

// compare reports every field of the projections that differs from the replay.
func (r *replayer) compare() {
	want, have := reflect.ValueOf(*r.sess), reflect.ValueOf(*r.row.sess)
	for i := range want.NumField() {
		name := want.Type().Field(i).Name
		if name != "Steps" && name != "Ops" && name != "Files" && !reflect.DeepEqual(want.Field(i).Interface(), have.Field(i).Interface()) {
			r.add("table sessions", fmt.Sprintf("%s is %v, and the events give %v", name, have.Field(i).Interface(), want.Field(i).Interface()))
		}
	}
	compareRows(r, "steps", r.sess.Steps, r.row.sess.Steps)
	compareRows(r, "operations", r.sess.Ops, r.row.sess.Ops)
	compareRows(r, "files", r.sess.Files, r.row.sess.Files)
	if !r.sums.steps.numbered(r.rows.steps) || !r.sums.files.numbered(r.rows.files) {
		r.add("tables steps and files", "their rows are not in the order of the events")
	}
	c := r.row.commit
	if c.Steps != r.sums.steps.sum || c.Files != r.sums.files.sum || c.Row != r.sums.row(r.sess) {
		r.add("table sessions", "the signed digests are not those of the events")
	}
}

func compareRows[K comparable, V any](r *replayer, table string, want, have map[K]*V) {
	for k, v := range want {
		if h := have[k]; h == nil {
			r.add("table "+table, fmt.Sprintf("the row of %v is missing", k))
		} else if !reflect.DeepEqual(v, h) {
			r.add("table "+table, fmt.Sprintf("the row of %v differs from the events", k))
		}
	}
	for k := range have {
		if want[k] == nil {
			r.add("table "+table, fmt.Sprintf("the row of %v comes from no event", k))
		}
	}
}
