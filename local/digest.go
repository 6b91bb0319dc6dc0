package local

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"hash"
	"maps"
	"math/bits"

	"github.com/acode-dev/acode/session"
)

// digests sums a keyed MAC of every step row and of every file row, modulo 2^256. To
// change one row costs one subtraction and one addition. A resume can check all rows
// against the signed commit without reading the history. The MAC is keyed because rows
// can be chosen so that a sum of unkeyed hashes fits.
type digests struct {
	mac     hash.Hash
	session session.ID
	// also sums the operations
	steps tally[session.StepID]
	// parts of the operations in steps
	ops   map[session.StepID]session.Hash
	files tally[string]
	buf   []byte
}

// tally sums the rows of one table. It numbers them from 1 in the order in which events
// first name them. The numbers are keys of rows, so that rows written together lie
// together.
type tally[K comparable] struct {
	sum  session.Hash
	rows map[K]tallied
}

type tallied struct {
	// the row's part of the total
	sum session.Hash
	n   int64
}

// next as a row number means the next free number.
const next = -1

// set adds or replaces the row of k. A new row gets the number n.
func (t *tally[K]) set(k K, sum session.Hash, n int64) {
	row, known := t.rows[k]
	switch {
	case known:
		t.sum = sub(t.sum, row.sum)
	case n == next:
		row.n = int64(len(t.rows)) + 1
	default:
		row.n = n
	}
	row.sum, t.sum = sum, add(t.sum, sum)
	t.rows[k] = row
}

// complete reports whether the rows have all numbers from 1. The numbers are keys of
// their table and differ, so it is enough that each is in range.
func (t *tally[K]) complete() bool {
	for _, row := range t.rows {
		if row.n < 1 || row.n > int64(len(t.rows)) {
			return false
		}
	}
	return true
}

// numbered reports whether two tallies give the same rows the same numbers.
func (t *tally[K]) numbered(as tally[K]) bool {
	return maps.EqualFunc(t.rows, as.rows, func(a, b tallied) bool { return a.n == b.n })
}

func newDigests(k *keys, id session.ID) *digests {
	d := &digests{mac: hmac.New(sha256.New, k.state), session: id}
	d.steps.rows, d.files.rows = map[session.StepID]tallied{}, map[string]tallied{}
	d.ops = map[session.StepID]session.Hash{}
	return d
}

// apply adds the changes of an event.
func (d *digests) apply(s *session.Session, delta session.Delta) {
	for _, id := range delta.Steps {
		d.setStep(s.Steps[id], next)
	}
	for _, id := range delta.Ops {
		d.setOp(id, s.Ops[id])
	}
	for _, path := range delta.Files {
		d.setFile(s.Files[path], next)
	}
}

func (d *digests) setStep(st *session.StepState, n int64) {
	d.buf = stepRow(d.buf[:0], d.session, st)
	d.steps.set(st.StepID, d.sum(d.buf), n)
}

// setOp replaces the part of an operation. A nil st removes it.
func (d *digests) setOp(id session.StepID, st *session.StepState) {
	d.steps.sum = sub(d.steps.sum, d.ops[id])
	delete(d.ops, id)
	if st == nil {
		return
	}
	d.buf = operationRow(d.buf[:0], d.session, st)
	d.ops[id] = d.sum(d.buf)
	d.steps.sum = add(d.steps.sum, d.ops[id])
}

func (d *digests) setFile(f *session.FileState, n int64) {
	d.buf = fileRow(d.buf[:0], d.session, f)
	d.files.set(f.Path, d.sum(d.buf), n)
}

// row returns the MAC of the session's own row.
func (d *digests) row(s *session.Session) session.Hash {
	d.buf = sessionRow(d.buf[:0], s)
	return d.sum(d.buf)
}

func (d *digests) sum(b []byte) (h session.Hash) {
	d.mac.Reset()
	d.mac.Write(b)
	d.mac.Sum(h[:0])
	return h
}

func add(a, b session.Hash) (c session.Hash) {
	var n, carry uint64
	for i := len(a) - 8; i >= 0; i -= 8 {
		n, carry = bits.Add64(binary.BigEndian.Uint64(a[i:]), binary.BigEndian.Uint64(b[i:]), carry)
		binary.BigEndian.PutUint64(c[i:], n)
	}
	return c
}

func sub(a, b session.Hash) (c session.Hash) {
	var n, borrow uint64
	for i := len(a) - 8; i >= 0; i -= 8 {
		n, borrow = bits.Sub64(binary.BigEndian.Uint64(a[i:]), binary.BigEndian.Uint64(b[i:]), borrow)
		binary.BigEndian.PutUint64(c[i:], n)
	}
	return c
}

// The layouts of rows. A text is its length in 4 bytes, then its bytes. A number is 8
// bytes. Both are big-endian, in the order below.

func stepRow(b []byte, id session.ID, st *session.StepState) []byte {
	b = append(b, "acode-step-v1\x00"...)
	b = texts(b, string(id), st.Task, st.Step, string(st.Status), st.Key, string(st.Code), st.Message,
		optional(st.Capture), optional(st.Approval))
	b = numbers(b, uint64(st.Attempt), st.StartSeq, st.LastSeq, uint64(st.StartedUS), uint64(st.EndedUS))
	switch held := heldColumn(st); {
	case st.Talk != nil:
		b = texts(b, held, optional(st.Talk))
	case held != "":
		b = texts(b, held)
	}
	return b
}

// heldColumn returns the seqs of held changes as JSON. It is empty if there are none.
func heldColumn(st *session.StepState) string {
	if len(st.Held) == 0 {
		return ""
	}
	return optional(&st.Held)
}

func operationRow(b []byte, id session.ID, st *session.StepState) []byte {
	b = append(b, "acode-operation-v1\x00"...)
	b = texts(b, string(id), st.Task, st.Step, st.Op, st.Tool, st.Digest, string(st.Status), string(st.Code), st.Message)
	return numbers(b, uint64(st.Attempt), st.StartSeq, st.LastSeq, uint64(st.StartedUS), uint64(st.EndedUS))
}

func fileRow(b []byte, id session.ID, f *session.FileState) []byte {
	b = append(b, "acode-file-v1\x00"...)
	b = texts(b, string(id), f.Path, f.Hash)
	return numbers(b, uint64(f.Size), uint64(f.Mode), uint64(f.MTimeNS), uint64(f.CTimeNS), f.Inode, bit(f.Racy), bit(f.Wrote))
}

func sessionRow(b []byte, s *session.Session) []byte {
	b = append(b, "acode-session-v1\x00"...)
	b = texts(b, string(s.ID), s.Short, s.Task, s.Workspace, s.Plan.Hash, string(s.OnFailure), s.Config,
		string(s.State), string(s.Left), string(s.Reason), s.Detail, s.Device, s.Manifest, s.Git, s.Inputs, s.Learnt, s.Rules)
	b = numbers(b, uint64(s.Plan.Bytes), bit(s.Plan.Sealed), uint64(s.Tasks), uint64(s.StepTotal), s.Epoch,
		s.LastSeq, uint64(s.LastUS), uint64(s.CreatedUS), uint64(s.Done), uint64(s.Calls))
	return append(b, s.Head[:]...)
}

func texts(b []byte, ss ...string) []byte {
	for _, s := range ss {
		b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	return b
}

func numbers(b []byte, ns ...uint64) []byte {
	for _, n := range ns {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

func bit(v bool) uint64 {
	if v {
		return 1
	}
	return 0
}

// optional returns the JSON of *v, or "" for nil.
func optional[T any](v *T) string {
	if v == nil {
		return ""
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic("local: a projection must encode: " + err.Error())
	}
	return string(b)
}

// hash32 reads a hash from a column. For any other length it returns the zero hash, which
// matches nothing.
func hash32(b []byte) (h session.Hash) {
	if len(b) == len(h) {
		copy(h[:], b)
	}
	return h
}
