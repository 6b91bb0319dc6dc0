package sdks

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/acode-dev/acode/provider/openai"
	"github.com/acode-dev/acode/session"
)

// chatStream is a random stream.
func (p pick) chatStream() string {
	var out strings.Builder
	send := func(delta, reason string) {
		fmt.Fprintf(&out, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]}\n\n", delta, reason)
	}
	send(`{"role":"assistant","content":""}`, "null")
	if p.IntN(4) > 0 {
		for _, part := range p.parts(p.text()) {
			send(`{"content":`+encoded(part)+`}`, "null")
		}
	}
	for i := range p.IntN(4) {
		send(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":"call_%d","type":"function","function":{"name":"f","arguments":""}}]}`, i, i), "null")
		for _, part := range p.parts(p.object()) {
			send(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, i, encoded(part)), "null")
		}
	}
	send("{}", `"stop"`)
	out.WriteString("data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":5,\"total_tokens\":14,\"prompt_tokens_details\":{\"cached_tokens\":3}}}\n\ndata: [DONE]\n\n")
	return out.String()
}

// The official client joins a stream to the same message.
func TestOpenAIStreams(t *testing.T) {
	var stream string
	client := sdk.NewClient(option.WithBaseURL(serves(t, &stream)), option.WithAPIKey("k"), option.WithMaxRetries(0))
	for seed := range uint64(rounds) {
		stream = random(seed).chatStream()
		var theirs sdk.ChatCompletionAccumulator
		chunks := client.Chat.Completions.NewStreaming(t.Context(), sdk.ChatCompletionNewParams{Model: "m", Messages: []sdk.ChatCompletionMessageParamUnion{sdk.UserMessage("x")}})
		for chunks.Next() {
			if !theirs.AddChunk(chunks.Current()) {
				t.Fatalf("seed %d: the client refuses a chunk", seed)
			}
		}
		if chunks.Err() != nil {
			t.Fatalf("seed %d: %v", seed, chunks.Err())
		}
		ours, err := openai.Model{}.Reply([]byte(stream))
		if err != nil || !ours.Whole || ours.Ended != "" {
			t.Fatalf("seed %d: got %+v, %v", seed, ours, err)
		}
		msg := theirs.Choices[0].Message
		same(t, "usage", session.Usage{Input: theirs.Usage.PromptTokens, Output: theirs.Usage.CompletionTokens, Cached: theirs.Usage.PromptTokensDetails.CachedTokens}, ours.Usage)
		var calls []session.ModelCall
		for i, c := range msg.ToolCalls {
			calls = append(calls, session.ModelCall{Number: i + 1, ID: c.ID, Tool: c.Function.Name, Arguments: c.Function.Arguments})
		}
		same(t, fmt.Sprintf("seed %d, text", seed), msg.Content, ours.Text)
		same(t, fmt.Sprintf("seed %d, calls", seed), calls, ours.Calls)
		var back sdk.ChatCompletionMessage
		if err := back.UnmarshalJSON(ours.Native); err != nil {
			t.Fatal(err)
		}
		same(t, fmt.Sprintf("seed %d, the message to send back", seed), parse(t, encoded(msg.ToParam())), parse(t, encoded(back.ToParam())))
	}
}

// The official client knows every field of a request of acode.
func TestOpenAIRequest(t *testing.T) {
	var body []byte
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { body, _ = io.ReadAll(r.Body) })) // a part fails below
	defer s.Close()
	m, err := openai.New(options(s.URL))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Ask(t.Context(), conversation(m, `{"role":"assistant","content":"I do"}`), io.Discard); err != nil {
		t.Fatal(err)
	}
	var theirs sdk.ChatCompletionNewParams
	if err := theirs.UnmarshalJSON(body); err != nil {
		t.Fatal(err)
	}
	ours := parse(t, string(body)).(map[string]any)
	delete(ours, "stream") // the client has a method for it
	same(t, "the request", parse(t, encoded(theirs)), any(ours))
}
