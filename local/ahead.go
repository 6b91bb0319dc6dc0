package local

import (
	"bytes"
	"context"
	"io"
	"sync"

	"github.com/acode-dev/acode/session"
)

// ahead is what whoever takes up a session reads next, read along with it: nobody waits for it
// while the store is warmed. What could not be read is met where it is asked for.
type ahead struct {
	plan     func() (*session.Plan, error) // nil: not read
	started  map[uint64]session.Event      // the intents of steps in progress, by seq
	mu       sync.Mutex
	manifest []byte // given once: it may be long
	name     string // of manifest; empty: none, or given
}

// readAhead reads through the connection that writes, which the caller has locked. The plan is
// decoded while the caller goes on.
func (w *Writer) readAhead(ctx context.Context, q querier) *ahead {
	a := &ahead{started: map[uint64]session.Event{}}
	if r, err := w.st.openBlob(ctx, q, w.sess.Plan.Hash); err == nil {
		a.plan = sync.OnceValues(func() (*session.Plan, error) {
			defer r.Close()
			return decodePlan(r)
		})
		go func() { _, _ = a.plan() }() // Plan gives the error
	}
	for _, st := range w.sess.Steps {
		if st.Status != session.InProgress {
			continue
		}
		if e, err := w.event(ctx, st.StartSeq); err == nil {
			a.started[e.Seq] = e
		}
	}
	if name := w.sess.Manifest; name != "" {
		if r, err := w.st.openBlob(ctx, q, name); err == nil {
			if a.manifest, err = io.ReadAll(r); err == nil {
				a.name = name
			}
			_ = r.Close() // only read
		}
	}
	return a
}

// open gives the manifest, the first time.
func (a *ahead) open(hash string) io.ReadCloser {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.name == "" || a.name != hash {
		return nil
	}
	r := bytes.NewReader(a.manifest)
	a.name, a.manifest = "", nil
	return io.NopCloser(r)
}
