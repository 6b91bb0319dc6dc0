package local_test

import (
	"testing"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
)

func verify(t testing.TB, s *local.Store) local.VerifyReport {
	t.Helper()
	r, err := s.Verify(t.Context(), "")
	if err != nil {
		t.Fatalf("Verify: %v", err)
	}
	return r
}

func TestVerifyFindsNothingInWhatWasWritten(t *testing.T) {
	o := options(t)
	s := open(t, o)
	w := sample(t, s)
	r := verify(t, openRead(t, o))
	if len(r.Problems) != 0 {
		t.Fatalf("Verify: problems %v", r.Problems)
	}
	if r.Sessions != 1 || r.Events != int(w.Session().LastSeq) || r.Checkpoints != 2 || r.Blobs == 0 {
		t.Errorf("Verify: got %+v", r)
	}
}

// sample is a small store with every kind of row in it.
func sample(t testing.TB, s *local.Store) *local.Writer {
	t.Helper()
	w := create(t, s, 3)
	appendAll(t, w, started(w, 0, 1))
	appendAll(t, w, completed(w, 0, 1, session.FileState{Path: "a", Hash: "aa", Size: 3, Wrote: true}), started(w, 1, 1))
	appendAll(t, w, failed(w, 1, 1))
	ask := session.Draft{Type: session.ApprovalRequested, Data: session.ApprovalRequestedData{StepID: stepID(2), Question: "go on?", Digest: "q"}}
	appendAll(t, w, ask)
	return w
}
