package anthropic_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/internal/conformance"
	"github.com/acode-dev/acode/provider/anthropic"
	"github.com/acode-dev/acode/provider/wire"
	"github.com/acode-dev/acode/session"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Provider{
		New:  func(o wire.Options) (engine.Model, error) { return anthropic.New(o) },
		Path: "/v1/messages", Request: published, Samples: samples(),
		Plain:   func(body map[string]any) { body["stream"] = false },
		There:   answer(200, `{"type":"model","id":"model-1","display_name":"Model 1","created_at":"2030-01-01T00:00:00Z"}`),
		NoModel: answer(404, `{"type":"error","error":{"type":"not_found_error","message":"model: model-1"},"request_id":"req_1"}`),
	})
}

func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// published is the body of a request as Anthropic's reference describes it.
const published = `{
	"model": "model-1", "stream": true, "max_tokens": 1000,
	"system": [{"type": "text", "text": "You work.", "cache_control": {"type": "ephemeral"}}],
	"tools": [{"name": "read_file", "description": "Read a file", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}}],
	"messages": [
		{"role": "user", "content": [{"type": "text", "text": "Do it"}]},
		` + native + `,
		{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "one"}]},
		{"role": "assistant", "content": [{"type": "text", "text": "From elsewhere."}, {"type": "tool_use", "id": "acode_2_1", "name": "read_file", "input": {"path": "b"}}]},
		{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "acode_2_1", "content": "two"}]},
		{"role": "assistant", "content": [{"type": "tool_use", "id": "acode_3_1", "name": "read_file", "input": {}},
			{"type": "tool_use", "id": "acode_3_2", "name": "read_file", "input": {}}, {"type": "tool_use", "id": "acode_3_3", "name": "finish", "input": {}}]},
		{"role": "user", "content": [
			{"type": "tool_result", "tool_use_id": "acode_3_1", "content": "NOT CARRIED OUT: two calls have one id", "is_error": true},
			{"type": "tool_result", "tool_use_id": "acode_3_2", "content": "NOT CARRIED OUT: two calls have one id", "is_error": true},
			{"type": "tool_result", "tool_use_id": "acode_3_3", "content": "three"}]},
		{"role": "assistant", "content": [{"type": "tool_use", "id": "acode_4_1", "name": "read_file", "input": {"not_an_object": "{\"path\":"}},
			{"type": "tool_use", "id": "acode_4_2", "name": "read_file", "input": {}}]},
		{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "acode_4_1", "content": "four"}, {"type": "tool_result", "tool_use_id": "acode_4_2", "content": "five"}]},
		{"role": "assistant", "content": [{"type": "text", "text": "I was about to"}]},
		{"role": "user", "content": [{"type": "text", "text": "You were cut off", "cache_control": {"type": "ephemeral"}}]}
	]
}`

// native has a thinking block with its signature, a block that acode does not know, and
// unknown fields.
const native = `{"role":"assistant","content":[{"type":"thinking","thinking":"Hm, \u00e4 😀","signature":"EqQB+/=="},{"type":"redacted_thinking","data":"x<y"},` +
	`{"type": "new_block", "z":1.0,"a":"\u003c"},{"type":"text","text":"I <look> & see.","x":null},{"type":"tool_use","id":"call_1","name":"read_file","input":{"path":"a"},"caller":{"type":"direct"}}]}`

// stream is a stream of blocks. Each block is its beginning and its deltas, one a line. A
// text that begins with an exclamation mark is a whole event.
func stream(reason string, blocks ...string) string {
	var out strings.Builder
	send := func(data string) {
		var e struct {
			Type string `json:"type"`
		}
		_ = json.Unmarshal([]byte(data), &e) // some samples are malformed
		fmt.Fprintf(&out, "event: %s\ndata: %s\n\n", e.Type, data)
	}
	send(`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":8,"cache_read_input_tokens":12,"output_tokens":1}}}`)
	send(`{"type":"ping"}`)
	n := 0
	for _, b := range blocks {
		if event, is := strings.CutPrefix(b, "!"); is {
			send(event)
			continue
		}
		begin, deltas, _ := strings.Cut(b, "\n")
		send(fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, n, begin))
		for d := range strings.SplitSeq(deltas, "\n") {
			if d != "" {
				send(fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":%s}`, n, d))
			}
		}
		send(fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, n))
		n++
	}
	if reason != "" {
		send(`{"type":"message_delta","delta":{"stop_reason":"` + reason + `","stop_sequence":null},"usage":{"output_tokens":7}}`)
		send(`{"type":"message_stop"}`)
	}
	return out.String()
}

// whole is an answer that is not streamed.
func whole(native, reason string) string {
	content := strings.TrimSuffix(strings.TrimPrefix(native, `{"role":"assistant","content":`), "}")
	return `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":` + content + `,"stop_reason":"` + reason + `","stop_sequence":null,
		"usage":{"input_tokens":10,"cache_creation_input_tokens":8,"cache_read_input_tokens":12,"output_tokens":7}}`
}

var used = session.Usage{Input: 30, Output: 7, Cached: 12}

// begun is the usage of a stream without its end.
var begun = session.Usage{Input: 30, Output: 1, Cached: 12}

func call(n int, id, tool, arguments string) session.ModelCall {
	return session.ModelCall{Number: n, ID: id, Tool: tool, Arguments: arguments}
}

const (
	text  = `{"type":"text","text":""}`
	so    = text + "\n" + `{"type":"text_delta","text":"So"}`
	two   = `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"x": 1.50}},{"type":"tool_use","id":"b","name":"g","input":{}}]}`
	noID  = `{"role":"assistant","content":[{"type":"tool_use","name":"g","input":{}}]}`
	cited = `{"role":"assistant","content":[{"type":"text","text":"Yes","citations":[{"n":1},{"n":2}]}]}`
)

func samples() []conformance.Sample {
	return []conformance.Sample{
		{Name: "every_kind_of_block", Native: native, Whole: whole(native, "tool_use"), Stream: stream("tool_use",
			`{"type":"thinking","thinking":"","signature":""}`+"\n"+`{"type":"thinking_delta","thinking":"Hm, \u00e4"}`+"\n"+`{"type":"thinking_delta","thinking":" 😀"}`+"\n"+`{"type":"signature_delta","signature":"EqQB+/=="}`,
			`{"type":"redacted_thinking","data":"x<y"}`, `{"type": "new_block", "z":1.0,"a":"\u003c"}`,
			`{"type":"text","text":"","x":null}`+"\n"+`{"type":"text_delta","text":"I <look>"}`+"\n"+`{"type":"text_delta","text":" & see."}`,
			`{"type":"tool_use","id":"call_1","name":"read_file","input":{},"caller":{"type":"direct"}}`+"\n"+`{"type":"input_json_delta","partial_json":""}`+"\n"+`{"type":"input_json_delta","partial_json":"{\"pa"}`+"\n"+`{"type":"input_json_delta","partial_json":"th\":\"a\"}"}`),
			Want: session.Reply{Text: "I <look> & see.", Calls: []session.ModelCall{call(1, "call_1", "read_file", `{"path":"a"}`)}, Usage: used, Whole: true}},
		{Name: "two_calls", Native: two, Whole: whole(two, "tool_use"), Stream: stream("tool_use", `{"type":"tool_use","id":"a","name":"f","input":{}}`+"\n"+`{"type":"input_json_delta","partial_json":"{\"x\": 1.50}"}`,
			`{"type":"tool_use","id":"b","name":"g","input":{}}`),
			Want: session.Reply{Calls: []session.ModelCall{call(1, "a", "f", `{"x": 1.50}`), call(2, "b", "g", "{}")}, Usage: used, Whole: true}},
		{Name: "call_without_id", Native: noID, Whole: whole(noID, "tool_use"), Stream: stream("tool_use", `{"type":"tool_use","name":"g","input":{}}`),
			Want: session.Reply{Calls: []session.ModelCall{call(1, "", "g", "{}")}, Usage: used, Whole: true}},
		{Name: "cut_arguments", Stream: stream("max_tokens", so, `{"type":"tool_use","id":"a","name":"f","input":{}}`+"\n"+`{"type":"input_json_delta","partial_json":"{\"x\":\"lo"}`),
			Want: session.Reply{Text: "So", Calls: []session.ModelCall{call(1, "a", "f", `{"x":"lo`)}, Usage: used, Whole: true, Ended: session.EndedLength}},
		{Name: "citations", Native: cited, Whole: whole(cited, "end_turn"), Stream: stream("end_turn", `{"type":"text","text":"","citations":[]}`+"\n"+`{"type":"text_delta","text":"Yes"}`+"\n"+`{"type":"citations_delta","citation":{"n":1}}`+"\n"+`{"type":"citations_delta","citation":{"n":2}}`),
			Want: session.Reply{Text: "Yes", Usage: used, Whole: true}},
		// the API refuses empty texts, so they do not go back
		{Name: "empty_text", Native: `{"role":"assistant","content":[{"type":"text","text":"So"}]}`, Stream: stream("end_turn", text, so), Want: session.Reply{Text: "So", Usage: used, Whole: true}},
		{Name: "half_characters", Native: `{"role":"assistant","content":[{"type":"text","text":"\ud83d\ude00"}]}`, Stream: stream("end_turn", text+"\n"+`{"type":"text_delta","text":"\ud83d"}`+"\n"+`{"type":"text_delta","text":"\ude00"}`),
			Want: session.Reply{Text: "😀", Usage: used, Whole: true}},
		{Name: "refusal", Whole: whole(`{"role":"assistant","content":[]}`, "refusal"), Stream: stream("refusal"), Want: session.Reply{Usage: used, Whole: true, Ended: session.EndedRefusal}},
		{Name: "other_reason", Stream: stream("pause_turn", so), Want: session.Reply{Text: "So", Usage: used, Whole: true, Ended: "pause_turn"}},
		{Name: "other_event", Stream: stream("end_turn", so, `!{"type":"news","text":"of no block"}`), Want: session.Reply{Text: "So", Usage: used, Whole: true}},
		{Name: "unknown_delta", Error: "the provider anthropic: plan_delta;", Stream: stream("end_turn", so+"\n"+`{"type":"plan_delta","plan":"x"}`), Want: session.Reply{Text: "So", Usage: begun}},
		{Name: "unknown_field_of_a_delta", Error: "text_delta.weight", Stream: stream("end_turn", so+"\n"+`{"type":"text_delta","text":"x","weight":1}`), Want: session.Reply{Text: "So", Usage: begun}},
		{Name: "unknown_event_of_a_block", Error: "content_block_patch", Stream: stream("end_turn", so, `!{"type":"content_block_patch","index":0,"patch":"x"}`), Want: session.Reply{Text: "So", Usage: begun}},
		{Name: "delta_of_another_type", Error: "text_delta: text is not a text", Stream: stream("end_turn", so+"\n"+`{"type":"text_delta","text":["x"]}`), Want: session.Reply{Text: "So", Usage: begun}},
		{Name: "delta_without_a_block", Error: "a delta of block 3", Stream: stream("end_turn", so, `!{"type":"content_block_delta","index":3,"delta":{"type":"text_delta","text":"x"}}`), Want: session.Reply{Text: "So", Usage: begun}},
		{Name: "block_left_out", Error: "the block 2 at the place of block 1", Stream: stream("end_turn", so, `!{"type":"content_block_start","index":2,"content_block":{"type":"text","text":"x"}}`), Want: session.Reply{Text: "So", Usage: begun}},
		{Name: "malformed", Error: "cannot be read", Stream: stream("end_turn", so, `!{"type":`), Want: session.Reply{Text: "So", Usage: begun}},
		{Name: "error_in_the_stream", Error: "Overloaded", Retryable: true, Stream: stream("", so, `!{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), Want: session.Reply{Text: "So", Usage: begun}},
		{Name: "error_after_the_end", Error: "Lost it", Stream: stream("end_turn", so) + "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"x\",\"message\":\"Lost it\"}}\n\n", Want: session.Reply{Text: "So", Usage: used}},
	}
}

// A model without max_output_tokens gets a limit that each model allows. A part that was
// cut keeps no space at its end, and an empty one is left out: the API refuses both.
func TestRequestThatTheServerTakes(t *testing.T) {
	m, err := anthropic.New(wire.Options{Name: "m", Model: "m", BaseURL: anthropic.DefaultURL})
	if err != nil {
		t.Fatal(err)
	}
	raw := m.Body(session.ModelRequest{Messages: []session.Message{
		{Role: session.RoleUser, Text: "a"}, {Role: session.RoleModel, Text: "b \n", Cut: true}, {Role: session.RoleModel, Cut: true}, {Role: session.RoleUser, Text: ""}, {Role: session.RoleUser, Text: "c"}}})
	want := `"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":[{"type":"text","text":"b"}]},{"role":"user","content":[{"type":"text","text":"c","cache_control":{"type":"ephemeral"}}]}]`
	if !strings.Contains(raw, want) || !strings.Contains(raw, `"max_tokens":8192`) {
		t.Errorf("body: got %s, want %s", raw, want)
	}
}

func FuzzReply(f *testing.F) { conformance.Fuzz(f, samples(), anthropic.Model{}.Reply) }
