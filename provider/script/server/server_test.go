package server_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/provider/script/server"
)

// object is a JSON object of a request or an answer.
type object = map[string]any

// client speaks one dialect as its official client does.
type client struct {
	path func(stream bool) string
	// request makes a request from a conversation.
	request func(c server.Conversation, stream bool) object
	// reply reads a whole answer, and streamed the events of a stream.
	reply    func(t *testing.T, o object) server.Reply
	streamed func(t *testing.T, events []event) server.Reply
}

// event is a server-sent event.
type event struct {
	name string
	data object
	// raw is data that is no object.
	raw string
}

func clients() map[string]client {
	return map[string]client{
		"messages":  {func(bool) string { return "/v1/messages" }, messagesRequest, messagesReply, messagesStreamed},
		"chat":      {func(bool) string { return "/v1/chat/completions" }, chatRequest, chatReply, chatStreamed},
		"responses": {func(bool) string { return "/v1/responses" }, responsesRequest, responsesReply, responsesStreamed},
		"gemini":    {geminiPath, geminiRequest, geminiReply, geminiStreamed},
	}
}

// script makes two calls in one message, then one, and then says what it has seen.
func script(c server.Conversation) server.Reply {
	if len(c.Tools) == 0 {
		return server.Reply{Text: "A title"}
	}
	var results []string
	for _, m := range c.Messages {
		for _, r := range m.Results {
			results = append(results, r.Text)
		}
	}
	write := func(path string) server.Call {
		return server.Call{Name: "write_file", Arguments: json.RawMessage(`{"content":"äöü \"x\"\n","path":"` + path + `"}`)}
	}
	switch len(results) {
	case 0:
		return server.Reply{Text: "Two files.", Calls: []server.Call{write("a"), write("b")}}
	case 2:
		return server.Reply{Calls: []server.Call{write("c")}}
	}
	return server.Reply{Text: c.System + ": " + strings.Join(results, ", ")}
}

// The same script makes the same calls in each dialect, as one answer and as a stream.
func TestDialects(t *testing.T) {
	for name, c := range clients() {
		for mode, stream := range map[string]bool{"whole": false, "stream": true} {
			t.Run(name+"_"+mode, func(t *testing.T) {
				s := httptest.NewServer(server.New(server.Options{Model: script}))
				defer s.Close()
				talk := server.Conversation{Model: "m", System: "Be brief", Tools: []server.Tool{{Name: "write_file", Description: "Write"}},
					Messages: []server.Message{{Text: "Go"}}}
				var calls []string
				for range 3 {
					r := c.ask(t, s.URL, talk, stream)
					next := server.Message{Results: []server.Result{}}
					for _, call := range r.Calls {
						if call.ID == "" {
							t.Errorf("the call %s has no id", call.Name)
						}
						_, path, _ := strings.Cut(compact(t, call.Arguments), `"path":"`)
						calls = append(calls, call.Name+" "+compact(t, call.Arguments))
						next.Results = append(next.Results, server.Result{ID: call.ID, Text: "wrote " + strings.TrimSuffix(path, `"}`)})
					}
					if len(r.Calls) == 0 {
						if want := "Be brief: wrote a, wrote b, wrote c"; r.Text != want {
							t.Errorf("the last message: got %q, want %q", r.Text, want)
						}
						continue
					}
					talk.Messages = append(talk.Messages, server.Message{Own: true, Text: r.Text, Calls: r.Calls}, next)
				}
				want := []string{}
				for _, path := range []string{"a", "b", "c"} {
					want = append(want, `write_file {"content":"äöü \"x\"\n","path":"`+path+`"}`)
				}
				if diff := cmp.Diff(want, calls); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// A request without tools, for a title or a summary, gets a text.
func TestSideRequests(t *testing.T) {
	for name, c := range clients() {
		s := httptest.NewServer(server.New(server.Options{Model: script}))
		talk := server.Conversation{Model: "small", Messages: []server.Message{{Text: "A title for this"}}}
		if r := c.ask(t, s.URL, talk, true); r.Text != "A title" || len(r.Calls) != 0 {
			t.Errorf("%s: got %+v, want a text", name, r)
		}
		s.Close()
	}
}

// What a provider refuses is refused in its own shape.
func TestRefusals(t *testing.T) {
	s := httptest.NewServer(server.New(server.Options{Model: script}))
	defer s.Close()
	for name, row := range map[string]struct{ path, body, want string }{
		"messages_no_json":       {"/v1/messages", `{`, `{"error":{"message":"unexpected end of JSON input","type":"invalid_request_error"},"type":"error"}`},
		"messages_no_max_tokens": {"/v1/messages", `{"messages":[{"role":"user","content":"x"}]}`, "max_tokens"},
		"messages_no_result": {"/v1/messages", `{"max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{}}]},{"role":"user","content":"x"}]}`,
			"tool_use ids were found without tool_result blocks immediately after: t1"},
		"messages_no_call": {"/v1/messages", `{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"x"}]}]}`,
			"unexpected tool_use_id found in tool_result blocks: t1"},
		"chat_no_result":      {"/v1/chat/completions", `{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"t1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"user","content":"x"}]}`, "tool_call_id t1"},
		"chat_bad_arguments":  {"/v1/chat/completions", `{"messages":[{"role":"assistant","tool_calls":[{"id":"t1","function":{"name":"f","arguments":"["}}]}]}`, "arguments of a call"},
		"chat_unknown_role":   {"/v1/chat/completions", `{"messages":[{"role":"x","content":"x"}]}`, `role \"x\" is not known`},
		"responses_empty":     {"/v1/responses", `{"input":[]}`, "input is empty"},
		"responses_no_output": {"/v1/responses", `{"input":[{"type":"function_call","call_id":"t1","name":"f","arguments":"{}"}]}`, "no tool output found for function call t1"},
		"responses_no_call":   {"/v1/responses", `{"input":[{"type":"function_call_output","call_id":"t1","output":"x"}]}`, "no tool call found for function call output with call_id t1"},
		"ollama_empty":        {"/api/chat", `{"messages":[]}`, "messages is empty"},
		"ollama_no_call":      {"/api/chat", `{"messages":[{"role":"tool","tool_name":"f","content":"x"}]}`, "no call of f waits for this result"},
		"ollama_other_call":   {"/api/chat", `{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"g","arguments":{}}}]},{"role":"tool","tool_name":"f","content":"x"}]}`, "no call of f waits"},
		"gemini_no_contents":  {"/v1beta/models/m:generateContent", `{}`, `"status":"INVALID_ARGUMENT"`},
		"gemini_no_call":      {"/v1beta/models/m:generateContent", `{"contents":[{"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}}]}]}`, "function response of f"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.Post(s.URL+row.path, "application/json", strings.NewReader(row.body))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(r.Body)
			if err != nil || r.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), row.want) {
				t.Errorf("got %d %s, %v, want 400 with %s", r.StatusCode, body, err, row.want)
			}
		})
	}
}

// Clients also count tokens and list models.
func TestOtherRequests(t *testing.T) {
	var seen []string
	s := httptest.NewServer(server.New(server.Options{Model: script, Seen: func(r *http.Request, _ []byte) { seen = append(seen, r.URL.Path) }}))
	defer s.Close()
	for path, want := range map[string]string{
		"/v1/messages/count_tokens":     `{"input_tokens":4}`,
		"/v1beta/models/m:countTokens":  `{"totalTokens":4}`,
		"/v1/embeddings":                `not_found`,
		"/v1beta/models/m:embedContent": `not_found`,
	} {
		r, err := http.Post(s.URL+path, "application/json", strings.NewReader(`{"contents":1}`))
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(r.Body); err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: got %s, %v, want %s", path, body, err, want)
		}
	}
	if len(seen) != 4 {
		t.Errorf("Seen: got %q, want each request", seen)
	}
}

func compact(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, raw); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// ask sends a conversation and reads the answer.
func (c client) ask(t *testing.T, url string, talk server.Conversation, stream bool) server.Reply {
	t.Helper()
	body, err := json.Marshal(c.request(talk, stream))
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.Post(url+c.path(stream), "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }() // it is read to its end
	if r.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(r.Body)
		t.Fatalf("%s: status %d: %s", c.path(stream), r.StatusCode, text)
	}
	if stream {
		if got := r.Header.Get("Content-Type"); got != "text/event-stream" {
			t.Errorf("Content-Type: got %q", got)
		}
		return c.streamed(t, events(t, r.Body))
	}
	var o object
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
		t.Fatal(err)
	}
	return c.reply(t, o)
}

func events(t *testing.T, r io.Reader) (out []event) {
	t.Helper()
	var e event
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "event":
			e.name = value
		case "data":
			if json.Unmarshal([]byte(value), &e.data) != nil {
				e.raw = value
			}
		case "":
			out = append(out, e)
			e = event{}
		default:
			t.Errorf("a line of the stream: got %q", lines.Text())
		}
	}
	return out
}
