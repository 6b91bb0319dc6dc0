package sdks

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/acode-dev/acode/provider/anthropic"
	"github.com/acode-dev/acode/session"
)

// block returns the beginning and the deltas of a block.
func (p pick) block(n int) (begin string, deltas []string) {
	delta := func(kind, field, text string) {
		for _, part := range p.parts(text) {
			deltas = append(deltas, fmt.Sprintf(`{"type":%q,%q:%s}`, kind, field, encoded(part)))
		}
	}
	switch p.IntN(4) {
	case 0:
		delta("text_delta", "text", p.text())
		return `{"type":"text","text":""}`, deltas
	case 1:
		delta("thinking_delta", "thinking", p.text())
		delta("signature_delta", "signature", p.text())
		return `{"type":"thinking","thinking":"","signature":""}`, deltas
	case 2:
		return `{"type":"redacted_thinking","data":` + encoded(p.text()) + `}`, nil
	}
	delta("input_json_delta", "partial_json", p.object())
	return fmt.Sprintf(`{"type":"tool_use","id":"toolu_%d","name":"f","input":{}}`, n), deltas
}

// messageStream is a random stream.
func (p pick) messageStream() string {
	var out strings.Builder
	send := func(kind, rest string) {
		fmt.Fprintf(&out, "event: %s\ndata: {\"type\":%q%s}\n\n", kind, kind, rest)
	}
	send("message_start", `,"message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":1}}`)
	for i := range 1 + p.IntN(5) {
		begin, deltas := p.block(i)
		send("content_block_start", fmt.Sprintf(`,"index":%d,"content_block":%s`, i, begin))
		for _, d := range deltas {
			send("content_block_delta", fmt.Sprintf(`,"index":%d,"delta":%s`, i, d))
		}
		send("content_block_stop", fmt.Sprintf(`,"index":%d`, i))
	}
	send("message_delta", `,"delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":5}`)
	send("message_stop", "")
	return out.String()
}

// The official client joins a stream to the same message.
func TestAnthropicStreams(t *testing.T) {
	var stream string
	client := sdk.NewClient(option.WithBaseURL(serves(t, &stream)), option.WithAPIKey("k"), option.WithMaxRetries(0))
	for seed := range uint64(rounds) {
		stream = random(seed).messageStream()
		var theirs sdk.Message
		events := client.Messages.NewStreaming(t.Context(), sdk.MessageNewParams{Model: "m", MaxTokens: 1, Messages: []sdk.MessageParam{sdk.NewUserMessage(sdk.NewTextBlock("x"))}})
		for events.Next() {
			if err := theirs.Accumulate(events.Current()); err != nil {
				t.Fatal(err)
			}
		}
		if events.Err() != nil {
			t.Fatalf("seed %d: %v", seed, events.Err())
		}
		ours, err := anthropic.Model{}.Reply([]byte(stream))
		if err != nil || !ours.Whole || ours.Ended != "" {
			t.Fatalf("seed %d: got %+v, %v", seed, ours, err)
		}
		same(t, fmt.Sprintf("seed %d, the message to send back", seed), parse(t, encoded(theirs.ToParam())), parse(t, string(ours.Native)))
		same(t, "usage", session.Usage{Input: theirs.Usage.InputTokens, Output: theirs.Usage.OutputTokens}, ours.Usage)
		text, calls := "", []session.ModelCall(nil)
		for _, b := range theirs.Content {
			switch b.Type {
			case "text":
				text += b.Text
			case "tool_use":
				calls = append(calls, session.ModelCall{Number: len(calls) + 1, ID: b.ID, Tool: b.Name, Arguments: string(b.Input)})
			}
		}
		same(t, fmt.Sprintf("seed %d, text", seed), text, ours.Text)
		same(t, fmt.Sprintf("seed %d, calls", seed), calls, ours.Calls)
	}
}

// The official client knows every field of a request of acode.
func TestAnthropicRequest(t *testing.T) {
	var body []byte
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { body, _ = io.ReadAll(r.Body) })) // a part fails below
	defer s.Close()
	m, err := anthropic.New(options(s.URL))
	if err != nil {
		t.Fatal(err)
	}
	native := `{"role":"assistant","content":[{"type":"thinking","thinking":"Hm","signature":"s"},{"type":"text","text":"I do"}]}`
	if err := m.Ask(t.Context(), conversation(m, native), io.Discard); err != nil {
		t.Fatal(err)
	}
	var theirs sdk.MessageNewParams
	if err := theirs.UnmarshalJSON(body); err != nil {
		t.Fatal(err)
	}
	ours := parse(t, string(body)).(map[string]any)
	delete(ours, "stream") // the client has a method for it
	// the client writes the content of a result as a list
	for _, msg := range ours["messages"].([]any) {
		for _, b := range msg.(map[string]any)["content"].([]any) {
			if b := b.(map[string]any); b["type"] == "tool_result" {
				b["content"] = []any{map[string]any{"type": "text", "text": b["content"]}}
			}
		}
	}
	same(t, "the request", parse(t, encoded(theirs)), any(ours))
}
