package local_test

import (
	"errors"
	"testing"
	"time"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// legalDraft draws an event that the session may take next.
func legalDraft(t *rapid.T, s *session.Session, device string) session.Draft {
	i := rapid.IntRange(0, 3).Draw(t, "step")
	id := stepID(i)
	st := s.Steps[id]
	attempt := 1
	if st != nil {
		attempt = max(st.Attempt, 1)
	}
	key := func(n int) string {
		return session.Key{Session: s.ID, Step: id, Operation: session.OpMain, Attempt: n}.String()
	}
	files := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) session.FileState {
		return session.FileState{
			Path: rapid.SampledFrom([]string{"a", "b", "ü/c"}).Draw(t, "path"), Hash: rapid.SampledFrom([]string{"", "aa", "bb"}).Draw(t, "hash"),
			Size: rapid.Int64Min(0).Draw(t, "size"), Inode: rapid.Uint64().Draw(t, "inode"), Racy: rapid.Bool().Draw(t, "racy"), Wrote: rapid.Bool().Draw(t, "wrote"),
		}
	}), 0, 3).Draw(t, "files")
	switch op := rapid.IntRange(0, 7).Draw(t, "op"); {
	case op == 0:
		return session.Draft{Type: session.ExecutionAcquired, Data: session.ExecutionAcquiredData{Device: device, Host: "h", Workspace: "/ws", Config: rapid.String().Draw(t, "config")}}
	case op == 1:
		return session.Draft{Type: session.CheckpointCreated, Actor: "policy", Data: session.CheckpointCreatedData{Why: "because"}}
	case op == 2:
		return session.Draft{Type: session.ChangesAccepted, Actor: "user", Data: session.ChangesAcceptedData{By: "person", Files: files}}
	case op == 3 && s.State == session.Executing:
		return session.Draft{Type: session.StateChanged, Data: session.StateChangedData{From: s.State, To: session.Paused, Reason: session.ReasonUser, Detail: rapid.String().Draw(t, "detail")}}
	case op == 3:
		return session.Draft{Type: session.StateChanged, Data: session.StateChangedData{From: s.State, To: session.Executing}}
	case s.Status(id) == session.Pending || s.Status(id) == session.StepFailed:
		if st != nil && st.Status == session.StepFailed {
			attempt++
		}
		return session.Draft{Type: session.StepStarted, Data: session.StepStartedData{StepID: id, Kind: session.KindRun, Key: key(attempt), Attempt: attempt}}
	case s.Status(id) == session.StepDone:
		return session.Draft{Type: session.CheckpointCreated, Data: session.CheckpointCreatedData{Why: "done"}}
	case op == 4:
		return session.Draft{Type: session.StepUnknown, Data: session.StepUnknownData{StepID: id, Key: st.Key, Attempt: attempt, Why: "gone"}}
	case op == 5:
		return session.Draft{Type: session.StepFailedEvent, Data: session.StepFailedData{StepID: id, Key: st.Key, Attempt: attempt, Code: session.ErrCommand, Message: rapid.String().Draw(t, "message"), Files: files}}
	case op == 6:
		return session.Draft{Type: session.ApprovalRequested, Data: session.ApprovalRequestedData{StepID: id, Question: "?", Digest: "q"}}
	}
	return session.Draft{Type: session.StepCompleted, Data: session.StepCompletedData{StepID: id, Key: st.Key, Attempt: attempt, Files: files, Capture: &session.Capture{Name: "X", Value: rapid.String().Draw(t, "value")}}}
}

// L1, L4: after any legal history, with the clock stepping back and forth, the loaded,
// the viewed and the replayed state are equal.
func TestAnyHistoryLoadsAsItReplays(t *testing.T) {
	o := options(t)
	c := newClock()
	o.Now = c.now
	s, other := open(t, o), openRead(t, o)
	rapid.Check(t, func(r *rapid.T) {
		w := createOrFail(r, s)
		defer w.Close()
		for range rapid.IntRange(1, 8).Draw(r, "events") {
			c.at = c.at.Add(time.Duration(rapid.IntRange(-3600, 3600).Draw(r, "seconds")) * time.Second)
			if _, err := w.Append(t.Context(), legalDraft(r, w.Session(), s.Device())); err != nil {
				r.Fatalf("Append: %v", err)
			}
		}
		id := w.Session().ID
		for name, st := range map[string]*local.Store{"writing": s, "reading": other} {
			got, err := st.Load(t.Context(), id)
			if err != nil {
				r.Fatalf("Load while %s: %v", name, err)
			}
			if diff := cmp.Diff(w.Session(), got.Session()); diff != "" {
				r.Fatalf("Load while %s: (-want +got)\n%s", name, diff)
			}
		}
		report, err := other.Verify(t.Context(), id)
		if err != nil || len(report.Problems) != 0 {
			r.Fatalf("Verify: %v, %v", report.Problems, err)
		}
	})
}

func createOrFail(r *rapid.T, s *local.Store) *local.Writer {
	id, err := s.NewID()
	if err == nil {
		var w *local.Writer
		if w, err = s.Create(r.Context(), local.NewSession{ID: id, Task: "t", Workspace: "/ws", Plan: plan(4)}); err == nil {
			return w
		}
	}
	r.Fatalf("Create: %v", errors.Join(err))
	return nil
}
