package openai_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/internal/conformance"
	"github.com/acode-dev/acode/provider/openai"
	"github.com/acode-dev/acode/provider/wire"
	"github.com/acode-dev/acode/session"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Provider{
		New:  func(o wire.Options) (engine.Model, error) { return openai.New(o) },
		Base: "/v1", Path: "/v1/chat/completions", Request: published,
		Plain: func(body map[string]any) {
			body["stream"] = false
			delete(body, "stream_options")
		},
		Samples: samples(),
		There:   answer(200, `{"id":"model-1","object":"model","created":1,"owned_by":"x"}`),
		NoModel: answer(404, `{"error":{"message":"The model 'model-1' does not exist","type":"invalid_request_error","param":"model","code":"model_not_found"}}`),
	})
}

func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// published is the body of a request as OpenAI's reference describes it.
const published = `{
	"model": "model-1", "stream": true, "stream_options": {"include_usage": true}, "max_tokens": 1000,
	"tools": [{"type": "function", "function": {"name": "read_file", "description": "Read a file", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}}],
	"messages": [
		{"role": "system", "content": "You work."},
		{"role": "user", "content": "Do it"},
		{"role":"assistant","content":"I <look> & see.","x_signature":{"b":1.0,"a":"\u003c"},"tool_calls":[{"id":"call_1","type":"function","extra":{"sig":"q="},"function":{"name":"read_file","arguments":"{\"path\":\"a\"}"}}]},
		{"role": "tool", "tool_call_id": "call_1", "content": "one"},
		{"role": "assistant", "content": "From elsewhere.", "tool_calls": [{"id": "acode_2_1", "type": "function", "function": {"name": "read_file", "arguments": "{\"path\":\"b\"}"}}]},
		{"role": "tool", "tool_call_id": "acode_2_1", "content": "two"},
		{"role": "assistant", "content": null, "tool_calls": [
			{"id": "acode_3_1", "type": "function", "function": {"name": "read_file", "arguments": "{}"}},
			{"id": "acode_3_2", "type": "function", "function": {"name": "read_file", "arguments": "{}"}},
			{"id": "acode_3_3", "type": "function", "function": {"name": "finish", "arguments": "{}"}}]},
		{"role": "tool", "tool_call_id": "acode_3_1", "content": "NOT CARRIED OUT: two calls have one id"},
		{"role": "tool", "tool_call_id": "acode_3_2", "content": "NOT CARRIED OUT: two calls have one id"},
		{"role": "tool", "tool_call_id": "acode_3_3", "content": "three"},
		{"role": "assistant", "content": null, "tool_calls": [
			{"id": "acode_4_1", "type": "function", "function": {"name": "read_file", "arguments": "{\"not_an_object\":\"{\\\"path\\\":\"}"}},
			{"id": "acode_4_2", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}]},
		{"role": "tool", "tool_call_id": "acode_4_1", "content": "four"},
		{"role": "tool", "tool_call_id": "acode_4_2", "content": "five"},
		{"role": "assistant", "content": "I was about to"},
		{"role": "user", "content": "You were cut off"}
	]
}`

// chunks is a stream of deltas of the first choice. A text that is no object is a whole
// event.
func chunks(parts ...string) string {
	var out strings.Builder
	for _, p := range parts {
		if strings.HasPrefix(p, "{") {
			p = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":` + p + `,"logprobs":null,"finish_reason":null}]}`
		}
		out.WriteString(p + "\n\n")
	}
	return out.String()
}

// end is the end of a stream.
func end(reason string) string {
	return `data: {"choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}

data: {"choices":[],"usage":{"prompt_tokens":30,"completion_tokens":7,"total_tokens":37,"prompt_tokens_details":{"cached_tokens":12}}}

data: [DONE]`
}

// whole is an answer that is not streamed.
func whole(message, reason string) string {
	return `{"id": "c", "object": "chat.completion", "choices": [{"index": 0, "message": ` + message + `, "logprobs": null, "finish_reason": "` + reason + `"}],
 "usage": {"prompt_tokens": 30, "completion_tokens": 7, "total_tokens": 37, "prompt_tokens_details": {"cached_tokens": 12}}}`
}

var used = session.Usage{Input: 30, Output: 7, Cached: 12}

func calls(all ...session.ModelCall) []session.ModelCall {
	for i := range all {
		all[i].Number = i + 1
	}
	return all
}

func call(id, tool, arguments string) session.ModelCall {
	return session.ModelCall{ID: id, Tool: tool, Arguments: arguments}
}

func samples() []conformance.Sample {
	native := `{"role":"assistant","content":"I <look> & see.","x_signature":{"b":1.0,"a":"\u003c"},"tool_calls":[{"id":"call_1","type":"function","extra":{"sig":"q="},"function":{"name":"read_file","arguments":"{\"path\":\"a\"}"}}]}`
	two := `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},{"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]}`
	noID := `{"role":"assistant","content":null,"tool_calls":[{"type":"function","function":{"name":"f","arguments":"{}"}}]}`
	return []conformance.Sample{
		{Name: "text_and_call_with_unknown_fields", Native: native, Whole: whole(native, "tool_calls"),
			Stream: chunks(`: a comment`, `{"role":"assistant","content":"","x_signature":{"b":1.0,"a":"\u003c"}}`, `{"content":"I <look>"}`, `{"content":" & see."}`,
				`{"tool_calls":[{"index":0,"id":"call_1","type":"function","extra":{"sig":"q="},"function":{"name":"read_file","arguments":""}}]}`,
				`{"tool_calls":[{"index":0,"function":{"arguments":"{\"pa"}}]}`, `{"tool_calls":[{"index":0,"function":{"arguments":"th\":\"a\"}"}}]}`, end("tool_calls")),
			Want: session.Reply{Text: "I <look> & see.", Calls: calls(call("call_1", "read_file", `{"path":"a"}`)), Usage: used, Whole: true}},
		{Name: "text", Native: `{"role":"assistant","content":"Größe \ud83d\ude00 漢字","refusal":null}`, Whole: whole(`{"role":"assistant","content":"Größe 😀 漢字","refusal":null}`, "stop"),
			// the halves of a character come in two deltas
			Stream: chunks(`{"role":"assistant","content":"","refusal":null}`, `{"content":"Größe \ud83d"}`, `{"content":"\ude00 漢字"}`, end("stop")),
			Want:   session.Reply{Text: "Größe 😀 漢字", Usage: used, Whole: true}},
		{Name: "two_calls", Native: two, Whole: whole(two, "tool_calls"),
			Stream: chunks(`{"role":"assistant","content":null}`, `{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\""}}]}`,
				`{"tool_calls":[{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":""}},{"index":0,"function":{"arguments":":1}"}}]}`,
				`{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}`, end("tool_calls")),
			Want: session.Reply{Calls: calls(call("a", "f", `{"x":1}`), call("b", "g", "{}")), Usage: used, Whole: true}},
		// Gemini and others leave the index out or repeat it; others repeat id and name
		{Name: "calls_with_one_index", Native: two, Stream: chunks(`{"role":"assistant","content":null}`, `{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]}`,
			`{"tool_calls":[{"index":0,"id":"b","type":"function","function":{"name":"g","arguments":"{"}}]}`, `{"tool_calls":[{"index":0,"id":"b","type":"function","function":{"name":"g","arguments":"}"}}]}`, end("tool_calls")),
			Want: session.Reply{Calls: calls(call("a", "f", `{"x":1}`), call("b", "g", "{}")), Usage: used, Whole: true}},
		{Name: "calls_without_index", Native: two, Stream: chunks(`{"role":"assistant","content":null}`, `{"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]}`,
			`{"tool_calls":[{"id":"b","type":"function","function":{"name":"g","arguments":"{"}}]}`, `{"tool_calls":[{"function":{"arguments":"}"}}]}`, end("tool_calls")),
			Want: session.Reply{Calls: calls(call("a", "f", `{"x":1}`), call("b", "g", "{}")), Usage: used, Whole: true}},
		{Name: "call_without_id", Native: noID, Whole: whole(noID, "tool_calls"), Stream: chunks(`{"role":"assistant","content":null}`, `{"tool_calls":[{"index":0,"id":"","type":"function","function":{"name":"f","arguments":"{}"}}]}`, end("tool_calls")),
			Want: session.Reply{Calls: calls(call("", "f", "{}")), Usage: used, Whole: true}},
		{Name: "cut_arguments", Stream: chunks(`{"role":"assistant"}`, `{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":\"lo"}}]}`, end("length")),
			Want: session.Reply{Calls: calls(call("a", "f", `{"x":"lo`)), Usage: used, Whole: true, Ended: session.EndedLength}},
		{Name: "reasoning", Native: `{"role":"assistant","content":"Yes","reasoning_content":"I think","reasoning_details":[{"type":"t","data":"x"},{"type":"t","data":"y"}]}`,
			Stream: chunks(`{"role":"assistant","content":null,"reasoning_content":"I "}`, `{"role":"assistant","content":null,"reasoning_content":"think","reasoning_details":[{"type":"t","data":"x"}]}`,
				`{"content":"Yes","reasoning_details":[{"type":"t","data":"y"}]}`, end("stop")),
			Whole: whole(`{"role":"assistant","content":"Yes","reasoning_content":"I think","reasoning_details":[{"type":"t","data":"x"},{"type":"t","data":"y"}]}`, "stop"),
			Want:  session.Reply{Text: "Yes", Usage: used, Whole: true}},
		{Name: "refusal", Whole: whole(`{"role":"assistant","content":null,"refusal":"No."}`, "stop"), Stream: chunks(`{"role":"assistant","content":null,"refusal":"N"}`, `{"refusal":"o."}`, end("stop")),
			Want: session.Reply{Text: "No.", Usage: used, Whole: true, Ended: session.EndedRefusal}},
		{Name: "filtered", Whole: whole(`{"role":"assistant","content":"Well"}`, "content_filter"), Stream: chunks(`{"role":"assistant","content":"Well"}`, end("content_filter")),
			Want: session.Reply{Text: "Well", Usage: used, Whole: true, Ended: session.EndedRefusal}},
		{Name: "unknown_delta", Error: "delta.thoughts comes in parts", Stream: chunks(`{"role":"assistant","content":"So","thoughts":"I "}`, `{"thoughts":"think"}`, end("stop")),
			Want: session.Reply{Text: "So"}},
		{Name: "delta_of_another_type", Error: "delta.content is not a text", Stream: chunks(`{"role":"assistant","content":"So"}`, `{"content":[{"type":"thinking"}]}`, end("stop")),
			Want: session.Reply{Text: "So"}},
		{Name: "unknown_event", Error: "an event with [type part]", Stream: chunks(`{"role":"assistant","content":"So"}`, `data: {"type":"thought","part":"x"}`, end("stop")), Want: session.Reply{Text: "So"}},
		{Name: "two_messages", Error: "a second message", Stream: chunks(`{"role":"assistant","content":"So"}`, `data: {"choices":[{"index":1,"delta":{"content":"x"}}]}`), Want: session.Reply{Text: "So"}},
		{Name: "malformed", Error: "cannot be read", Stream: chunks(`{"role":"assistant","content":"So"}`, `data: {"choices":[{`, end("stop")), Want: session.Reply{Text: "So"}},
		{Name: "error_after_the_end", Error: "Lost it", Stream: chunks(`{"role":"assistant","content":"So"}`, `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, `data: {"error":"Lost it"}`), Want: session.Reply{Text: "So"}},
		{Name: "error_in_the_stream", Error: "Overloaded now", Retryable: true, Stream: chunks(`{"role":"assistant","content":"So"}`, `data: {"error":{"message":"Overloaded now","code":503,"type":"server_error"}}`), Want: session.Reply{Text: "So"}},
	}
}

// OpenAI itself has another name for the limit of the output.
func TestLimitOfTheOutput(t *testing.T) {
	m, err := openai.New(wire.Options{Name: "m", Model: "m", BaseURL: openai.DefaultURL, MaxOutputTokens: 5})
	if err != nil {
		t.Fatal(err)
	}
	if raw := m.Body(session.ModelRequest{}); !strings.Contains(raw, `"max_completion_tokens":5`) || strings.Contains(raw, "max_tokens") {
		t.Errorf("body: got %s", raw)
	}
}

func FuzzReply(f *testing.F) { conformance.Fuzz(f, samples(), openai.Model{}.Reply) }
