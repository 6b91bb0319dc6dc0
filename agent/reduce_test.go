package agent_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/session"
)

// long adds n turns, each with a command whose output has 3,000 bytes.
func (c told) long(from, n int) {
	for turn := from; turn < from+n; turn++ {
		op := session.TurnID(step, turn)
		c.add(session.ModelAsked, session.ModelAskedData{StepID: op})
		r := reply(call(fmt.Sprint("id", turn), "run_command", fmt.Sprintf(`{"command":"build %d"}`, turn)))
		r.Text = fmt.Sprintf("I build %d.", turn)
		c.add(session.ModelAnswered, session.ModelAnsweredData{StepID: op, Reply: c.blob(r), Calls: 1})
		c.add(session.OperationCompleted, session.OperationCompletedData{StepID: session.TurnCallID(step, turn, 1),
			Files:   []session.FileState{{Path: "out", Hash: fmt.Sprintf("%064d", turn), Wrote: true}},
			Command: &session.CommandResult{Stdout: session.Output{Text: fmt.Sprintf("output %d\n", turn) + strings.Repeat("x", 3000)}}})
	}
}

// bytes returns the length of all texts of the request.
func (c told) bytes() (n int) {
	for _, m := range c.Request().Messages {
		n += len(m.Text)
	}
	return n
}

// When a conversation outgrows the context, its old outputs become references that the
// model can open; then its old replies become facts and the words of the model.
func TestReduce(t *testing.T) {
	c := begin(t)
	c.long(1, 12)
	if got := c.Reduce(0); got != nil {
		t.Errorf("without a limit: %+v", got)
	}
	if got := c.Reduce(100_000); got != nil {
		t.Errorf("with room: %+v", got)
	}
	first := c.Reduce(13_000)
	if first == nil || first.Replies != 9 || first.Summary != "" {
		t.Fatalf("the first reduction is %+v, want the outputs of 9 replies", first)
	}
	before := c.bytes()
	c.add(session.ContextReduced, session.ContextReducedData{StepID: step, Replies: first.Replies})
	if after := c.bytes(); after*2 > before || c.Tokens() > 13_000*6/10 {
		t.Errorf("%d bytes became %d, about %d tokens", before, after, c.Tokens())
	}
	messages := c.Request().Messages
	if m := messages[2]; !strings.Contains(m.Text, "read_output with the handle c1.1") || len(messages) != 25 {
		t.Errorf("an old output is %.200q", m.Text)
	}
	work, err := c.Work(call("z", "read_output", `{"handle":"c1.1","limit":60}`))
	if err != nil || !work.Reads || work.Found == nil || !strings.Contains(*work.Found, "output 1") {
		t.Errorf("read_output: %+v, %v", work, err)
	}
	if _, err := c.Work(call("z", "read_output", `{"handle":"c9.9"}`)); err == nil {
		t.Error("read_output of no call succeeds")
	}

	c.long(13, 8)
	second := c.Reduce(6_000)
	if second == nil || second.Replies != 18 || second.Summary == "" {
		t.Fatalf("the second reduction is %+v, want a summary of 18 replies", second)
	}
	c.add(session.ContextReduced, session.ContextReducedData{StepID: step, Replies: second.Replies, Summary: second.Summary})
	messages = c.Request().Messages
	if len(messages) != 6 || messages[0].Text != "fix it" || messages[2].Text != "I build 19." || messages[5].Role != session.RoleTool {
		t.Fatalf("after it the request has %d messages: %+v", len(messages), messages)
	}
	for _, want := range []string{"c1.1 run_command build 1: Exit status 0", "c18.1 run_command build 18: Exit status 0", "- out 000000000000", "YOUR OWN WORDS", "I build 18.", "do not do them again"} {
		if !strings.Contains(messages[1].Text, want) {
			t.Errorf("the summary lacks %q:\n%s", want, messages[1].Text)
		}
	}

	// The last results still find their places, and a third reduction keeps the old facts.
	c.long(21, 4)
	if got := c.Request().Messages; got[len(got)-1].Role != session.RoleTool || !strings.Contains(got[len(got)-1].Text, "output 24") {
		t.Errorf("the last result is %.100q", got[len(got)-1].Text)
	}
	third := c.Reduce(3_000)
	if third == nil || !strings.Contains(third.Summary, "c1.1 run_command build 1") || !strings.Contains(third.Summary, "c22.1") || strings.Contains(third.Summary, "c23.1") {
		t.Errorf("the third reduction is %+v", third)
	}
	c.add(session.ContextReduced, session.ContextReducedData{StepID: step, Replies: third.Replies, Summary: third.Summary})
	if got := c.Request().Messages; len(got) != 6 || got[1].Text != third.Summary {
		t.Errorf("after it the request has %d messages", len(got))
	}
}

// The reduction depends on nothing but the events.
func TestReduceIsPure(t *testing.T) {
	one, two := begin(t), begin(t)
	one.long(1, 9)
	two.long(1, 9)
	r := one.Reduce(2_000)
	if d := cmp.Diff(r, two.Reduce(2_000)); d != "" || r == nil {
		t.Fatalf("Reduce differs (-one +two):\n%s", d)
	}
	for _, c := range []told{one, two} {
		c.add(session.ContextReduced, session.ContextReducedData{StepID: step, Replies: r.Replies, Summary: r.Summary})
	}
	if d := cmp.Diff(one.Request(), two.Request()); d != "" {
		t.Errorf("requests differ (-one +two):\n%s", d)
	}
}
