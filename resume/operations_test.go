package resume_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/session"
)

// Each operation that was in progress gets the action that its files or its command ask
// for. One with an outcome is left out.
func TestOperations(t *testing.T) {
	steps := map[string]*session.Step{
		"applied": {ID: "call", Kind: session.KindWrite, Changes: []session.Change{{Op: session.KindWrite, Path: "f"}}},
		"command": {ID: "call", Kind: session.KindRun, Run: &session.Run{Shell: "a"}},
	}
	at := session.CallsStep()
	for name, c := range map[string]struct {
		work   string
		record session.CommandRecord
		want   session.Action
	}{
		"applied":   {"applied", session.CommandRecord{}, session.ActionApplied},
		"finished":  {"command", session.CommandRecord{State: session.CommandFinished}, session.ActionAttach},
		"cancelled": {"command", session.CommandRecord{State: session.CommandFinished, Cancelled: true, Exit: -1}, session.ActionAttach},
		"unknown":   {"command", session.CommandRecord{State: session.CommandUnknown, Why: "its supervisor was killed"}, session.ActionDecide},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, session.CallsPlan(session.Agent{Client: "test"}))
			b.acquired("{}")
			b.add(session.Draft{Type: session.StepStarted, Data: session.StepStartedData{StepID: at, Kind: session.KindCalls, Key: key(at, 1), Attempt: 1}})
			kind := steps[c.work].Kind
			for n := range 2 {
				op := session.CallID(at, n+1)
				d := session.OperationStartedData{StepID: op, Kind: kind, Key: session.KeyOf(sessionID, op, 1).String(), Attempt: 1,
					Call: &session.Call{Tool: "tool", Digest: "d", Label: "does", Work: session.BlobRef{Hash: c.work}}}
				if kind != session.KindRun {
					d.Files = []session.Transition{{Path: "f"}}
				}
				b.add(session.Draft{Type: session.OperationStarted, Data: d})
			}
			b.add(session.Draft{Type: session.OperationCompleted, Data: session.OperationCompletedData{StepID: session.CallID(at, 1), Key: session.KeyOf(sessionID, session.CallID(at, 1), 1).String(), Attempt: 1}})
			b.record, b.progress = c.record, session.Applied
			items, err := b.r.Operations(context.Background(), func(_ context.Context, ref session.BlobRef) (*session.Step, error) { return steps[ref.Hash], nil })
			if err != nil || len(items) != 1 {
				t.Fatalf("Operations: got %+v, %v, want one item", items, err)
			}
			it := items[0]
			if got := []any{it.ID.Op, it.Title, it.Label, it.Action, it.Attempt}; !cmp.Equal(got, []any{"n2", "tool", "does", c.want, 1}) {
				t.Errorf("Operations: got %v, want the second with %s", got, c.want)
			}
			if _, err := b.r.Operations(context.Background(), func(context.Context, session.BlobRef) (*session.Step, error) { return nil, errPort }); err == nil {
				t.Error("Operations without the work of a call: got no error")
			}
		})
	}
}

// A caller that executes nothing sees the records of commands in progress. One that
// cannot be read is an unknown outcome.
func TestLookAtCommands(t *testing.T) {
	b := newBench(t, plan(session.Task{ID: "t", Steps: []session.Step{command("run"), command("later")}}))
	b.acquired("")
	b.started(id("t", "run"), session.KindRun)
	b.record = session.CommandRecord{State: session.CommandFinished}
	seen, err := b.r.LookAtCommands(context.Background())
	if err != nil || len(seen) != 1 || seen[id("t", "run")].Record.State != session.CommandFinished {
		t.Errorf("LookAtCommands: got %+v, %v, want one finished command", seen, err)
	}
	for _, code := range []session.Code{session.ErrCorrupt, session.ErrLocked} {
		b.fails["look"] = code
		seen, err := b.r.LookAtCommands(context.Background())
		if err != nil || seen[id("t", "run")].Record.State != session.CommandUnknown {
			t.Errorf("LookAtCommands after %s: got %+v, %v, want it unknown", code, seen, err)
		}
	}
	b.fails["look"] = errPort
	if _, err := b.r.LookAtCommands(context.Background()); err == nil {
		t.Error("LookAtCommands after an error of the disk: got none")
	}
}
