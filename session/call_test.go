package session_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/session"
)

// Two calls are equal if tool and arguments are, and no boundary between the two can be
// moved.
func TestCallDigest(t *testing.T) {
	digest := session.CallDigest("run", "a")
	for _, other := range [][2]string{{"run", "b"}, {"ru", "na"}, {"runa", ""}, {"", "runa"}} {
		if got := session.CallDigest(other[0], other[1]); got == digest {
			t.Errorf("CallDigest(%q): got the digest of run a", other)
		}
	}
	if session.CallDigest("run", "a") != digest {
		t.Error("CallDigest: equal calls differ")
	}
}

// The plan of an agent's session is one step, whose name its calls have.
func TestCallsPlan(t *testing.T) {
	p := session.CallsPlan(session.Agent{Client: "claude"})
	at := session.CallsStep()
	if p.Task != "Calls of claude" || p.Steps() != 1 || p.Tasks[0].ID != at.Task || p.Tasks[0].Steps[0].ID != at.Step || p.Agent == nil {
		t.Errorf("CallsPlan: got %+v", p)
	}
	if got := (session.Agent{}).Task(); got != "Calls of an agent" {
		t.Errorf("Task without a client: got %q", got)
	}
	if op := session.CallID(at, 12); op.Op != "n12" || op.Of() != at {
		t.Errorf("CallID: got %v", op)
	}
}

// Operations come in the order of their intents, not of their names.
func TestOperationsInOrder(t *testing.T) {
	s := &session.Session{Ops: map[session.StepID]*session.StepState{}}
	for n, seq := range map[int]uint64{1: 9, 2: 4, 3: 7} {
		op := session.CallID(session.CallsStep(), n)
		s.Ops[op] = &session.StepState{StepID: op, StartSeq: seq}
	}
	var got []string
	for _, op := range s.Operations() {
		got = append(got, op.StepID.Op)
	}
	if diff := cmp.Diff([]string{"n2", "n3", "n1"}, got); diff != "" {
		t.Errorf("Operations (-want +got):\n%s", diff)
	}
}

func TestConfinement(t *testing.T) {
	for want, req := range map[session.Confinement]session.CommandRequest{
		session.Unconfined: {}, session.Confined: {Sandbox: &session.Sandbox{}}, session.ConfinedOnline: {Sandbox: &session.Sandbox{Network: true}},
		session.ConfinedReading: {Sandbox: &session.Sandbox{ReadOnly: true}},
	} {
		if got := req.Confinement(); got != want {
			t.Errorf("Confinement of %+v: got %s, want %s", req.Sandbox, got, want)
		}
	}
}

// Size and place of a protected file do not matter to the programs that trust it.
func TestGuardedSame(t *testing.T) {
	is := session.Guarded{Path: "AGENTS.md", Kind: session.GuardFile, Mode: 0o644, Hash: "a"}
	if moved := (session.Guarded{Path: "b", Kind: is.Kind, Mode: is.Mode, Hash: is.Hash, Size: 9}); !is.Same(moved) {
		t.Error("Same: another path counts")
	}
	for name, other := range map[string]session.Guarded{
		"kind": {Kind: session.GuardLink, Mode: 0o644, Hash: "a"}, "mode": {Kind: session.GuardFile, Mode: 0o755, Hash: "a"}, "content": {Kind: session.GuardFile, Mode: 0o644, Hash: "b"},
	} {
		if is.Same(other) {
			t.Errorf("Same: another %s does not count", name)
		}
	}
}

// A command was cancelled only if it is over and had not done its work.
func TestWasCancelled(t *testing.T) {
	r := session.CommandRecord{State: session.CommandFinished, Cancelled: true, Exit: -1}
	if !r.WasCancelled() {
		t.Error("WasCancelled: got false")
	}
	for name, other := range map[string]session.CommandRecord{
		"running": {State: session.CommandRunning, Cancelled: true, Exit: -1}, "done": {State: session.CommandFinished, Cancelled: true},
		"by itself": {State: session.CommandFinished, Exit: -1}, "left": {State: session.CommandFinished, Cancelled: true, Exit: -1, Left: []string{"7 sleep"}},
	} {
		if other.WasCancelled() {
			t.Errorf("WasCancelled (%s): got true", name)
		}
	}
}
