package local

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"

	"github.com/acode-dev/acode/session"
)

// StageInputs stores in with the next Append. The inputs are sealed if redaction would
// change them.
func (w *Writer) StageInputs(ctx context.Context, in *session.Inputs) (session.BlobRef, error) {
	w.st.mu.Lock()
	defer w.st.mu.Unlock()
	if err := w.usable(ctx); err != nil {
		return session.BlobRef{}, err
	}
	return w.stageInputs(in)
}

// stageInputs stores nothing for nil.
func (w *Writer) stageInputs(in *session.Inputs) (session.BlobRef, error) {
	if in == nil {
		return session.BlobRef{}, nil
	}
	data, err := json.Marshal(in)
	if err != nil {
		return session.BlobRef{}, &session.Error{Code: session.ErrInternal, Message: "the inputs cannot be encoded", Cause: err}
	}
	return w.stage(bytes.NewReader(data), int64(len(data)))
}

// Inputs reads the inputs of the session. It returns nil when none were recorded.
func (w *Writer) Inputs(ctx context.Context) (*session.Inputs, error) {
	if w.sess.Inputs == "" {
		return nil, nil
	}
	return decodeBlob[session.Inputs]("inputs", func() (io.ReadCloser, error) { return w.Open(ctx, w.sess.Inputs) })
}

// Inputs reads the inputs of sess. It returns nil when none were recorded.
func (s *Store) Inputs(ctx context.Context, sess *session.Session) (*session.Inputs, error) {
	if sess.Inputs == "" {
		return nil, nil
	}
	return decodeBlob[session.Inputs]("inputs", func() (io.ReadCloser, error) { return s.OpenBlob(ctx, sess.Inputs) })
}

// Fingerprint returns a function that makes a digest of a variable and its value with a
// key of this store. Equal values have equal digests, and a digest does not reveal the
// value.
func (s *Store) Fingerprint(ctx context.Context) (func(name, value string) string, error) {
	k, err := s.theKeys(ctx)
	if err != nil {
		return nil, err
	}
	return func(name, value string) string {
		sum := mac(k.env, []byte(name+"="+value))
		return base64.RawURLEncoding.EncodeToString(sum[:12])
	}, nil
}
