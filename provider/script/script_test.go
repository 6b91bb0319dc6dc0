package script_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/provider/script"
	"github.com/acode-dev/acode/provider/script/server"
	"github.com/acode-dev/acode/session"
)

func model(t *testing.T, lines ...string) script.Model {
	t.Helper()
	dir := t.TempDir()
	m := script.Model{Name: "m", File: filepath.Join(dir, "script"), Log: filepath.Join(dir, "log")}
	if err := os.WriteFile(m.File, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return m
}

func after(whole, cut int) (r session.ModelRequest) {
	r.Replies = whole
	for range whole {
		r.Messages = append(r.Messages, session.Message{Role: session.RoleModel})
	}
	for range cut {
		r.Messages = append(r.Messages, session.Message{Role: session.RoleModel, Cut: true})
	}
	return r
}

// The number of whole replies in a request decides the reply. Parts of replies do not
// count.
func TestReplyIsAFunctionOfTheRequest(t *testing.T) {
	m := model(t, `{"text":"one"}`, `{"text":"Größe 漢字, in more than one piece","calls":[{"id":"a","tool":"run_command","arguments":{"command":"echo a long command for pieces"}},{"id":"b","tool":"finish","arguments":{}}]}`)
	for range 2 {
		var raw bytes.Buffer
		if err := m.Ask(t.Context(), after(1, 3), &raw); err != nil {
			t.Fatal(err)
		}
		got, err := m.Reply(raw.Bytes())
		want := session.Reply{Text: "Größe 漢字, in more than one piece", Whole: true, Usage: got.Usage, Calls: []session.ModelCall{
			{Number: 1, ID: "a", Tool: "run_command", Arguments: `{"command":"echo a long command for pieces"}`}, {Number: 2, ID: "b", Tool: "finish", Arguments: "{}"}}}
		if diff := cmp.Diff(want, got); diff != "" || err != nil || got.Usage.Output == 0 {
			t.Errorf("reply: %v (-want +got):\n%s", err, diff)
		}
		if bytes.Count(raw.Bytes(), []byte("\n")) < 6 {
			t.Errorf("the reply has too few pieces: %s", raw.Bytes())
		}
	}
	raw, err := os.ReadFile(m.Log)
	if err != nil || bytes.Count(raw, []byte("\n")) != 2 || !json.Valid(raw[:bytes.IndexByte(raw, '\n')]) {
		t.Errorf("log: got %q, %v, want two requests", raw, err)
	}
}

// A line with "for" belongs to the conversations whose first message has that text.
func TestLinesForAConversation(t *testing.T) {
	m := model(t, `{"for":"plan","text":"a plan"}`, `{"for":"work","text":"work 1"}`, `{"text":"for all"}`, `{"for":"work","text":"work 2"}`)
	for _, c := range []struct {
		first, want string
		whole       int
	}{{"please plan", "a plan", 0}, {"please plan", "for all", 1}, {"work", "work 1", 0}, {"work", "for all", 1}, {"work", "work 2", 2}, {"", "for all", 0}} {
		r := session.ModelRequest{Messages: append([]session.Message{{Role: session.RoleUser, Text: c.first}}, after(c.whole, 1).Messages...), Replies: c.whole}
		var raw bytes.Buffer
		if err := m.Ask(t.Context(), r, &raw); err != nil {
			t.Fatal(err)
		}
		if got, err := m.Reply(raw.Bytes()); err != nil || got.Text != c.want {
			t.Errorf("reply %d to %q: got %q, %v, want %q", c.whole+1, c.first, got.Text, err, c.want)
		}
		talk := server.Conversation{Messages: []server.Message{{Text: c.first}}}
		for range c.whole {
			talk.Messages = append(talk.Messages, server.Message{Own: true, Calls: []server.Call{{}}})
		}
		if got := m.Serve(talk); got.Text != c.want {
			t.Errorf("served reply %d to %q: got %q, want %q", c.whole+1, c.first, got.Text, c.want)
		}
	}
}

// A reply that is cut at any byte is not whole, and its text is a prefix.
func TestCutReply(t *testing.T) {
	m := model(t, `{"text":"in more than one piece","calls":[{"id":"a","tool":"run_command","arguments":{"command":"ls"}}]}`)
	var raw bytes.Buffer
	if err := m.Ask(t.Context(), after(0, 0), &raw); err != nil {
		t.Fatal(err)
	}
	for n := range raw.Len() {
		r, err := m.Reply(raw.Bytes()[:n])
		if err != nil || r.Whole || !strings.HasPrefix("in more than one piece", r.Text) {
			t.Fatalf("the first %d bytes: got %+v, %v", n, r, err)
		}
	}
}

// A server of a script counts the replies in a conversation as the model does. So a part
// of a reply does not count.
func TestServe(t *testing.T) {
	m := model(t, `{"text":"I look at it.","pause_ms":5,"calls":[{"id":"a","tool":"read_file","arguments":{"path":"x"}}]}`, `{"text":"I am done."}`)
	own := func(text string, calls ...server.Call) server.Message {
		return server.Message{Own: true, Text: text, Calls: calls}
	}
	read := server.Call{ID: "a", Name: "read_file", Arguments: json.RawMessage(`{"path":"x"}`)}
	first, last := server.Reply{Text: "I look at it.", Pause: 5 * time.Millisecond, Calls: []server.Call{read}}, server.Reply{Text: "I am done."}
	for name, tt := range map[string]struct {
		before []server.Message
		want   server.Reply
	}{
		"first":       {nil, first},
		"cut":         {[]server.Message{own("I look"), own("I loo")}, first},
		"second":      {[]server.Message{own("I look"), own("I look at it.", read), {Text: "a user says so"}, own("I am")}, last},
		"other_words": {[]server.Message{own("Something else.")}, last},
	} {
		if diff := cmp.Diff(tt.want, m.Serve(server.Conversation{Messages: tt.before})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	over := m.Serve(server.Conversation{Messages: []server.Message{own("I look at it.", read), own("I am done.")}})
	if !strings.Contains(over.Refused, "its script has 2 replies, and this is request 3") {
		t.Errorf("after the script: got %+v", over)
	}
	if gone := (script.Model{File: "/nowhere"}).Serve(server.Conversation{}); !strings.Contains(gone.Refused, "cannot be read") {
		t.Errorf("no script: got %+v", gone)
	}
}

// An error names the line as a person finds it in the file.
func TestPlaceOfBadLine(t *testing.T) {
	m := model(t, "", `{"for":"plan","text":"a plan"}`, `{"text":"one"}`, "", `{"for":"plan","text":"more"}`, `{"text":`)
	err := m.Ask(t.Context(), after(1, 0), &bytes.Buffer{})
	var e *session.Error
	if !errors.As(err, &e) || e.Place != m.File+":6" {
		t.Errorf("got %#v, want the place %s:6", err, m.File)
	}
}

func TestNoReply(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	gone := script.Model{Name: "m", File: filepath.Join(t.TempDir(), "gone")}
	for name, tt := range map[string]struct {
		m    script.Model
		ctx  context.Context
		r    session.ModelRequest
		want error
	}{
		"script_is_over": {model(t, `{"text":"one"}`), t.Context(), after(1, 0), session.ErrModel},
		"not_json":       {model(t, `{"text":`), t.Context(), after(0, 0), session.ErrModel},
		"no_file":        {gone, t.Context(), after(0, 0), session.ErrModel},
		"context":        {model(t, `{"text":"one","pause_ms":1000}`), ended, after(0, 0), context.Canceled},
	} {
		var raw bytes.Buffer
		if err := tt.m.Ask(tt.ctx, tt.r, &raw); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
	}
	if err := gone.Check(t.Context()); !errors.Is(err, session.ErrModel) {
		t.Errorf("Check of no file: got %v", err)
	}
	if err := model(t, `{"text":"one"}`).Check(t.Context()); err != nil {
		t.Errorf("Check: got %v", err)
	}
	if _, err := gone.Reply([]byte("{\n")); !errors.Is(err, session.ErrModel) {
		t.Errorf("Reply of no JSON: got %v", err)
	}
}
