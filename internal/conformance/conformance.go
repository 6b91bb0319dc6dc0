// Package conformance tests providers of models. Each provider passes the same suite,
// with samples of its own dialect.
package conformance

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/provider/wire"
	"github.com/acode-dev/acode/session"
)

// Provider is a provider under test.
type Provider struct {
	New func(o wire.Options) (engine.Model, error)
	// Base is the path of the base URL, and Path that of a request to the model.
	Base, Path string
	// Plain changes the body of a request, so that the answer is not streamed.
	Plain func(body map[string]any)
	// Request is the body of the request that Talk makes.
	Request string
	// Samples are replies of the dialect.
	Samples []Sample
	// There answers a Check, and NoModel answers a Check and a request for a model that
	// does not exist.
	There, NoModel http.HandlerFunc
}

// Sample is a reply, and how it must be read.
type Sample struct {
	Name string
	// Stream is a reply as a stream.
	Stream string
	// Whole is the same reply when it is not streamed; empty for none.
	Whole string
	// Want is the reply without Native.
	Want session.Reply
	// Native is the message in the form of the provider; empty for none.
	Native string
	// Error is a part of the error; empty for none.
	Error string
	// Retryable is that of the error.
	Retryable bool
}

// Key is the key of the models of the suite.
const Key = "hunter22-of-the-suite-d41d8cd98f00b204"

// Run runs the suite.
func Run(t *testing.T, p Provider) {
	t.Run("proxy", p.proxy) // first, because net/http reads the environment once
	t.Run("request", p.request)
	t.Run("replies", p.replies)
	t.Run("cuts", p.cuts)
	t.Run("transfer", p.transfer)
	t.Run("broken_transfer", p.brokenTransfer)
	t.Run("refusals", p.refusals)
	t.Run("waits", p.waits)
	t.Run("deadline", p.deadline)
	t.Run("too_long", p.tooLong)
	t.Run("redirect", p.redirect)
	t.Run("plaintext", p.plaintext)
	t.Run("key", p.key)
	t.Run("check", p.check)
	t.Run("script", p.script)
}

// model returns a model at url.
func (p Provider) model(t *testing.T, url string, with ...func(*wire.Options)) engine.Model {
	t.Helper()
	o := wire.Options{Name: "m", Model: "model-1", BaseURL: url + p.Base, KeyName: "THE_KEY", Key: Key, ContextTokens: 8192, MaxOutputTokens: 1000, Now: now}
	for _, change := range with {
		change(&o)
	}
	m, err := p.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Talk returns a request with messages of every kind. native is a message of the model m.
func Talk(m engine.Model, native string) session.ModelRequest {
	call := func(id, tool, arguments string, n int) session.ModelCall {
		return session.ModelCall{Number: n, ID: id, Tool: tool, Arguments: arguments}
	}
	model := func(text string, calls ...session.ModelCall) session.Message {
		return session.Message{Role: session.RoleModel, Text: text, Calls: calls}
	}
	own := model("I <look> & see.", call("call_1", "read_file", `{"path":"a"}`, 1))
	own.Native, own.Model = json.RawMessage(native), m.Setup()
	foreign := model("From elsewhere.", call("x", "read_file", `{"path":"b"}`, 1))
	foreign.Native, foreign.Model = json.RawMessage(`{"of":"another"}`), session.ModelSetup{Provider: "another"}
	tool := func(id, text string) session.Message {
		return session.Message{Role: session.RoleTool, Call: id, Text: text}
	}
	ids := model("", call("same", "read_file", "{}", 1), call("same", "read_file", "{}", 2), call("", "finish", "{}", 3))
	bad := model("", call("c", "read_file", `{"path":`, 1), call("d", "read_file", "", 2))
	for _, msg := range []*session.Message{&ids, &bad} {
		msg.Native, msg.Model = json.RawMessage(`{"sent":"by mistake"}`), m.Setup()
	}
	failed := tool("same", "NOT CARRIED OUT: two calls have one id")
	failed.Failed = true
	cut := model("I was about to")
	cut.Cut = true
	return session.ModelRequest{
		System: "You work.",
		Messages: []session.Message{
			{Role: session.RoleUser, Text: "Do it"}, own, tool("call_1", "one"), foreign, tool("x", "two"),
			ids, failed, failed, tool("", "three"), bad, tool("c", "four"), tool("d", "five"), cut, {Role: session.RoleUser, Text: "You were cut off"},
		},
		Tools: []session.ModelTool{{Name: "read_file", About: "Read a file", Schema: `{"type":"object","properties":{"path":{"type":"string"}}}`}},
	}
}

// request compares a request with the published form.
func (p Provider) request(t *testing.T) {
	native := p.Samples[0].Native
	var body []byte
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body = read(t, r.Body)
		if r.Method != http.MethodPost || r.URL.Path != p.Path || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("the request: got %s %s with %v", r.Method, r.URL.Path, r.Header)
		}
	})
	m := p.model(t, s.URL)
	if _, err := ask(t, m, Talk(m, native)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(parse(t, p.Request), parse(t, string(body))); diff != "" {
		t.Errorf("the request (-want +got):\n%s", diff)
	}
	if !strings.Contains(string(body), native) {
		t.Errorf("the model's own message is not in the request as it came:\n%s", body)
	}
}

func (p Provider) replies(t *testing.T) {
	m := p.model(t, "http://127.0.0.1:1")
	for _, s := range p.Samples {
		t.Run(s.Name, func(t *testing.T) {
			forms := []string{s.Stream, strings.ReplaceAll(s.Stream, "\n", "\r\n")}
			if s.Whole != "" {
				forms = append(forms, s.Whole)
			}
			for _, raw := range forms {
				got, err := m.Reply([]byte(raw))
				if s.Error == "" && err != nil || s.Error != "" && !failsWith(err, session.ErrModel, s.Error, s.Retryable) {
					t.Fatalf("Reply of %.80q: got %v, want an error with %q, retryable %t", raw, err, s.Error, s.Retryable)
				}
				if s.Native != "" && cmp.Diff(parse(t, s.Native), parse(t, string(got.Native))) != "" || got.Native != nil && (!got.Whole || !json.Valid(got.Native)) {
					t.Errorf("native: got %s\nwant %s", got.Native, s.Native)
				}
				if s.Native != "" && raw == s.Stream && string(got.Native) != s.Native {
					t.Errorf("native of the stream: got %s\nwant %s", got.Native, s.Native)
				}
				if diff := cmp.Diff(s.Want, got, cmpopts.IgnoreFields(session.Reply{}, "Native")); diff != "" {
					t.Errorf("Reply of %.80q (-want +got):\n%s", raw, diff)
				}
			}
		})
	}
}

// cuts reads each reply up to each of its bytes. A part is never taken for the whole, and
// its text and calls are a beginning of those of the whole.
func (p Provider) cuts(t *testing.T) {
	m := p.model(t, "http://127.0.0.1:1")
	for _, s := range p.Samples {
		for _, raw := range []string{s.Stream, s.Whole} {
			for n := range len(raw) {
				got, err := m.Reply([]byte(raw[:n]))
				if err != nil && (s.Error == "" || !failsWith(err, session.ErrModel, s.Error, s.Retryable)) {
					t.Fatalf("%s: the first %d bytes: %v", s.Name, n, err)
				}
				if got.Whole && s.Error == "" && cmp.Diff(s.Want, got, cmpopts.IgnoreFields(session.Reply{}, "Native", "Usage")) != "" {
					t.Fatalf("%s: the first %d bytes are taken for the whole: %+v", s.Name, n, got)
				}
				if !begins(s.Want, got) {
					t.Fatalf("%s: the first %d bytes give %+v, which is no part of %+v", s.Name, n, got, s.Want)
				}
			}
		}
	}
}

// begins reports whether got is a beginning of want. The end of a character may be
// missing.
func begins(want, got session.Reply) bool {
	start := func(whole, part string) bool {
		return strings.HasPrefix(whole, strings.TrimRight(part, "\ufffd"))
	}
	if !start(want.Text, got.Text) || len(got.Calls) > len(want.Calls) {
		return false
	}
	for i, c := range got.Calls {
		if w := want.Calls[i]; c.Number != w.Number || !start(w.ID, c.ID) || !start(w.Tool, c.Tool) || !start(w.Arguments, c.Arguments) {
			return false
		}
	}
	return true
}

// ask asks m and returns the bytes of its reply.
func ask(t *testing.T, m engine.Model, r session.ModelRequest) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var out strings.Builder
	err := m.Ask(ctx, r, &out)
	return out.String(), err
}
