package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/acode-dev/acode/provider/script/server"
	"github.com/acode-dev/acode/session"
)

// script has a conversation with the server of scripts, which refuses results without
// calls and calls without results. Each reply is also asked for without a stream, and
// must be equal.
func (p Provider) script(t *testing.T) {
	replies := []server.Reply{
		{Text: "Größe 漢字 <b> & \u2028 \"quoted\"", Calls: []server.Call{{ID: "call_1", Name: "read_file", Arguments: json.RawMessage(`{"path":"ä"}`)}, {ID: "call_2", Name: "read_file", Arguments: json.RawMessage(`{"path":"b"}`)}}},
		{Calls: []server.Call{{ID: "call_3", Name: "run_command", Arguments: json.RawMessage(`{"command":"echo 1"}`)}}},
		{Text: "Done."},
	}
	var bodies [][]byte
	var talks []server.Conversation
	s := serve(t, server.New(server.Options{
		Model: func(c server.Conversation) server.Reply {
			talks = append(talks, c)
			n := 0
			for _, m := range c.Messages {
				if m.Own {
					n++
				}
			}
			return replies[n]
		},
		Seen: func(_ *http.Request, body []byte) { bodies = append(bodies, body) },
	}).ServeHTTP)
	m := p.model(t, s.URL)
	r := hello()
	for i, want := range replies {
		raw, err := ask(t, m, r)
		if err != nil {
			t.Fatalf("reply %d: %v", i+1, err)
		}
		got, err := m.Reply([]byte(raw))
		if err != nil || !got.Whole || got.Text != want.Text || got.Usage.Input == 0 || got.Usage.Output == 0 {
			t.Fatalf("reply %d: got %+v, %v of %s", i+1, got, err, raw)
		}
		p.plain(t, s.URL, bodies[len(bodies)-1], got)
		r.Messages = append(r.Messages, session.Message{Role: session.RoleModel, Text: got.Text, Calls: got.Calls, Native: got.Native, Model: m.Setup()})
		for j, c := range got.Calls {
			if diff := cmp.Diff(fmt.Sprint(want.Calls[j].Name, string(want.Calls[j].Arguments)), fmt.Sprint(c.Tool, c.Arguments)); diff != "" {
				t.Errorf("call %d of reply %d (-want +got):\n%s", j+1, i+1, diff)
			}
			r.Messages = append(r.Messages, session.Message{Role: session.RoleTool, Call: c.ID, Text: fmt.Sprint("result ", j)})
		}
	}
	last := talks[len(talks)-1]
	results := 0
	for _, m := range last.Messages {
		results += len(m.Results)
	}
	if results != 3 || last.System != "You work." || last.Model != "model-1" {
		t.Errorf("the last conversation: got %+v", last)
	}
	if len(bodies) != 2*len(replies) {
		t.Errorf("got %d requests", len(bodies))
	}
}

// plain sends the same request without a stream.
func (p Provider) plain(t *testing.T, url string, body []byte, streamed session.Reply) {
	t.Helper()
	var request map[string]any
	if err := json.Unmarshal(body, &request); err != nil {
		t.Fatal(err)
	}
	p.Plain(request)
	raw, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.Post(url+p.Path, "application/json", bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }() // it is read to its end
	got, err := p.model(t, url).Reply(read(t, answer.Body))
	if err != nil {
		t.Fatal(err)
	}
	ids := cmpopts.IgnoreFields(session.ModelCall{}, "ID") // some dialects have none, and acode makes them
	if diff := cmp.Diff(streamed, got, cmpopts.IgnoreFields(session.Reply{}, "Native", "Usage"), ids); diff != "" {
		t.Errorf("streamed and not (-streamed +not):\n%s", diff)
	}
	if diff := cmp.Diff(parse(t, string(streamed.Native)), parse(t, string(got.Native))); diff != "" {
		t.Errorf("the native message, streamed and not (-streamed +not):\n%s", diff)
	}
}
