package local

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"

	"github.com/acode-dev/acode/session"
)

// withLearnt returns data with the secrets that the process knows, if the event has a
// field for them. Such events start an epoch, or record a captured value that is a
// secret.
func (w *Writer) withLearnt(data any) (any, error) {
	var err error
	switch d := data.(type) {
	case session.ExecutionAcquiredData:
		d.Learnt, err = w.stageLearnt()
		return d, err
	case session.StepCompletedData:
		if d.Capture != nil && d.Capture.Blob.Sealed && w.sess.Status(d.StepID) != session.StepDone {
			d.Learnt, err = w.stageLearnt()
		}
		return d, err
	}
	return data, nil
}

// stageLearnt stores fingerprints of the secrets that this process knows, sealed, for
// later processes. It returns a zero reference if the session has them already.
func (w *Writer) stageLearnt() (session.BlobRef, error) {
	if w.st.opts.Redactor == nil {
		return session.BlobRef{}, nil
	}
	memory := w.st.opts.Redactor.Memory(w.st.keys.learnt)
	switch name := w.st.keys.blobName(sha256.Sum256(memory), true); {
	case len(memory) == 0, name.String() == w.sess.Learnt:
		return session.BlobRef{}, nil
	case len(memory) > smallBytes:
		return w.st.stageLarge(bytes.NewReader(memory), int64(len(memory)), true)
	}
	return w.stageSmall(memory, true)
}

// remember gives the redactor the secrets that earlier processes of sess knew. Without
// the key it does nothing; then no sealed content can be shown either.
func (s *Store) remember(ctx context.Context, q querier, sess *session.Session) error {
	if _, known := s.learnt.Load(sess.Learnt); known || sess.Learnt == "" || s.opts.Redactor == nil {
		return nil
	}
	k, err := s.theKeys(ctx)
	if errors.Is(err, session.ErrKey) {
		return nil
	}
	if err != nil {
		return err
	}
	r, err := s.openBlob(ctx, q, sess.Learnt)
	if err != nil {
		return err
	}
	defer r.Close()
	memory, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := s.opts.Redactor.Remember(k.learnt, memory); err != nil {
		return &session.Error{Code: session.ErrCorrupt, Message: "the session's fingerprints of secrets are unreadable", Cause: err, Next: session.Do(session.MoveVerify, "")}
	}
	s.learnt.Store(sess.Learnt, true)
	return nil
}
