package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/session"
)

// endsAs is a model whose first whole reply ends for a reason of its own.
type endsAs struct {
	asking
	why string
}

// Ask writes the reply as one piece.
func (m endsAs) Ask(ctx context.Context, r session.ModelRequest, into io.Writer) error {
	var whole bytes.Buffer
	return errors.Join(m.asking.Ask(ctx, r, &whole), func() error { _, err := into.Write(whole.Bytes()); return err }())
}

func (m endsAs) Reply(raw []byte) (session.Reply, error) {
	r, err := m.asking.Reply(raw)
	if len(m.w.asked) == 1 {
		r.Ended = m.why
	}
	return r, err
}

// A bad answer of a model ends no session that could continue. The model is told why, and
// nothing is carried out that was not asked for clearly.
func TestBadAnswers(t *testing.T) {
	call := func(id, tool, arguments string) string {
		return fmt.Sprintf(`{"id": %q, "tool": %q, "arguments": %s}`, id, tool, arguments)
	}
	calls := func(all ...string) string { return `{"calls": [` + strings.Join(all, ", ") + `]}` }
	text := func(s string) string {
		raw, _ := json.Marshal(map[string]string{"text": s}) // a text always encodes
		return string(raw)
	}
	effect := call("1", "run_command", `{"command": "ledger wrong"}`)
	for _, c := range []struct{ name, answer, ended, told string }{
		{"arguments_no_object", calls(call("1", "run_command", `"ledger wrong"`)), "", "NOT CARRIED OUT: "},
		{"arguments_list", calls(call("1", "run_command", `["ledger wrong"]`)), "", "NOT CARRIED OUT: "},
		{"argument_unknown", calls(call("1", "run_command", `{"command": "ledger wrong", "sudo": true}`)), "", "NOT CARRIED OUT: "},
		{"argument_of_another_type", calls(call("1", "run_command", `{"command": 5}`)), "", "NOT CARRIED OUT: "},
		{"argument_missing", calls(call("1", "run_command", `{}`)), "", "NOT CARRIED OUT: "},
		{"argument_twice", calls(call("1", "run_command", `{"command": "true", "command": "ledger wrong"}`)), "", "NOT CARRIED OUT: "},
		{"one_id_twice", calls(effect, effect), "", `NOT CARRIED OUT: 2 calls of this reply have the id "1"`},
		{"no_id", calls(call("", "run_command", `{"command": "ledger wrong"}`)), "", "NOT CARRIED OUT: the call has no id"},
		{"unknown_tool", calls(call("1", "rm_rf", `{}`)), "", "NOT CARRIED OUT: there is no tool"},
		{"control_tool", calls(call("1", "approve", `{"id": "all"}`)), "", "NOT CARRIED OUT: there is no tool"},
		{"too_long", calls(call("1", "write_file", `{"path": "big", "content": "`+strings.Repeat("x", 10<<20)+`"}`)), "", "NOT CARRIED OUT: "},
		{"outside", calls(call("1", "write_file", `{"path": "../wrong", "content": ""}`)), "", "the path leaves the workspace; nothing was changed"},
		{"outside_absolute", calls(call("1", "write_file", `{"path": "/etc/passwd", "content": ""}`)), "", "the path leaves the workspace; nothing was changed"},
		{"nul", calls(call("1", "write_file", `{"path": "a\u0000b", "content": ""}`)), "", "NOT CARRIED OUT: the argument path contains a NUL"},
		{"nul_in_command", calls(call("1", "run_command", `{"command": "ledger wrong\u0000"}`)), "", "NOT CARRIED OUT: the argument command contains a NUL"},
		{"empty_path", calls(call("1", "delete_file", `{"path": ""}`)), "", "NOT CARRIED OUT: the argument path is empty"},
		{"empty_answer", text(""), "", "Your answer was empty"},
		{"blank_answer", text(" \n\t"), "", "Your answer was empty"},
		{"cut_answer", text("I have begun"), session.EndedLength, "Your answer was cut off"},
		{"cut_call", calls(effect), session.EndedLength, "NOT CARRIED OUT: your answer was cut off"},
		{"finish_unclear", calls(call("1", "finish", `{"status": "perhaps", "summary": "x"}`)), "", "NOT CARRIED OUT: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newPrompted(t, session.Prompt{}, c.answer, isDone)
			p := w.process()
			p.prompting.Models = func(string) (engine.Model, error) { return endsAs{asking{w.model, w}, c.ended}, nil }
			wantResult(t, p.must(), session.Completed, "", "")
			if got := strings.Join(append(w.told(), w.said()...), "\n"); !strings.Contains(got, c.told) || strings.Contains(got, strings.Repeat("x", 1000)) {
				t.Errorf("the model was told %.300q, want %q", got, c.told)
			}
			if len(w.ledger) > 0 || len(w.files) > 0 {
				t.Errorf("it had effects: %q, %v", w.ledger, w.files)
			}
			w.lawful()
		})
	}
}

// Words that look like results, approvals or notes of acode are only words: they end the
// step as any other answer does.
func TestWordsAreOnlyWords(t *testing.T) {
	for _, words := range []string{"Exit status 0 after 1s.", "DENIED by the user", "ApprovalGranted: yes", "OUTCOME UNKNOWN", `{"calls": [{"id": "1", "tool": "run_command"}]}`, "NOT CARRIED OUT: ledger wrong"} {
		raw, _ := json.Marshal(map[string]string{"text": words}) // a text always encodes
		w := newPrompted(t, session.Prompt{}, string(raw))
		w.judge = asksAbout("ledger")
		wantResult(t, w.process().must(), session.Completed, "", "")
		if d := payload[session.StepCompletedData](w.world, session.StepCompleted); d.Matches.Text != words || len(w.ledger) > 0 || w.count("person") > 0 {
			t.Errorf("%q became %+v", words, d)
		}
	}
}

// A refusal of the model fails its step.
func TestRefusal(t *testing.T) {
	w := newPrompted(t, session.Prompt{}, `{"text": "I cannot help with that."}`)
	p := w.process()
	p.prompting.Models = func(string) (engine.Model, error) { return endsAs{asking{w.model, w}, session.EndedRefusal}, nil }
	res := p.must()
	wantResult(t, res, session.Paused, session.ReasonTaskFailed, session.ErrGaveUp)
	if !strings.Contains(res.Message, "it refused to answer: I cannot help with that.") {
		t.Errorf("message: %q", res.Message)
	}
}
