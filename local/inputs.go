package local

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"

	"github.com/acode-dev/acode/session"
)

// StageInputs keeps in for the next Append, sealed if redaction would change it.
func (w *Writer) StageInputs(ctx context.Context, in *session.Inputs) (session.BlobRef, error) {
	w.st.mu.Lock()
	defer w.st.mu.Unlock()
	if err := w.usable(ctx); err != nil {
		return session.BlobRef{}, err
	}
	return w.stageInputs(in)
}

// stageInputs keeps nothing for nil. Beside the values stand the secrets in them, for processes to come.
func (w *Writer) stageInputs(in *session.Inputs) (session.BlobRef, error) {
	if in == nil {
		return session.BlobRef{}, nil
	}
	kept := *in
	kept.Learnt = nil
	data, err := json.Marshal(kept)
	if r := w.st.opts.Redactor; r != nil && err == nil {
		if kept.Learnt = r.Within(data); len(kept.Learnt) > 0 {
			data, err = json.Marshal(kept)
		}
	}
	if err != nil {
		return session.BlobRef{}, &session.Error{Code: session.ErrInternal, Message: "the inputs cannot be encoded", Cause: err}
	}
	return w.stage(bytes.NewReader(data), int64(len(data)))
}

// Inputs reads the inputs of the session; nil when none were recorded.
func (w *Writer) Inputs(ctx context.Context) (*session.Inputs, error) {
	return decodeInputs(w.sess, func(hash string) (io.ReadCloser, error) { return w.Open(ctx, hash) })
}

// Inputs reads the inputs of sess; nil when none were recorded.
func (s *Store) Inputs(ctx context.Context, sess *session.Session) (*session.Inputs, error) {
	return decodeInputs(sess, func(hash string) (io.ReadCloser, error) { return s.OpenBlob(ctx, hash) })
}

func decodeInputs(sess *session.Session, open func(hash string) (io.ReadCloser, error)) (*session.Inputs, error) {
	if sess.Inputs == "" {
		return nil, nil
	}
	r, err := open(sess.Inputs)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	in := &session.Inputs{}
	if err := json.Unmarshal(data, in); err != nil {
		return nil, &session.Error{Code: session.ErrCorrupt, Message: "the inputs of the session are unreadable", Cause: err, Next: session.Do(session.MoveVerify, "")}
	}
	return in, nil
}

// Fingerprint gives a function that tells values of variables from one another without giving them
// away: a digest with a key of this store.
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
