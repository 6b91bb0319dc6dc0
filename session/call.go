package session

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
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
	// Work is the JSON of the Step that carries the call out. It is zero for a call that
	// only reads.
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

// Agent identifies the conversation of an outside agent.
type Agent struct {
	// Client is the name that the agent gives itself.
	Client string `json:"client"`
	// Conversation is the client's own id. It is empty if the client gives none.
	Conversation string `json:"conversation,omitempty"`
}

// Task returns the task of the agent's sessions.
func (a Agent) Task() string { return "Calls of " + cmp.Or(a.Client, "an agent") }

// CallsPlan returns the plan of an outside agent's session.
func CallsPlan(of Agent) *Plan {
	id := CallsStep()
	return &Plan{
		Version: 1, Task: of.Task(), OnFailure: FailurePauses, MaxParallel: MostParallel, Agent: &of,
		Tasks: []Task{{ID: id.Task, Steps: []Step{{ID: id.Step, Kind: KindCalls}}}},
	}
}

// MostCalls is how many calls of one session may be in progress at once. Their intents
// may become durable in another order than that of their numbers.
const MostCalls = 1024

// CallID returns the name of the nth call of a step.
func CallID(step StepID, n int) StepID {
	step.Op = "n" + strconv.Itoa(n)
	return step
}

// callNumber returns the number in the name of a call.
func callNumber(op string) (n int, ok bool) {
	n, err := strconv.Atoi(strings.TrimPrefix(op, "n"))
	return n, err == nil && n > 0 && CallID(StepID{}, n).Op == op
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
		if st := s.Steps[d.Of()]; op == nil || op.Status == InProgress || st != nil && st.Talk != nil {
			return delta, conflict(e, "%s names %s, which is not an answered operation", e.Type, id)
		}
		delete(s.Ops, id)
		delta.Ops = append(delta.Ops, id)
	}
	return delta, nil
}
