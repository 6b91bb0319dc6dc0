package ollama_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/internal/conformance"
	"github.com/acode-dev/acode/provider/ollama"
	"github.com/acode-dev/acode/provider/wire"
	"github.com/acode-dev/acode/session"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Provider{
		New:  func(o wire.Options) (engine.Model, error) { return ollama.New(o) },
		Path: "/api/chat", Request: published, Samples: samples(),
		Plain:   func(body map[string]any) { body["stream"] = false },
		There:   answer(200, `{"details":{"family":"llama"},"capabilities":["completion","tools"]}`),
		NoModel: answer(404, `{"error":"model 'model-1' not found"}`),
	})
}

func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// published is the body of a request as Ollama's reference describes it.
const published = `{
	"model": "model-1", "stream": true, "truncate": false, "shift": false, "options": {"num_ctx": 8192, "num_predict": 1000},
	"tools": [{"type": "function", "function": {"name": "read_file", "description": "Read a file", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}}],
	"messages": [
		{"role": "system", "content": "You work."},
		{"role": "user", "content": "Do it"},
		{"role":"assistant","content":"I <look> & see.","thinking":"Hm","x_new":[1.0],"tool_calls":[{"id":"call_1","function":{"index":0,"name":"read_file","arguments":{"path":"a"}}}]},
		{"role": "tool", "tool_name": "read_file", "content": "one"},
		{"role": "assistant", "content": "From elsewhere.", "tool_calls": [{"function": {"name": "read_file", "arguments": {"path": "b"}}}]},
		{"role": "tool", "tool_name": "read_file", "content": "two"},
		{"role": "assistant", "content": "", "tool_calls": [
			{"function": {"name": "read_file", "arguments": {}}}, {"function": {"name": "read_file", "arguments": {}}}, {"function": {"name": "finish", "arguments": {}}}]},
		{"role": "tool", "tool_name": "read_file", "content": "NOT CARRIED OUT: two calls have one id"},
		{"role": "tool", "tool_name": "read_file", "content": "NOT CARRIED OUT: two calls have one id"},
		{"role": "tool", "tool_name": "finish", "content": "three"},
		{"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "read_file", "arguments": {"not_an_object": "{\"path\":"}}}, {"function": {"name": "read_file", "arguments": {}}}]},
		{"role": "tool", "tool_name": "read_file", "content": "four"},
		{"role": "tool", "tool_name": "read_file", "content": "five"},
		{"role": "assistant", "content": "I was about to"},
		{"role": "user", "content": "You were cut off"}
	]
}`

// lines is a stream with these messages, the last of which ends it.
func lines(reason string, messages ...string) string {
	var out strings.Builder
	for i, m := range messages {
		switch {
		case !strings.HasPrefix(m, "{"):
			out.WriteString(m + "\n")
		case i < len(messages)-1:
			out.WriteString(`{"model":"m","created_at":"2030-01-01T00:00:00Z","message":` + m + `,"done":false}` + "\n")
		default:
			out.WriteString(whole(m, reason) + "\n")
		}
	}
	return out.String()
}

// whole is an answer that is not streamed.
func whole(message, reason string) string {
	return `{"model":"m","created_at":"2030-01-01T00:00:00Z","message":` + message + `,"done":true,"done_reason":"` + reason + `","total_duration":5,"prompt_eval_count":30,"eval_count":7}`
}

var used = session.Usage{Input: 30, Output: 7}

func call(n int, id, tool, arguments string) session.ModelCall {
	return session.ModelCall{Number: n, ID: id, Tool: tool, Arguments: arguments}
}

const (
	end    = `{"role":"assistant","content":""}`
	native = `{"role":"assistant","content":"I <look> & see.","thinking":"Hm","x_new":[1.0],"tool_calls":[{"id":"call_1","function":{"index":0,"name":"read_file","arguments":{"path":"a"}}}]}`
	two    = `{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"x":1.50}}},{"function":{"name":"g","arguments":{}}}]}`
)

func samples() []conformance.Sample {
	return []conformance.Sample{
		{Name: "text_thinking_and_call_with_unknown_fields", Native: native, Whole: whole(native, "stop"),
			Stream: lines("stop", `{"role":"assistant","content":"","thinking":"H","x_new":[1.0]}`, `{"role":"assistant","content":"","thinking":"m"}`, `{"role":"assistant","content":"I <look>"}`,
				`{"role":"assistant","content":" & see."}`, `{"role":"assistant","content":"","tool_calls":[{"id":"call_1","function":{"index":0,"name":"read_file","arguments":{"path":"a"}}}]}`, end),
			Want: session.Reply{Text: "I <look> & see.", Calls: []session.ModelCall{call(1, "call_1", "read_file", `{"path":"a"}`)}, Usage: used, Whole: true}},
		// calls without ids
		{Name: "two_calls", Native: two, Whole: whole(two, "stop"), Stream: lines("stop", `{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"x":1.50}}}]}`,
			`{"role":"assistant","content":"","tool_calls":[{"function":{"name":"g","arguments":{}}}]}`, end),
			Want: session.Reply{Calls: []session.ModelCall{call(1, "call_1", "f", `{"x":1.50}`), call(2, "call_2", "g", "{}")}, Usage: used, Whole: true}},
		{Name: "text", Native: `{"role":"assistant","content":"Größe \ud83d\ude00 漢字"}`, Whole: whole(`{"role":"assistant","content":"Größe 😀 漢字"}`, "stop"),
			Stream: lines("stop", `{"role":"assistant","content":"Größe \ud83d"}`, `{"role":"assistant","content":"\ude00 漢字"}`, end), Want: session.Reply{Text: "Größe 😀 漢字", Usage: used, Whole: true}},
		{Name: "length", Whole: whole(`{"role":"assistant","content":"On and"}`, "length"), Stream: lines("length", `{"role":"assistant","content":"On and"}`, end),
			Want: session.Reply{Text: "On and", Usage: used, Whole: true, Ended: session.EndedLength}},
		{Name: "other_reason", Whole: whole(`{"role":"assistant","content":"On and"}`, "unload"), Stream: lines("unload", `{"role":"assistant","content":"On and"}`, end),
			Want: session.Reply{Text: "On and", Usage: used, Whole: true, Ended: "unload"}},
		{Name: "unknown_delta", Error: "message.plan comes in parts", Stream: lines("stop", `{"role":"assistant","content":"So","plan":"a"}`, `{"plan":"b"}`, end), Want: session.Reply{Text: "So"}},
		{Name: "delta_of_another_type", Error: "message.content is not a text", Stream: lines("stop", `{"role":"assistant","content":"So"}`, `{"content":["x"]}`, end), Want: session.Reply{Text: "So"}},
		{Name: "calls_of_another_form", Error: "message.tool_calls of another form", Stream: lines("stop", `{"role":"assistant","content":"So","tool_calls":[{"function":"f"}]}`, end), Want: session.Reply{Text: "So", Usage: used}},
		{Name: "unknown_line", Error: "a line with [event]", Stream: lines("stop", `{"role":"assistant","content":"So"}`, ` {"event":"x"}`, end), Want: session.Reply{Text: "So"}},
		{Name: "malformed", Error: "cannot be read", Stream: lines("stop", `{"role":"assistant","content":"So"}`, ` {"message":{`, end), Want: session.Reply{Text: "So"}},
		{Name: "error_after_the_end", Error: "Lost it", Stream: lines("stop", end) + `{"error":"Lost it"}` + "\n", Want: session.Reply{Usage: used}},
		{Name: "error_in_the_stream", Error: "an error was encountered", Stream: lines("stop", `{"role":"assistant","content":"So"}`, ` {"error":"an error was encountered while running the model"}`), Want: session.Reply{Text: "So"}},
	}
}

// Ollama refuses a conversation that is too long, if it is asked not to cut it.
func TestConversationIsTooLong(t *testing.T) {
	if !wire.ReadFailure([]byte(`{"error":"the input length exceeds the context length"}`)).TooLong() {
		t.Error("a conversation that is too long is not noticed")
	}
}

func FuzzReply(f *testing.F) { conformance.Fuzz(f, samples(), ollama.Model{}.Reply) }
