package session

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
)

// Call is the intent of an operation that an outside agent asked for.
type Call struct {
	// Tool is the name under which the agent called it.
	Tool string `json:"tool" redact:"-"`
	// Digest is that of the tool and its arguments, with the defaults filled in. Two
	// calls are equal if their digests are equal.
	Digest string `json:"digest" redact:"-"`
	// Label says for a person what the call does.
	Label string `json:"label"`
	// Work is the JSON of the Step that carries the call out.
	Work BlobRef `json:"work,omitzero"`
}

// CallDigest returns the digest of a call. arguments is a canonical encoding.
func CallDigest(tool, arguments string) string {
	h := sha256.New()
	h.Write([]byte("acode-call-v1\x00"))
	h.Write(appendText(appendText(nil, tool), arguments))
	return hex.EncodeToString(h.Sum(nil))
}

// CallsStep is the only step of the plan of an outside agent's session. Its operations
// are the calls of the agent.
func CallsStep() StepID { return StepID{Task: "calls", Step: "calls"} }

// CallsPlan returns the plan of an outside agent's session.
func CallsPlan(client string) *Plan {
	id := CallsStep()
	return &Plan{
		Version: 1, Task: "Calls of " + cmp.Or(client, "an agent"), OnFailure: FailurePauses, MaxParallel: MostParallel,
		Tasks: []Task{{ID: id.Task, Steps: []Step{{ID: id.Step, Kind: KindCalls}}}},
	}
}

// OfAgent reports whether p is the plan of an outside agent's session.
func (p *Plan) OfAgent() bool {
	return len(p.Tasks) == 1 && len(p.Tasks[0].Steps) == 1 && p.Tasks[0].Steps[0].Kind == KindCalls
}

// NextCall returns the name of the next operation of a step.
func (s *Session) NextCall(step StepID) StepID {
	step.Op = "n" + strconv.Itoa(s.Calls+1)
	return step
}

// Operations returns the operations that are open or owed, in the order of their intents.
func (s *Session) Operations() []*StepState {
	out := make([]*StepState, 0, len(s.Ops))
	for _, op := range s.Ops {
		out = append(out, op)
	}
	slices.SortFunc(out, func(a, b *StepState) int { return cmp.Compare(a.StartSeq, b.StartSeq) })
	return out
}

// settled removes operations whose answers the agent has surely seen. An open operation
// cannot be settled.
func (s *Session) settled(e Event, d OperationsSettledData) (delta Delta, err error) {
	for _, name := range d.Ops {
		id := d.StepID
		id.Op = name
		op := s.Ops[id]
		if op == nil || op.Status == InProgress {
			return delta, conflict(e, "%s names %s, which is not an answered operation", e.Type, id)
		}
		delete(s.Ops, id)
		delta.Ops = append(delta.Ops, id)
	}
	return delta, nil
}
