package sdks

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/provider/wire"
	"github.com/acode-dev/acode/session"
)

// rounds is the number of random messages.
const rounds = 300

// pick makes random parts of messages.
type pick struct{ *rand.Rand }

func random(seed uint64) pick { return pick{rand.New(rand.NewPCG(seed, 7))} }

// text returns a text that is not empty.
func (p pick) text() string {
	letters := []rune("abc äß漢😀\n\t\"\\<>&\u2028\x00/{}[]:,")
	out := make([]rune, 1+p.IntN(40))
	for i := range out {
		out[i] = letters[p.IntN(len(letters))]
	}
	return string(out)
}

// object returns a JSON object.
func (p pick) object() string {
	o := map[string]any{}
	for range p.IntN(4) {
		o[p.text()] = []any{p.text(), p.Float64(), p.IntN(1000), true, nil, map[string]any{"a": p.text()}, []any{}}[p.IntN(7)]
	}
	return encoded(o)
}

// parts cuts a text at random characters.
func (p pick) parts(s string) (out []string) {
	runes := []rune(s)
	for len(runes) > 0 {
		n := 1 + p.IntN(len(runes))
		out, runes = append(out, string(runes[:n])), runes[n:]
	}
	return out
}

func encoded(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func parse(t *testing.T, raw string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(raw), &v); err != nil {
		t.Fatalf("not JSON: %v: %s", err, raw)
	}
	return v
}

func same(t *testing.T, what string, sdk, ours any) {
	t.Helper()
	if diff := cmp.Diff(sdk, ours); diff != "" {
		t.Fatalf("%s (-SDK +acode):\n%s", what, diff)
	}
}

// serves returns the URL of a server that answers with the present value of stream.
func serves(t *testing.T, stream *string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(*stream)) // a client that is gone fails its test
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func options(url string) wire.Options {
	return wire.Options{Name: "m", Model: "m", BaseURL: url, Key: "k", KeyName: "K", Now: time.Now}
}

// conversation has messages of every kind, with native as one of the model.
func conversation(m engine.Model, native string) session.ModelRequest {
	calls := []session.ModelCall{{Number: 1, ID: "a", Tool: "f", Arguments: `{"x":1}`}, {Number: 2, ID: "a", Tool: "g", Arguments: `{"x"`}}
	return session.ModelRequest{System: "You work.", Messages: []session.Message{
		{Role: session.RoleUser, Text: "Do it"},
		{Role: session.RoleModel, Text: "I do", Native: json.RawMessage(native), Model: m.Setup()},
		{Role: session.RoleUser, Text: "Go on"},
		{Role: session.RoleModel, Text: "I go on", Calls: calls},
		{Role: session.RoleTool, Call: "a", Text: "one"}, {Role: session.RoleTool, Call: "a", Text: "two", Failed: true},
		{Role: session.RoleModel, Text: "cut", Cut: true}, {Role: session.RoleUser, Text: "Again"},
	}, Tools: []session.ModelTool{{Name: "f", About: "does f", Schema: `{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}`}}}
}
