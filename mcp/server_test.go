package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/internal/caller"
	"github.com/acode-dev/acode/mcp"
	"github.com/acode-dev/acode/session"
)

// house has the conversations of a workspace in memory. Its commands end at once, unless
// they begin with "hold": those end with release.
type house struct {
	mu      sync.Mutex
	ops     []*op
	settled []string
	// asks is how many calls need a yes from now on.
	asks    int
	answers []app.Answer
	// refusals is how many calls are refused from now on.
	refusals int
	// news is closed and made again when something changes.
	news chan struct{}
}

type op struct {
	call   app.Call
	result app.CallResult
	ended  chan struct{}
}

func newHouse() *house { return &house{news: make(chan struct{})} }

func (h *house) tellAll() {
	close(h.news)
	h.news = make(chan struct{})
}

// until waits until is returns true.
func (h *house) until(t *testing.T, what string, is func() bool) {
	t.Helper()
	late := time.After(caller.Patience)
	for {
		h.mu.Lock()
		ok, news := is(), h.news
		h.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-news:
		case <-late:
			t.Fatalf("never: %s", what)
		}
	}
}

// effects returns the calls that were carried out.
func (h *house) effects() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := []string{}
	for _, o := range h.ops {
		out = append(out, o.call.Tool+" "+o.call.Arguments)
	}
	return out
}

func (h *house) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.ops {
		if o.result.Outcome == app.CallRuns {
			o.finish()
		}
	}
	h.tellAll()
}

func (o *op) finish() {
	o.result.Outcome, o.result.EndedUS = app.CallDone, time.Now().UnixMicro()
	if o.call.Step.Run != nil {
		o.result.Command = &session.CommandResult{}
	}
	close(o.ended)
}

// visit is a connection to the house.
type visit struct{ *house }

func (v visit) Session(context.Context) (session.ID, string) { return "id", "short" }
func (v visit) Close() error                                 { return nil }

func (v visit) Owed(context.Context) ([]app.CallResult, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []app.CallResult
	for _, o := range v.ops {
		if !slices.Contains(v.settled, o.result.Op.Op) {
			out = append(out, o.result)
		}
	}
	return out, nil
}

func (v visit) Do(ctx context.Context, call app.Call, patience time.Duration) (app.CallResult, error) {
	v.mu.Lock()
	if v.refusals > 0 {
		v.refusals--
		v.mu.Unlock()
		return app.CallResult{}, &session.Error{Code: session.ErrLocked, Message: "another session executes here; nothing was changed", Retryable: true}
	}
	if v.asks > 0 {
		v.asks--
		v.mu.Unlock()
		if n := len(v.answers); n > 0 && !v.answers[n-1].Granted {
			return app.CallResult{}, &session.Error{Code: session.ErrDenied, Message: "a person denied this call; nothing was changed"}
		}
		q := session.ApprovalRequestedData{StepID: session.CallID(session.CallsStep(), 1), Question: "The agent asks to use " + call.Tool, Detail: call.Step.Does()}
		return app.CallResult{}, &app.AskedError{Question: q, Refusal: &session.Error{Code: session.ErrApproval, Message: "a person must allow it; nothing was changed", Next: session.Do(session.MoveApprove, "short")}}
	}
	o := &op{call: call, ended: make(chan struct{})}
	o.result = app.CallResult{Op: session.CallID(session.CallsStep(), len(v.ops)+1), Tool: call.Tool, Digest: call.Digest(), Label: call.Step.Label(), Outcome: app.CallRuns, StartedUS: time.Now().UnixMicro()}
	v.ops = append(v.ops, o)
	if run := call.Step.Run; run == nil || !strings.HasPrefix(run.Shell, "hold") {
		o.finish()
	}
	v.tellAll()
	v.mu.Unlock()
	return v.Wait(ctx, o.result.Op, patience)
}

func (v visit) find(id session.StepID) (*op, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, o := range v.ops {
		if o.result.Op == id {
			return o, nil
		}
	}
	return nil, &session.Error{Code: session.ErrUnknownID, Message: "no such operation"}
}

func (v visit) Wait(ctx context.Context, id session.StepID, patience time.Duration) (app.CallResult, error) {
	o, err := v.find(id)
	if err != nil {
		return app.CallResult{}, err
	}
	select {
	case <-o.ended:
	case <-ctx.Done():
	case <-time.After(patience):
	}
	return v.Answered(ctx, id)
}

func (v visit) Answered(_ context.Context, id session.StepID) (app.CallResult, error) {
	o, err := v.find(id)
	if err != nil {
		return app.CallResult{}, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return o.result, nil
}

func (v visit) Stop(ctx context.Context, id session.StepID) (app.CallResult, error) {
	v.release()
	return v.Answered(ctx, id)
}

func (v visit) Since(context.Context, *app.CallResult) error { return nil }

func (v visit) Output(_ context.Context, id session.StepID, from int64, limit int) (string, int64, int64, error) {
	o, err := v.find(id)
	if err != nil {
		return "", 0, 0, err
	}
	all := "output of " + o.call.Step.Run.Shell + "\n"
	if strings.HasPrefix(o.call.Step.Run.Shell, "long") {
		all = strings.Repeat("0123456789abcde\n", 4096)
	}
	from = min(from, int64(len(all)))
	part := all[from:min(int64(len(all)), from+int64(limit))]
	return part, from + int64(len(part)), int64(len(all)), nil
}

// Question and Answer implement mcp.Conversation.
func (v visit) Question(e *app.AskedError) session.Gate { return session.CallGateOf(e.Question) }

func (v visit) Answer(_ context.Context, e *app.AskedError, a app.Answer) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.answers = append(v.answers, a); a.Granted {
		v.asks = 0
	}
	return nil
}

func (v visit) Settle(ops ...session.StepID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, op := range ops {
		v.settled = append(v.settled, op.Op)
	}
	v.tellAll()
}

func (v visit) Restore(_ context.Context, c session.Change) (session.Change, error) {
	if strings.Contains(c.Content, "****") {
		return c, &session.Error{Code: session.ErrUsage, Message: "the mask stands for nothing; nothing was changed", Next: session.Words("read the file again")}
	}
	return c, nil
}

func (v visit) ReadFile(_ context.Context, call app.Call, line, lines int) (string, string, error) {
	return fmt.Sprintf("%s from %d", call.Step.Read.Path, line), "a note", nil
}

func (v visit) ListFiles(context.Context, app.Call, int) (string, string, error) {
	return "a\tfile\t1\n", "", nil
}

func (v visit) SearchFiles(context.Context, app.Call) (string, string, error) { return "", "", nil }

// guest is a client with its server.
type guest struct {
	*caller.Client
	t      *testing.T
	served chan error
}

// options allow everything in a house.
func (h *house) options(t *testing.T) mcp.Options {
	return mcp.Options{
		Connection: mcp.Connection{Version: "test", Here: t.TempDir(), Now: time.Now}, Conversation: "one", Patience: 100 * time.Millisecond, Message: time.Nanosecond,
		Open: func(context.Context, string, session.Agent, bool) (mcp.Conversation, error) { return visit{h}, nil },
	}
}

// connect starts a server in this process, over pipes of the kernel.
func connect(t *testing.T, o mcp.Options) guest {
	t.Helper()
	return connectUnder(t.Context(), t, o)
}

func connectUnder(ctx context.Context, t *testing.T, o mcp.Options) guest {
	t.Helper()
	return connectAs(ctx, t, o, "guest")
}

func connectAs(ctx context.Context, t *testing.T, o mcp.Options, client string) guest {
	t.Helper()
	g := newGuest(ctx, t, o)
	if err := g.Hello(client, nil); err != nil {
		t.Fatal(err)
	}
	return g
}

// newGuest starts a server. Its client has not said hello yet.
func newGuest(ctx context.Context, t *testing.T, o mcp.Options) guest {
	t.Helper()
	in, toServer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromServer, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	g := guest{caller.Over(toServer, fromServer), t, make(chan error, 1)}
	go func() {
		err := mcp.Serve(ctx, o, in, out)
		_, _ = in.Close(), out.Close() // the process would end here
		g.served <- err
	}()
	return g
}

func (g guest) call(tool, arguments string) caller.Result {
	g.t.Helper()
	r, err := g.Call(tool, json.RawMessage(arguments))
	if err != nil {
		g.t.Fatalf("%s: %v", tool, err)
	}
	return r
}

// want calls a tool and checks the outcome.
func (g guest) want(outcome, tool, arguments string) caller.Result {
	g.t.Helper()
	r := g.call(tool, arguments)
	if r.Structured.Outcome != outcome {
		g.t.Fatalf("%s %s: got %+v, want %s", tool, arguments, r, outcome)
	}
	return r
}

// over waits for the end of the server, which must come within a second.
func (g guest) over() error {
	g.t.Helper()
	select {
	case err := <-g.served:
		return err
	case <-time.After(time.Second):
		g.t.Fatal("the server did not end within a second")
		return nil
	}
}

// kill ends the connection as a kill of the client does.
func (g guest) kill() {
	g.t.Helper()
	g.Drop()
	_ = g.over() // it may have been writing
}

const ls = `{"command":"ls"}`

// What the client asks for again on a later connection is answered from the record, once,
// unless it says fresh.
func TestCallMadeAgain(t *testing.T) {
	h := newHouse()
	o := h.options(t)
	first := connect(t, o)
	first.want(app.CallDone, "run_command", ls)
	first.kill()
	second := connect(t, o)
	if fresh := second.want(app.CallDone, "run_command", `{"command":"ls","fresh":true}`); fresh.Structured.Recovered || fresh.Structured.Handle != "n2" {
		t.Errorf("a fresh call: got %+v, want n2", fresh)
	}
	again := second.want(app.CallDone, "run_command", ls)
	if !again.Structured.Recovered || again.Structured.Handle != "n1" || !strings.HasPrefix(again.Structured.Text, "NOT RUN NOW. The same call ran at ") || again.Content[0].Text != again.Structured.Text {
		t.Errorf("the call made again: got %+v, want the record of n1", again)
	}
	if wish := second.want(app.CallDone, "run_command", ls); wish.Structured.Recovered {
		t.Errorf("the call made a third time: got %+v, want it carried out", wish)
	}
	if got := len(h.effects()); got != 3 {
		t.Errorf("effects: got %d, want 3", got)
	}
}

// The first call that equals nothing owed lists what is owed, and is carried out when it
// is made again.
func TestCallTold(t *testing.T) {
	h := newHouse()
	o := h.options(t)
	first := connect(t, o)
	first.want(app.CallDone, "write_file", `{"path":"a","content":"x"}`)
	first.want(app.CallRuns, "run_command", `{"command":"hold"}`)
	first.kill()
	second := connect(t, o)
	told := second.want("told", "run_command", ls)
	if len(told.Structured.Owed) != 2 || told.Structured.Owed[0].Handle != "n1" || told.Structured.Owed[1].Outcome != app.CallRuns || !strings.Contains(told.Structured.Text, "NOT RUN. ") {
		t.Errorf("told: got %+v, want n1 and n2", told)
	}
	second.want(app.CallDone, "run_command", ls)
	running := second.want(app.CallRuns, "run_command", `{"command":"hold"}`)
	if running.Structured.Handle != "n2" || !running.Structured.Recovered {
		t.Errorf("a call that still runs: got %+v, want n2", running)
	}
	h.release()
	if ended := second.want(app.CallDone, "wait_command", `{"handle":"n2"}`); ended.Structured.Recovered {
		t.Errorf("its result: got %+v", ended)
	}
	if got := len(h.effects()); got != 3 {
		t.Errorf("effects: got %d, want 3", got)
	}
}

// Calls that the client sent before it had the told answer get the same.
func TestToldInParallel(t *testing.T) {
	h := newHouse()
	o, now := h.options(t), newClock()
	o.Message, o.Now = 0, now.time
	first := connect(t, o)
	first.want(app.CallDone, "write_file", `{"path":"a","content":"x"}`)
	first.kill()
	second := connect(t, o)
	var lines bytes.Buffer
	var answers []<-chan caller.Message
	for i := range 30 {
		answers = append(answers, second.Expect(fmt.Sprint(100+i)))
		fmt.Fprintf(&lines, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"run_command","arguments":{"command":"echo %d"}}}`+"\n", 100+i, i)
	}
	if _, err := second.Write(lines.Bytes()); err != nil {
		t.Fatal(err)
	}
	for _, a := range answers {
		m, err := second.Await(a)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := m.Tool(); err != nil || r.Structured.Outcome != "told" {
			t.Fatalf("a call of the batch: got %+v, %v, want told", r, err)
		}
	}
	now.add(mcp.DefaultMessage)
	second.want(app.CallDone, "run_command", ls)
}

// A client that makes the calls of one message one after another sends the second one
// when it has the told answer, before its model has seen that.
func TestToldInSeries(t *testing.T) {
	h := newHouse()
	o, now := h.options(t), newClock()
	o.Message, o.Now = 0, now.time
	first := connect(t, o)
	first.want(app.CallDone, "write_file", `{"path":"a","content":"x"}`)
	first.want(app.CallDone, "run_command", ls)
	first.kill()
	second := connect(t, o)
	second.want("told", "write_file", `{"path":"a","content":"in other words"}`)
	now.add(mcp.DefaultMessage - time.Millisecond)
	second.want("told", "run_command", `{"command":"ls ."}`)
	now.add(time.Millisecond)
	second.want(app.CallDone, "run_command", `{"command":"ls ."}`)
	if got := len(h.effects()); got != 3 {
		t.Errorf("effects: got %d, want 3", got)
	}
}

// Without an id of the conversation, an equal call is told and never answered from the
// record.
func TestCallOfUnknownConversation(t *testing.T) {
	h := newHouse()
	o := h.options(t)
	o.Conversation = ""
	first := connect(t, o)
	first.want(app.CallDone, "run_command", ls)
	first.kill()
	second := connect(t, o)
	second.want("told", "run_command", ls)
	if got := second.want(app.CallDone, "run_command", ls); got.Structured.Recovered {
		t.Errorf("after it was told: got %+v, want the call carried out", got)
	}
}

// Codex gives the id of its conversation in each call. A person and acode's own key
// come first.
func TestConversationOfClient(t *testing.T) {
	for name, row := range map[string]struct{ client, meta, option, want string }{
		"codex":                  {"codex-mcp-client", `{"threadId":"codex-1","callId":"c"}`, "", "codex-1"},
		"another_client":         {"guest", `{"threadId":"x"}`, "", ""},
		"the_person_says_so":     {"codex-mcp-client", `{"threadId":"codex-1"}`, "mine", "mine"},
		"the_client_says_it":     {"codex-mcp-client", `{"threadId":"codex-1","acode/conversation":"meta"}`, "", "meta"},
		"an_id_of_another_type":  {"codex-mcp-client", `{"threadId":7}`, "", ""},
		"an_id_that_is_too_long": {"codex-mcp-client", `{"threadId":"` + strings.Repeat("x", 201) + `"}`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse()
			o := h.options(t)
			got := make(chan session.Agent, 1)
			o.Conversation = row.option
			o.Open = func(_ context.Context, _ string, of session.Agent, _ bool) (mcp.Conversation, error) {
				got <- of
				return visit{h}, nil
			}
			g := connectAs(t.Context(), t, o, row.client)
			if _, err := g.Request("tools/call", map[string]any{"name": "run_command", "arguments": json.RawMessage(ls), "_meta": json.RawMessage(row.meta)}); err != nil {
				t.Fatal(err)
			}
			if of := <-got; of != (session.Agent{Client: row.client, Conversation: row.want}) {
				t.Errorf("got %+v, want the conversation %q", of, row.want)
			}
		})
	}
}

// An answer is settled by a later request, by a connection that stays open and by an end
// in order; not by a kill.
func TestSettling(t *testing.T) {
	t.Run("by_a_request", func(t *testing.T) {
		h := newHouse()
		o, now := h.options(t), newClock()
		o.Now = now.time
		g := connect(t, o)
		g.want(app.CallDone, "run_command", ls)
		g.want(app.CallDone, "session_state", `{}`)
		if owed, _ := (visit{h}).Owed(t.Context()); len(owed) != 1 {
			t.Errorf("at once: got %d owed calls, want 1", len(owed))
		}
		now.add(mcp.DefaultSettle)
		if _, err := g.Request("ping", map[string]any{}); err != nil {
			t.Fatal(err)
		}
		if owed, _ := (visit{h}).Owed(t.Context()); len(owed) != 0 {
			t.Errorf("two seconds later: got %d owed calls, want none", len(owed))
		}
	})
	t.Run("by_staying", func(t *testing.T) {
		h := newHouse()
		o := h.options(t)
		o.Settle = 50 * time.Millisecond
		g := connect(t, o)
		g.want(app.CallDone, "run_command", ls)
		h.until(t, "settled", func() bool { return len(h.settled) == 1 })
	})
	t.Run("by_an_end_in_order", func(t *testing.T) {
		h := newHouse()
		g := connect(t, h.options(t))
		g.want(app.CallDone, "run_command", ls)
		if err := g.End(); err != nil {
			t.Fatal(err)
		}
		if err := g.over(); err != nil || len(h.settled) != 1 {
			t.Errorf("got %v and %d settled calls, want 1", err, len(h.settled))
		}
	})
	t.Run("not_by_a_kill", func(t *testing.T) {
		h := newHouse()
		g := connect(t, h.options(t))
		g.want(app.CallDone, "run_command", ls)
		g.kill()
		if len(h.settled) != 0 {
			t.Errorf("got %d settled calls, want none", len(h.settled))
		}
	})
	t.Run("not_by_a_handle", func(t *testing.T) {
		h := newHouse()
		g := connect(t, h.options(t))
		g.want(app.CallRuns, "run_command", `{"command":"hold"}`)
		h.release()
		if err := g.End(); err != nil {
			t.Fatal(err)
		}
		if err := g.over(); err != nil || len(h.settled) != 0 {
			t.Errorf("got %v and %d settled calls, want none", err, len(h.settled))
		}
	})
}

// An answer to a request that the client took back is not settled.
func TestRequestTakenBack(t *testing.T) {
	h := newHouse()
	o := h.options(t)
	o.Patience = caller.Patience
	g := connect(t, o)
	answer, err := g.BeginCall("run_command", json.RawMessage(`{"command":"hold"}`))
	if err != nil {
		t.Fatal(err)
	}
	h.until(t, "begun", func() bool { return len(h.ops) == 1 })
	if err := g.Line(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`); err != nil {
		t.Fatal(err)
	}
	g.want(app.CallDone, "session_state", `{}`) // the cancellation was read before this
	h.release()
	if _, err := g.Await(answer); err != nil {
		t.Fatal(err)
	}
	if err := g.End(); err != nil {
		t.Fatal(err)
	}
	if err := g.over(); err != nil || len(h.settled) != 0 || len(h.effects()) != 1 {
		t.Errorf("got %v, %d settled calls and %d effects, want none and 1", err, len(h.settled), len(h.effects()))
	}
}

// A name in _meta makes two requests of one connection the same call.
func TestNamedCalls(t *testing.T) {
	h := newHouse()
	g := connect(t, h.options(t))
	named := func(name, command string) caller.Result {
		m, err := g.Request("tools/call", map[string]any{"name": "run_command", "arguments": map[string]any{"command": command}, "_meta": map[string]any{mcp.MetaCall: name}})
		if err != nil {
			t.Fatal(err)
		}
		r, err := m.Tool()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	one, same, other, conflict := named("a", "ls"), named("a", "ls"), named("b", "ls"), named("a", "pwd")
	if one.Structured.Handle != "n1" || same.Structured.Handle != "n1" || other.Structured.Handle != "n2" {
		t.Errorf("handles: got %s, %s and %s, want n1, n1 and n2", one.Structured.Handle, same.Structured.Handle, other.Structured.Handle)
	}
	if conflict.Structured.Code != string(session.ErrConflict) || len(h.effects()) != 2 {
		t.Errorf("another payload: got %+v and %d effects, want %s", conflict, len(h.effects()), session.ErrConflict)
	}
	h.refusals = 1
	if refused, again := named("c", "ls"), named("c", "ls"); refused.Structured.Code != string(session.ErrLocked) || again.Structured.Handle != "n3" {
		t.Errorf("a call that was refused, made again: got %+v and %+v, want %s and n3", refused, again, session.ErrLocked)
	}
}

// The end of the input and a signal end the server within a second, while a call waits.
func TestServerEnds(t *testing.T) {
	for name, end := range map[string]func(guest, context.CancelFunc){
		"input":  func(g guest, _ context.CancelFunc) { _ = g.End() },
		"signal": func(_ guest, stop context.CancelFunc) { stop() },
		"kill":   func(g guest, _ context.CancelFunc) { g.Drop() },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse()
			o := h.options(t)
			o.Patience = caller.Patience
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			g := connectUnder(ctx, t, o)
			if _, err := g.BeginCall("run_command", json.RawMessage(`{"command":"hold"}`)); err != nil {
				t.Fatal(err)
			}
			h.until(t, "begun", func() bool { return len(h.ops) == 1 })
			end(g, stop)
			if err := g.over(); err != nil {
				t.Errorf("Serve: got %v, want nil", err)
			}
			if h.ops[0].result.Outcome != app.CallRuns {
				t.Errorf("the command: got %s, want it running", h.ops[0].result.Outcome)
			}
		})
	}
}

// A client that reads nothing loses its connection, and its answers stay owed.
func TestClientDoesNotRead(t *testing.T) {
	h := newHouse()
	o := h.options(t)
	o.Unread = 100 * time.Millisecond
	in, toServer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromServer, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer fromServer.Close()
	defer toServer.Close()
	served := make(chan error, 1)
	go func() { served <- mcp.Serve(t.Context(), o, in, out) }()
	var lines bytes.Buffer
	lines.WriteString(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}` + "\n")
	for i := range 20 {
		fmt.Fprintf(&lines, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"run_command","arguments":{"command":"long %d"}}}`+"\n", i+1, i)
	}
	if _, err := toServer.Write(lines.Bytes()); err != nil {
		t.Fatal(err)
	}
	select {
	case err = <-served:
	case <-time.After(caller.Patience):
		t.Fatal("the server waits for ever")
	}
	if err == nil || len(h.settled) != 0 {
		t.Errorf("Serve: got %v and %d settled calls, want an error and none", err, len(h.settled))
	}
}

// The hints of the tools are true, and their schemas refuse unknown fields.
func TestTools(t *testing.T) {
	h := newHouse()
	g := connect(t, h.options(t))
	m, err := g.Request("tools/list", map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Tools []struct {
			Name        string
			Description string
			InputSchema struct {
				Type                 string
				AdditionalProperties *bool
				Properties           map[string]any
			}
			Annotations struct{ ReadOnlyHint, DestructiveHint, OpenWorldHint bool }
		}
	}
	if err := json.Unmarshal(m.Result, &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Tools) != 13 {
		t.Errorf("tools: got %d, want 13", len(list.Tools))
	}
	changes := []string{"write_file", "edit_file", "delete_file", "move_file", "run_command", "stop_command"}
	for _, tool := range list.Tools {
		s, a := tool.InputSchema, tool.Annotations
		if s.Type != "object" || s.AdditionalProperties == nil || *s.AdditionalProperties || tool.Description == "" {
			t.Errorf("%s: got schema %+v", tool.Name, s)
		}
		if _, fresh := s.Properties["fresh"]; fresh != (slices.Contains(changes, tool.Name) && tool.Name != "stop_command") {
			t.Errorf("%s: fresh is %v", tool.Name, fresh)
		}
		if changing := slices.Contains(changes, tool.Name); a.ReadOnlyHint == changing || a.DestructiveHint != changing || a.OpenWorldHint != (tool.Name == "run_command") {
			t.Errorf("%s: got hints %+v", tool.Name, a)
		}
	}
	g.kill()
	if len(h.effects()) != 0 {
		t.Errorf("effects: got %v, want none", h.effects())
	}
}

// A long output is given as head, tail and the way to the rest.
func TestLongOutput(t *testing.T) {
	h := newHouse()
	g := connect(t, h.options(t))
	r := g.want(app.CallDone, "run_command", `{"command":"long"}`)
	if text := r.Structured.Text; len(text) > 20<<10 || !strings.Contains(text, "read them with command_output: handle n1, from 6144") {
		t.Errorf("answer: got %d bytes: %.300s", len(text), text)
	}
	rest := g.want(app.CallDone, "command_output", `{"handle":"n1","from":65500,"limit":100}`)
	if rest.Structured.Text != strings.Repeat("0123456789abcde\n", 4096)[65500:] {
		t.Errorf("the end of the output: got %q", rest.Structured.Text)
	}
}

// The workspace is -C, or else the client's only root, or else the working directory.
func TestWorkspace(t *testing.T) {
	here, root, named := t.TempDir(), t.TempDir(), t.TempDir()
	for name, c := range map[string]struct {
		named string
		roots []string
		want  string
	}{
		"named":       {named, []string{"file://" + root}, named},
		"only_root":   {"", []string{"file://" + root}, root},
		"two_roots":   {"", []string{"file://" + root, "file://" + named}, here},
		"no_roots":    {"", nil, here},
		"remote_root": {"", []string{"https://example.com/x"}, here},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse()
			o := h.options(t)
			var got string
			var of session.Agent
			o.Workspace, o.Here, o.Conversation = c.named, here, ""
			o.Open = func(_ context.Context, workspace string, a session.Agent, _ bool) (mcp.Conversation, error) {
				got, of = workspace, a
				return visit{h}, nil
			}
			in, toServer, _ := os.Pipe()
			fromServer, out, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			g := guest{caller.Over(toServer, fromServer), t, make(chan error, 1)}
			go func() { g.served <- mcp.Serve(t.Context(), o, in, out) }()
			if err := g.Hello("someone", c.roots); err != nil {
				t.Fatal(err)
			}
			if _, err := g.Request("tools/call", map[string]any{"name": "list_files", "_meta": map[string]any{mcp.MetaConversation: "c1"}}); err != nil {
				t.Fatal(err)
			}
			if got != c.want || of != (session.Agent{Client: "someone", Conversation: "c1"}) {
				t.Errorf("got workspace %s of %+v, want %s", got, of, c.want)
			}
			g.kill()
		})
	}
}

// clock is a clock that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Unix(1_000_000, 0)} }

func (c *clock) time() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// The end of a command whose outcome is unknown has no time, so the answers name none.
func TestUnknownOutcomeHasNoTime(t *testing.T) {
	h := newHouse()
	o := h.options(t)
	first := connect(t, o)
	first.want(app.CallRuns, "run_command", `{"command":"hold"}`)
	first.kill()
	h.mu.Lock()
	h.ops[0].result.Outcome = app.CallUnknown
	close(h.ops[0].ended)
	h.mu.Unlock()
	second := connect(t, o)
	for _, r := range []caller.Result{second.want("told", "run_command", ls), second.want(app.CallUnknown, "run_command", `{"command":"hold"}`)} {
		if text := r.Structured.Text; strings.Contains(text, "1970") || strings.Contains(text, "ended at") || !strings.Contains(text, "OUTCOME UNKNOWN") {
			t.Errorf("got %q, want no time of the end", text)
		}
	}
}
