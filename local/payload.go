package local

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/acode-dev/acode/session"
)

// payloadPrefix begins a payload that only names the blob with the real payload. No
// payload type has a field of this name.
const payloadPrefix = `{"payload_blob":`

type payloadBlob struct {
	Blob session.BlobRef `json:"payload_blob"`
}

// prepared is a draft that is ready for the journal.
type prepared struct {
	draft   session.Draft
	payload []byte
	// the payload, if it is in a blob
	full []byte
	// the decoded payload; nil if unknown
	data any
	// the event that the draft repeats; then there is nothing to do
	stored *session.Event
}

// prepare encodes and redacts the data of d. It moves the payload to a blob if the
// payload is too large for the journal.
func (w *Writer) prepare(ctx context.Context, d session.Draft) (prepared, error) {
	var err error
	if d.Data, err = w.withLearnt(d.Data); err != nil {
		return prepared{}, err
	}
	if w.st.opts.Redactor != nil {
		d.Data = w.st.opts.Redactor.Value(d.Data)
	}
	p := prepared{draft: d}
	raw, err := json.Marshal(d.Data)
	if err != nil {
		return p, &session.Error{Code: session.ErrInternal, Message: "an event cannot be encoded: " + string(d.Type), Cause: err}
	}
	if !bytes.Contains(raw, []byte(`\ufffd`)) { // otherwise a text may have had bytes that JSON cannot represent
		p.data = d.Data
	}
	if err := w.place(&p, raw); err != nil {
		return p, err
	}
	return p, w.repeats(ctx, &p)
}

// place sets the payload of p to raw, which is redacted.
func (w *Writer) place(p *prepared, raw []byte) (err error) {
	if p.payload = raw; len(raw) <= session.MaxPayloadBytes {
		return nil
	}
	p.full = raw
	var ref session.BlobRef
	if len(raw) <= smallBytes {
		ref, err = w.stageSmall(raw, false)
	} else {
		ref, err = w.st.stageLarge(bytes.NewReader(raw), int64(len(raw)), true)
	}
	if err == nil {
		p.payload, err = json.Marshal(payloadBlob{ref})
	}
	return err
}

// completed returns the payload of a receipt.
func (p *prepared) completed() (d session.StepCompletedData, err error) {
	if d, known := p.data.(session.StepCompletedData); known {
		return d, nil
	}
	raw := p.payload
	if p.full != nil {
		raw = p.full
	}
	err = json.Unmarshal(raw, &d)
	return d, err
}

// repeats finds the earlier receipt that p repeats (FR-031).
func (w *Writer) repeats(ctx context.Context, p *prepared) error {
	if p.draft.Type != session.StepCompleted && p.draft.Type != session.OperationCompleted {
		return nil
	}
	d, err := p.completed()
	if err != nil {
		return &session.Error{Code: session.ErrInternal, Message: "a receipt is not a receipt", Cause: err}
	}
	st := w.sess.At(d.StepID)
	if st == nil || st.Status != session.StepDone || st.Key != d.Key {
		return nil
	}
	e, err := w.event(ctx, st.LastSeq) // the event that completed the step: nothing changes a completed step
	if err != nil {
		return err
	}
	var first session.StepCompletedData
	if err := e.Decode(&first); err != nil {
		return err
	}
	d.Learnt = first.Learnt // not part of the result
	raw, err := json.Marshal(d)
	if err != nil {
		return &session.Error{Code: session.ErrInternal, Message: "a receipt cannot be encoded", Cause: err}
	}
	if err := w.place(p, raw); err != nil {
		return err
	}
	if !bytes.Equal(e.Payload, p.payload) {
		return &session.Error{Code: session.ErrConflict, Message: fmt.Sprintf("%s was completed with another result; the first one stands", d.Key), Place: fmt.Sprintf("seq %d", e.Seq), Next: session.Do(session.MoveShow, w.sess.Short)}
	}
	p.stored = &e
	return nil
}

// expand sets Full of an event whose payload is in a blob.
func (s *Store) expand(ctx context.Context, q querier, e *session.Event) error {
	if !bytes.HasPrefix(e.Payload, []byte(payloadPrefix)) {
		return nil
	}
	var p payloadBlob
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return &session.Error{Code: session.ErrCorrupt, Message: "the payload of an event is unreadable", Place: fmt.Sprintf("seq %d", e.Seq), Cause: err, Next: session.Do(session.MoveVerify, "")}
	}
	r, err := s.openBlob(ctx, q, p.Blob.Hash)
	if err != nil {
		return err
	}
	defer r.Close()
	full, err := io.ReadAll(r)
	if err == nil {
		e.Full = full
	}
	return err
}

// decodeBlob decodes a JSON document from the blob that open opens. what names the
// document in the error.
func decodeBlob[T any](what string, open func() (io.ReadCloser, error)) (*T, error) {
	r, err := open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	v := new(T)
	if err := json.Unmarshal(data, v); err != nil {
		return nil, &session.Error{Code: session.ErrCorrupt, Message: "the " + what + " of the session is unreadable", Cause: err, Next: session.Do(session.MoveVerify, "")}
	}
	return v, nil
}
