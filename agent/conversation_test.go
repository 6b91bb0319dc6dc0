package agent_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/agent"
	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/session"
)

var _ engine.Conversation = (*agent.Conversation)(nil)

var step = session.StepID{Task: "fix", Step: "code"}

// decode reads a reply that is JSON.
func decode(_ string, raw []byte) (r session.Reply, err error) {
	err = json.Unmarshal(raw, &r)
	for i := range r.Calls {
		r.Calls[i].Number = i + 1
	}
	return r, err
}

func reply(calls ...session.ModelCall) session.Reply {
	for i := range calls {
		calls[i].Number = i + 1
	}
	return session.Reply{Text: "I work.", Calls: calls, Whole: true}
}

func call(id, tool, arguments string) session.ModelCall {
	return session.ModelCall{ID: id, Tool: tool, Arguments: arguments}
}

// told is a conversation with events, and the contents that they name.
type told struct {
	*agent.Conversation
	t     *testing.T
	blobs map[string]string
}

func begin(t *testing.T) told {
	c := told{&agent.Conversation{Step: step, Powers: []string{"files", "commands"}, Workspace: "/ws", Decode: decode}, t, map[string]string{}}
	c.add(session.MessageAdded, session.MessageAddedData{StepID: step, Kind: session.MessagePrompt, Text: "fix it"})
	return c
}

func (c told) blob(content any) session.BlobRef {
	raw, err := json.Marshal(content)
	if err != nil {
		c.t.Fatal(err)
	}
	c.blobs[string(raw[:min(len(raw), 60)])] = string(raw)
	return session.BlobRef{Hash: string(raw[:min(len(raw), 60)])}
}

func (c told) add(typ session.EventType, data any) {
	c.t.Helper()
	raw, err := json.Marshal(data)
	if err != nil {
		c.t.Fatal(err)
	}
	err = c.Add(session.Event{Type: typ, Payload: raw}, func(ref session.BlobRef) ([]byte, error) {
		text, ok := c.blobs[ref.Hash]
		if !ok {
			return nil, errors.New("no such content")
		}
		return []byte(text), nil
	})
	if err != nil {
		c.t.Fatalf("Add %s: %v", typ, err)
	}
}

func (c told) answered(turn int, r session.Reply) {
	c.t.Helper()
	c.add(session.ModelAnswered, session.ModelAnsweredData{StepID: session.TurnID(step, turn), Reply: c.blob(r), Calls: len(r.Calls)})
}

// Each reply is read by the reader of the provider that was asked for it, and keeps the
// form of that provider.
func TestRepliesOfTwoProviders(t *testing.T) {
	c := begin(t)
	var read []string
	c.Decode = func(provider string, raw []byte) (session.Reply, error) {
		read = append(read, provider)
		return session.Reply{Text: "I work.", Native: json.RawMessage(raw)}, nil
	}
	for i, provider := range []string{"one", "other"} {
		c.add(session.ModelAsked, session.ModelAskedData{StepID: session.TurnID(step, i+1), Model: session.ModelSetup{Name: "m", Provider: provider}})
		c.add(session.ModelFailed, session.ModelFailedData{StepID: session.TurnID(step, i+1), Part: c.blob("part")})
		c.add(session.ModelAnswered, session.ModelAnsweredData{StepID: session.TurnID(step, i+1), Reply: c.blob(provider)})
		if m := c.Request().Messages; m[len(m)-1].Model.Provider != provider || string(m[len(m)-1].Native) != `"`+provider+`"` {
			t.Errorf("the message of %s: got %+v", provider, m[len(m)-1])
		}
	}
	if diff := cmp.Diff([]string{"one", "one", "other", "other"}, read); diff != "" {
		t.Errorf("readers (-want +got):\n%s", diff)
	}
}

// The results stand behind their reply in the order of its calls, also if the receipts
// came in another order. A message of acode follows them.
func TestMessagesAreInOrder(t *testing.T) {
	c := begin(t)
	c.answered(1, reply(call("a", "read_file", `{"path":"x"}`), call("b", "run_command", `{"command":"ls"}`), call("c", "nope", `{}`)))
	c.add(session.MessageAdded, session.MessageAddedData{StepID: session.TurnCallID(step, 1, 3), Kind: session.MessageRefused, Text: "NOT CARRIED OUT: no"})
	c.add(session.OperationFailed, session.OperationFailedData{StepID: session.TurnCallID(step, 1, 2), Code: session.ErrCommand,
		Command: &session.CommandResult{Exit: 3, DurationUS: 2000, Stdout: session.Output{Text: "out\n"}}, EndedUS: 1_000_000})
	c.add(session.OperationCompleted, session.OperationCompletedData{StepID: session.TurnCallID(step, 1, 1), Matches: &session.Output{Text: "line\n"}})
	c.add(session.OperationCompleted, session.OperationCompletedData{StepID: session.TurnCallID(session.StepID{Task: "other", Step: "code"}, 1, 1), Matches: &session.Output{Text: "another step"}})
	c.add(session.MessageAdded, session.MessageAddedData{StepID: step, Kind: session.MessageResumed, Text: "acode was stopped"})
	var got []string
	for _, m := range c.Request().Messages {
		got = append(got, string(m.Role)+" "+m.Call+" "+m.Text)
	}
	want := []string{"user  fix it", "assistant  I work.", "tool a line\n",
		"tool b Exit status 3 after 2ms.\nout\n\n(acode did not run when the command ended, at 1970-01-01T00:00:01Z. This is the recorded result.)",
		"tool c NOT CARRIED OUT: no", "user  acode was stopped"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	if last, done := c.Last(); last == nil || len(done) != 3 {
		t.Errorf("Last: got %v, %v, want a reply with three outcomes", last, done)
	}
}

// A part of a reply is the model's own unfinished words. Its calls do not count.
func TestPartOfAReply(t *testing.T) {
	c := begin(t)
	part := reply(call("a", "run_command", `{"comm`))
	c.add(session.ModelFailed, session.ModelFailedData{StepID: session.TurnID(step, 1), Part: c.blob(part)})
	all := c.Request().Messages
	if last := all[len(all)-1]; !last.Cut || last.Text != "I work." || last.Calls != nil {
		t.Errorf("got %+v, want the text that arrived", last)
	}
	if r, _ := c.Last(); r != nil {
		t.Errorf("Last: got %+v, want that the model is asked", r)
	}
}

// An unknown outcome is told as unknown, with the output so far.
func TestUnknownOutcome(t *testing.T) {
	c := begin(t)
	c.answered(1, reply(call("a", "run_command", `{"command":"ls"}`)))
	c.add(session.OperationUnknown, session.OperationUnknownData{StepID: session.TurnCallID(step, 1, 1), Why: "its supervisor was killed",
		Command: &session.CommandResult{Stdout: session.Output{Text: "half\n"}, Left: []string{"7 sleep"}}})
	all := c.Request().Messages
	got := all[len(all)-1]
	for _, part := range []string{"OUTCOME UNKNOWN: its supervisor was killed", "half", "7 sleep"} {
		if !strings.Contains(got.Text, part) || !got.Failed {
			t.Errorf("got %+v, want %q", got, part)
		}
	}
}

// Equal events give equal requests (FR-036).
func TestEqualEventsGiveEqualRequests(t *testing.T) {
	var both []session.ModelRequest
	for range 2 {
		c := begin(t)
		c.answered(1, reply(call("a", "write_file", `{"path":"x","content":""}`)))
		c.add(session.OperationCompleted, session.OperationCompletedData{StepID: session.TurnCallID(step, 1, 1)})
		both = append(both, c.Request())
	}
	if diff := cmp.Diff(both[0], both[1]); diff != "" {
		t.Errorf("requests (-first +second):\n%s", diff)
	}
}

func TestNext(t *testing.T) {
	c := begin(t).Conversation
	run := `{"command":"ls"}`
	for _, tt := range []struct {
		name    string
		reply   session.Reply
		done    map[int]bool
		calls   []int
		refused map[int]string
		end     *session.Ending
	}{
		{name: "answer", reply: reply(), end: &session.Ending{Text: "I work."}},
		{name: "calls", reply: reply(call("a", "run_command", run), call("b", "nope", "{}")), calls: []int{1, 2}},
		{name: "one_is_done", reply: reply(call("a", "run_command", run), call("b", "run_command", run)), done: map[int]bool{1: true}, calls: []int{2}},
		{name: "no_id", reply: reply(call("", "run_command", run)), calls: []int{1}, refused: map[int]string{1: "has no id"}},
		{name: "one_id_twice", reply: reply(call("a", "run_command", run), call("a", "run_command", run)), calls: []int{1, 2}, refused: map[int]string{1: "2 calls", 2: "2 calls"}},
		{name: "finish", reply: reply(call("a", "run_command", run), call("b", "finish", `{"status":"done","summary":"ok"}`)), calls: []int{1}, end: &session.Ending{Text: "ok"}},
		{name: "gives_up", reply: reply(call("b", "finish", `{"status":"failed","summary":"no"}`)), end: &session.Ending{GaveUp: true, Text: "no"}},
		{name: "finish_without_summary", reply: reply(call("b", "finish", `{"status":"done"}`)), calls: []int{1}, refused: map[int]string{1: "summary is missing"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := c.Next(tt.reply, tt.done)
			var calls []int
			for _, c := range d.Calls {
				calls = append(calls, c.Number)
			}
			if !slices.Equal(calls, tt.calls) || len(d.Refused) != len(tt.refused) || cmp.Diff(tt.end, d.End) != "" {
				t.Errorf("Next: got calls %v, refused %v, end %+v", calls, d.Refused, d.End)
			}
			for n, part := range tt.refused {
				if !strings.HasPrefix(d.Refused[n], "NOT CARRIED OUT: ") || !strings.Contains(d.Refused[n], part) {
					t.Errorf("Next: call %d is refused with %q, want %q", n, d.Refused[n], part)
				}
			}
		})
	}
}

// A model has only the tools that its plan allows. A call with bad arguments is refused.
func TestWork(t *testing.T) {
	reads := &agent.Conversation{Step: step, Workspace: "/ws", Decode: decode}
	if w, err := reads.Work(call("a", "read_file", `{"path":"/ws/x"}`)); err != nil || !w.Reads || w.Step.Read.Path != "x" {
		t.Errorf("read_file: got %+v, %v", w, err)
	}
	all := begin(t).Conversation
	for name, tt := range map[string]struct {
		c     *agent.Conversation
		call  session.ModelCall
		wrong session.Code
	}{
		"without_power":    {reads, call("a", "run_command", `{"command":"ls"}`), session.ErrUsage},
		"unknown_tool":     {all, call("a", "nope", `{}`), session.ErrUsage},
		"not_json":         {all, call("a", "run_command", `{"command":`), session.ErrUsage},
		"unknown_argument": {all, call("a", "run_command", `{"command":"ls","fresh":true}`), session.ErrUsage},
		"escape":           {all, call("a", "write_file", `{"path":"../x","content":""}`), session.ErrEscape},
	} {
		if _, err := tt.c.Work(tt.call); !errors.Is(err, tt.wrong) {
			t.Errorf("%s: got %v, want %s", name, err, tt.wrong)
		}
	}
	if w, err := all.Work(call("a", "run_command", `{"command":"ls"}`)); err != nil || w.Reads || w.Step.Run.Shell != "ls" {
		t.Errorf("run_command: got %+v, %v", w, err)
	}
}

// A model is told which changes of trusted paths were put back, and which could not be.
func TestHeldChangesAreTold(t *testing.T) {
	c := begin(t)
	c.answered(1, reply(call("a", "run_command", `{"command":"ls"}`)))
	c.add(session.OperationCompleted, session.OperationCompletedData{StepID: session.TurnCallID(step, 1, 1), Command: &session.CommandResult{}, Held: []session.HeldChange{
		{Guarded: session.Guarded{Path: "AGENTS.md"}, Change: session.FileModified},
		{Guarded: session.Guarded{Path: ".envrc"}, Change: session.FileCreated, Stays: true},
	}})
	got := c.Request().Messages[2].Text
	for _, want := range []string{"PUT BACK: other programs execute or trust these paths, so acode put them back as they were: AGENTS.md (modified).", "NOT PUT BACK: acode could not put back these paths, which other programs execute or trust: .envrc (created)."} {
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want %q in it", got, want)
		}
	}
}
