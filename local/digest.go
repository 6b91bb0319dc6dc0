package local

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"hash"
	"math/bits"

	"github.com/acode-dev/acode/session"
)

// digests sums a keyed MAC of every step row and of every file row, modulo 2^256: changing
// one row costs one subtraction and one addition, and a resume can check all rows against
// the signed commit without reading history. The MAC is keyed because the sum of unkeyed
// hashes can be made to fit.
type digests struct {
	mac     hash.Hash
	session session.ID
	steps   session.Hash
	files   session.Hash
	step    map[session.StepID]session.Hash // what each row has put into steps
	file    map[string]session.Hash
	buf     []byte
}

func newDigests(k *keys, id session.ID) *digests {
	return &digests{
		mac: hmac.New(sha256.New, k.state), session: id,
		step: map[session.StepID]session.Hash{}, file: map[string]session.Hash{},
	}
}

// all sums what s holds from nothing.
func (d *digests) all(s *session.Session) {
	for _, st := range s.Steps {
		d.setStep(st)
	}
	for _, f := range s.Files {
		d.setFile(f)
	}
}

// apply takes in what an event changed.
func (d *digests) apply(s *session.Session, delta session.Delta) {
	for _, id := range delta.Steps {
		d.setStep(s.Steps[id])
	}
	for _, path := range delta.Files {
		d.setFile(s.Files[path])
	}
}

func (d *digests) setStep(st *session.StepState) {
	if old, ok := d.step[st.StepID]; ok {
		d.steps = sub(d.steps, old)
	}
	d.buf = stepRow(d.buf[:0], d.session, st)
	h := d.sum(d.buf)
	d.step[st.StepID], d.steps = h, add(d.steps, h)
}

func (d *digests) setFile(f *session.FileState) {
	if old, ok := d.file[f.Path]; ok {
		d.files = sub(d.files, old)
	}
	d.buf = fileRow(d.buf[:0], d.session, f)
	h := d.sum(d.buf)
	d.file[f.Path], d.files = h, add(d.files, h)
}

// row is the MAC of the session's own row.
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

// The layouts of rows: a text is its length in 4 bytes and its bytes, a number 8 bytes, both
// big-endian, in the order below.

func stepRow(b []byte, id session.ID, st *session.StepState) []byte {
	b = append(b, "acode-step-v1\x00"...)
	b = texts(b, string(id), st.Task, st.Step, string(st.Status), st.Key, string(st.Code), st.Message,
		optional(st.Capture), optional(st.Approval))
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
		string(s.State), string(s.Left), string(s.Reason), s.Detail, s.Device, s.Manifest, s.Git, s.Inputs)
	b = numbers(b, uint64(s.Plan.Bytes), bit(s.Plan.Sealed), uint64(s.Tasks), uint64(s.StepTotal), s.Epoch,
		s.LastSeq, uint64(s.LastUS), uint64(s.CreatedUS), uint64(s.Done))
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

// optional gives the JSON of *v, empty for nil.
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

// hash32 reads a hash from a column; any other length gives a hash that matches nothing.
func hash32(b []byte) (h session.Hash) {
	if len(b) == len(h) {
		copy(h[:], b)
	}
	return h
}
