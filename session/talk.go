package session

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Prompt is the work of a prompt step: a conversation with a model.
type Prompt struct {
	Text string `json:"text"`
	// Tools are the powers of the model: "files" and "commands". A model without powers
	// can only read.
	Tools []string `json:"tools,omitempty"`
	// Model is the name of a model in the configuration. In the plan of a session it is
	// never empty.
	Model string `json:"model,omitempty"`
	// MaxTurns is how many turns the step may use before a person is asked.
	MaxTurns int `json:"max_turns"`
	// Capture names the variable that gets the answer.
	Capture string `json:"capture,omitempty"`
	// Plans says that the model makes the rest of the plan of the session.
	Plans bool `json:"plans,omitempty"`
}

// mostAnswerLines limits the answer of a model that is shown.
const mostAnswerLines = 20

// AnswerLines returns the answer of a model as lines to show. It says how many more there
// are.
func AnswerLines(answer string) []string {
	answer = strings.TrimSpace(answer)
	if answer == "" {
		return nil
	}
	lines := strings.Split(answer, "\n")
	if more := len(lines) - mostAnswerLines; more > 1 {
		lines = append(lines[:mostAnswerLines:mostAnswerLines], fmt.Sprintf("… and %d more lines", more))
	}
	return lines
}

// PlanningStep is the step in which a model makes the rest of the plan.
func PlanningStep() StepID { return StepID{Task: "plan", Step: "plan"} }

// PlanningPlan returns the plan of a session that begins with a request in words.
func PlanningPlan(request, model string) *Plan {
	id := PlanningStep()
	return &Plan{Version: 1, Task: firstLine(request), OnFailure: FailurePauses, Tasks: []Task{{ID: id.Task, Title: "Make a plan", Steps: []Step{
		{ID: id.Step, Name: "Plan the work", Kind: KindPrompt, Prompt: &Prompt{Text: request, Model: model, MaxTurns: DefaultMaxTurns, Plans: true}}}}}}
}

// Planning reports whether a model makes the rest of p in s.
func (p *Plan) Planning(s *Session) bool { return p.Planned() && s.Status(PlanningStep()) != StepDone }

// Planned reports whether p begins with the planning by a model.
func (p *Plan) Planned() bool {
	first := p.Tasks[0].Steps[0]
	return first.Prompt != nil && first.Prompt.Plans
}

// Adopt returns p with the tasks that a model proposed, which all wait for the planning.
func (p *Plan) Adopt(proposed *Plan) *Plan {
	out := *proposed
	out.Task, out.Tasks, out.MaxParallel = p.Task, slices.Clone(p.Tasks), cmp.Or(p.MaxParallel, proposed.MaxParallel)
	for _, t := range proposed.Tasks {
		if len(t.DependsOn) == 0 {
			t.DependsOn = []string{PlanningStep().Task}
		}
		out.Tasks = append(out.Tasks, t)
	}
	return &out
}

// DefaultMaxTurns is the MaxTurns of a prompt that has none.
const DefaultMaxTurns = 50

// Talk is the head of the conversation of a prompt step. Its size is constant.
type Talk struct {
	// Turn counts the requests to the model, without those that were repeated.
	Turn int `json:"turn"`
	// Attempt is that of the latest request of the turn.
	Attempt int `json:"attempt,omitempty"`
	// Asked is the seq of the open ModelAsked; 0 means that none is open.
	Asked uint64 `json:"asked,omitempty"`
	// Failed says that the latest request got no whole reply.
	Failed bool `json:"failed,omitempty"`
	// Calls is the number of calls in the latest reply.
	Calls int `json:"calls,omitempty"`
	// First is the seq of the first event that the next request needs.
	First uint64 `json:"first"`
	// Ended counts the calls that have a receipt.
	Ended int `json:"ended,omitempty"`
	// Requests counts all requests to the model, also those that were cut off.
	Requests int `json:"requests,omitempty"`
	// Base is the number of requests that the present allowance of the step does not
	// count.
	Base int `json:"base,omitempty"`
	// Digest covers every event of the conversation in its order.
	Digest string `json:"digest"`
	// Usage is the sum of all requests that have ended.
	Usage Usage `json:"usage,omitzero"`
	// Needs is the estimate of the open request.
	Needs Usage `json:"needs,omitzero"`
}

// Usage counts the tokens of a request and its reply as their provider says, and their
// cost.
type Usage struct {
	Input  int64 `json:"input,omitempty"`
	Output int64 `json:"output,omitempty"`
	// Cached is the part of Input that the provider had in its cache.
	Cached int64 `json:"cached,omitempty"`
	// Cost is in millionths of the currency of the configured price. It is 0 without a
	// price.
	Cost int64 `json:"cost_micros,omitempty"`
	// Estimated says that the provider gave no numbers.
	Estimated bool `json:"estimated,omitempty"`
}

// BytesPerToken estimates the tokens of a text for which a provider gave no number.
const BytesPerToken = 3

// Tokens returns the sum of all tokens.
func (u Usage) Tokens() int64 { return u.Input + u.Output }

func (u *Usage) add(more Usage) {
	u.Input += more.Input
	u.Output += more.Output
	u.Cached += more.Cached
	u.Cost += more.Cost
	u.Estimated = u.Estimated || more.Estimated
}

// Spent returns what all conversations of s have used: requests, tokens and cost.
func (s *Session) Spent() (requests int, used Usage) {
	for _, st := range s.Steps {
		if st.Talk != nil {
			requests += st.Talk.Requests
			used.add(st.Talk.Usage)
		}
	}
	return requests, used
}

// Promised returns what the open requests of all conversations of s are estimated to use.
func (s *Session) Promised() (open Usage) {
	for _, st := range s.Steps {
		if st.Talk != nil {
			open.add(st.Talk.Needs)
		}
	}
	return open
}

// ModelSetup describes the configuration of a model without its secrets.
type ModelSetup struct {
	Name     string `json:"name" redact:"-"`
	Provider string `json:"provider" redact:"-"`
	// Digest is that of the rest of its configuration.
	Digest string `json:"digest" redact:"-"`
}

// ModelAskedData is the intent of a request to a model. Op of the StepID is m and the
// turn.
type ModelAskedData struct {
	StepID
	Key     string     `json:"key" redact:"-"`
	Attempt int        `json:"attempt"`
	Model   ModelSetup `json:"model"`
	// Tools is the digest of the tools that the request offers.
	Tools string `json:"tools" redact:"-"`
	// Render is the version of the code that makes messages of events.
	Render int `json:"render"`
	// Needs is the estimate of what the request uses.
	Needs Usage `json:"needs,omitzero"`
}

// ModelAnsweredData is the receipt of a request that got a whole reply.
type ModelAnsweredData struct {
	StepID
	Key     string `json:"key" redact:"-"`
	Attempt int    `json:"attempt"`
	// Request is the digest of the conversation, with the request, that was answered.
	Request string `json:"request" redact:"-"`
	// Reply holds the bytes of the reply as they arrived.
	Reply BlobRef `json:"blob"`
	// Said is the text of the reply for people.
	Said Output `json:"said"`
	// Calls is the number of calls in the reply.
	Calls int   `json:"calls,omitempty"`
	Usage Usage `json:"usage,omitzero"`
}

// ModelFailedData is the receipt of a request that got no whole reply.
type ModelFailedData struct {
	StepID
	Key     string `json:"key" redact:"-"`
	Attempt int    `json:"attempt"`
	Code    Code   `json:"code" redact:"-"`
	Message string `json:"message"`
	// Part holds the bytes that arrived. It is zero if none did.
	Part BlobRef `json:"blob,omitzero"`
	// Usage is an estimate of what the request used.
	Usage Usage `json:"usage,omitzero"`
}

// MessageAddedData is a message that acode or a person added to a conversation. Op of the
// StepID is set for the result of a call that was not carried out.
type MessageAddedData struct {
	StepID
	// Kind is one of the kinds below.
	Kind string `json:"kind" redact:"-"`
	Text string `json:"text"`
}

// The kinds of added messages.
const (
	// the task of the step
	MessagePrompt = "prompt"
	// the files of the workspace that a person trusts
	MessageRules = "rules"
	// what happened while no process executed the session
	MessageResumed = "resumed"
	// a person allows more turns
	MessageMore = "more"
	// the result of a call that acode refused
	MessageRefused = "refused"
	// what the tasks did on which the task of the step depends
	MessageBefore = "before"
	// acode reminds the model of what it is to do
	MessageReminder = "reminder"
	// the result of a call that a rule or a person denied
	MessageDenied = "denied"
)

// TurnID returns the name of the nth request to the model of a prompt step.
func TurnID(step StepID, turn int) StepID {
	step.Op = "m" + strconv.Itoa(turn)
	return step
}

// TurnCallID returns the name of the nth call in the reply of a turn. It never comes from
// the provider's id of the call.
func TurnCallID(step StepID, turn, n int) StepID {
	step.Op = fmt.Sprintf("c%d.%d", turn, n)
	return step
}

// TurnCall returns the turn and the number in the name of a call of a model.
func TurnCall(op string) (turn, n int, ok bool) {
	first, second, both := strings.Cut(strings.TrimPrefix(op, "c"), ".")
	turn, err := strconv.Atoi(first)
	n, err2 := strconv.Atoi(second)
	ok = both && err == nil && err2 == nil && turn > 0 && n > 0 && TurnCallID(StepID{}, turn, n).Op == op
	return turn, n, ok
}

// uses adds what the open request has used, in place of its estimate.
func (t *Talk) uses(u Usage) {
	t.Usage.add(u)
	t.Needs = Usage{}
}

// add adds an event to the digest of the conversation. data is its payload without the
// key, which names the session.
func (t *Talk) add(typ EventType, data any) {
	b, err := json.Marshal(data)
	if err != nil {
		panic("session: a payload must encode: " + err.Error())
	}
	sum := sha256.Sum256(appendText(appendText(appendText([]byte("acode-talk-v1\x00"), t.Digest), string(typ)), string(b)))
	t.Digest = hex.EncodeToString(sum[:])
}

// talking returns the state of a prompt step in progress and its conversation.
func (s *Session) talking(e Event, id StepID) (*StepState, *Talk, error) {
	st := s.Steps[id.Of()]
	if st == nil || st.Status != InProgress || st.Talk == nil {
		return nil, nil, conflict(e, "%s is not about a conversation in progress: %s", e.Type, id)
	}
	return st, st.Talk, nil
}

func (s *Session) adopted(e Event, d PlanAdoptedData) (Delta, error) {
	if st := s.Steps[d.StepID]; st == nil || st.Status != InProgress || s.Done != 0 || d.Steps < 2 {
		return Delta{}, conflict(e, "%s does not end the planning of the session", e.Type)
	}
	s.Plan, s.Tasks, s.StepTotal = d.Plan, d.Tasks, d.Steps
	return Delta{Scalars: true}, nil
}

func (s *Session) contextReduced(e Event, d ContextReducedData) (Delta, error) {
	st, t, err := s.talking(e, d.StepID)
	if err == nil && (t.Asked != 0 || t.First == 0 || d.Op != "" || d.Replies < 1 || d.Replies >= t.Turn) {
		err = conflict(e, "%s does not fit into the conversation of %s", e.Type, d.StepID)
	}
	if err != nil {
		return Delta{}, err
	}
	t.add(e.Type, d)
	st.LastSeq = e.Seq
	return Delta{Steps: []StepID{d.Of()}}, nil
}

func (s *Session) messageAdded(e Event, d MessageAddedData) (Delta, error) {
	st, t, err := s.talking(e, d.StepID)
	if err != nil {
		return Delta{}, err
	}
	if turn, n, ok := TurnCall(d.Op); t.Asked != 0 || (d.Op != "") != (d.Kind == MessageRefused || d.Kind == MessageDenied) ||
		d.Op != "" && (!ok || turn != t.Turn || n > t.Calls || s.Ops[d.StepID] != nil) {
		return Delta{}, conflict(e, "a message does not fit into the conversation of %s: %s", d.StepID, d.Kind)
	}
	if d.Kind == MessageMore {
		t.Base = t.Requests
	}
	if d.Op != "" {
		s.uses(d.StepID)
	}
	if t.First == 0 {
		t.First = e.Seq
	}
	t.add(e.Type, d)
	st.LastSeq = e.Seq
	return Delta{Steps: []StepID{d.Of()}}, nil
}

// modelAsked opens the next request, or repeats one that got no whole reply. The results
// of all calls are part of it, so they leave the projection.
func (s *Session) modelAsked(e Event, d ModelAskedData) (Delta, error) {
	st, t, err := s.talking(e, d.StepID)
	if err != nil {
		return Delta{}, err
	}
	turn, attempt := t.Turn+1, 1
	if t.Failed {
		turn, attempt = t.Turn, t.Attempt+1
	}
	if t.Asked != 0 || t.First == 0 || d.StepID != TurnID(d.Of(), turn) || d.Attempt != attempt || d.Key != KeyOf(s.ID, d.StepID, attempt).String() {
		return Delta{}, conflict(e, "attempt %d of %s is not the next request", d.Attempt, d.StepID)
	}
	delta := Delta{Steps: []StepID{d.Of()}}
	if delta.Ops, err = s.told(e, d.Of()); err != nil {
		return delta, err
	}
	t.Turn, t.Attempt, t.Asked, t.Failed, t.Calls = turn, attempt, e.Seq, false, 0
	t.Requests++
	t.Needs = d.Needs
	d.Key = ""
	t.add(e.Type, d)
	st.LastSeq = e.Seq
	return delta, nil
}

// told removes the operations of a step, because the model or the receipt of the step
// has their results. None may be in progress.
func (s *Session) told(e Event, id StepID) (removed []StepID, err error) {
	for _, op := range s.Operations() {
		switch {
		case op.Of() != id:
		case op.Status == InProgress:
			return nil, conflict(e, "%s follows, but %s is in progress", e.Type, op.StepID)
		default:
			delete(s.Ops, op.StepID)
			removed = append(removed, op.StepID)
		}
	}
	return removed, nil
}

// openRequest returns the conversation whose request e ends.
func (s *Session) openRequest(e Event, id StepID, key string, attempt int) (*StepState, *Talk, error) {
	st, t, err := s.talking(e, id)
	if err == nil && (t.Asked == 0 || id != TurnID(id.Of(), t.Turn) || attempt != t.Attempt || key != KeyOf(s.ID, id, attempt).String()) {
		err = conflict(e, "%s ends a request that is not open: %s", e.Type, key)
	}
	return st, t, err
}

func (s *Session) modelAnswered(e Event, d ModelAnsweredData) (Delta, error) {
	st, t, err := s.openRequest(e, d.StepID, d.Key, d.Attempt)
	if err != nil {
		return Delta{}, err
	}
	if d.Request != t.Digest {
		return Delta{}, conflict(e, "the reply of %s belongs to another conversation", d.StepID)
	}
	t.Asked, t.Calls = 0, d.Calls
	t.uses(d.Usage)
	d.Key = ""
	t.add(e.Type, d)
	st.LastSeq = e.Seq
	return Delta{Cursor: d.StepID, Steps: []StepID{d.Of()}}, nil
}

func (s *Session) modelFailed(e Event, d ModelFailedData) (Delta, error) {
	st, t, err := s.openRequest(e, d.StepID, d.Key, d.Attempt)
	if err != nil {
		return Delta{}, err
	}
	t.Asked, t.Failed = 0, true
	t.uses(d.Usage)
	d.Key = ""
	t.add(e.Type, d)
	st.LastSeq = e.Seq
	return Delta{Cursor: d.StepID, Steps: []StepID{d.Of()}}, nil
}

// heard adds the outcome of a call of a model to its conversation.
func (s *Session) heard(e Event, id StepID, delta *Delta, data any) {
	st := s.Steps[id.Of()]
	if id.Op == "" || st == nil || st.Talk == nil {
		return
	}
	st.Talk.add(e.Type, data)
	if e.Type.Receipt() {
		st.Talk.Ended++
	}
	delta.Steps = append(delta.Steps, id.Of())
}

// newTalk returns the conversation of an attempt of a prompt step. Turns are numbered
// over all attempts, so that no key is used twice.
func newTalk(before *Talk) *Talk {
	if before == nil {
		return &Talk{}
	}
	return &Talk{Turn: before.Turn, Ended: before.Ended, Requests: before.Requests, Base: before.Requests, Usage: before.Usage}
}
