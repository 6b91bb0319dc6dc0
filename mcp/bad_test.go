package mcp_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/acode-dev/acode/internal/caller"
	"github.com/acode-dev/acode/session"
)

// badCalls are calls that a server refuses, as JSON of their params.
func badCalls() map[string]string {
	call := func(tool, arguments string) string {
		return fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments)
	}
	return map[string]string{
		"unknown_tool":         call("rm", `{}`),
		"unknown_argument":     call("write_file", `{"path":"a","content":"x","mode":"0777"}`),
		"other_case":           call("write_file", `{"Path":"a","content":"x"}`),
		"missing_argument":     call("write_file", `{"path":"a"}`),
		"no_arguments":         `{"name":"write_file"}`,
		"null_argument":        call("write_file", `{"path":null,"content":"x"}`),
		"argument_twice":       call("write_file", `{"path":"a","path":"b","content":"x"}`),
		"number_for_string":    call("write_file", `{"path":1,"content":"x"}`),
		"object_for_string":    call("write_file", `{"path":{},"content":"x"}`),
		"string_for_number":    call("run_command", `{"command":"ls","timeout_s":"9"}`),
		"fraction":             call("run_command", `{"command":"ls","timeout_s":0.5}`),
		"negative":             call("run_command", `{"command":"ls","timeout_s":-1}`),
		"huge_number":          call("run_command", `{"command":"ls","timeout_s":1e400}`),
		"string_for_boolean":   call("run_command", `{"command":"ls","fresh":"true"}`),
		"array_for_object":     call("write_file", `["a","x"]`),
		"string_for_object":    call("write_file", `"a"`),
		"nul_in_content":       call("write_file", `{"path":"a","content":"x\u0000y"}`),
		"nul_in_path":          call("write_file", `{"path":"a\u0000","content":"x"}`),
		"nul_in_command":       call("run_command", `{"command":"echo \u0000"}`),
		"empty_path":           call("write_file", `{"path":"","content":"x"}`),
		"path_above":           call("write_file", `{"path":"../a","content":"x"}`),
		"path_above_later":     call("write_file", `{"path":"a/../../b","content":"x"}`),
		"absolute_path":        call("write_file", `{"path":"/etc/passwd","content":"x"}`),
		"directory_above":      call("run_command", `{"command":"ls","dir":".."}`),
		"move_above":           call("move_file", `{"from":"a","to":"../b"}`),
		"mask":                 call("write_file", `{"path":"a","content":"key=****abcd"}`),
		"no_handle":            call("wait_command", `{"handle":"x"}`),
		"handle_of_other_form": call("wait_command", `{"handle":"n01"}`),
		"unknown_handle":       call("operation_result", `{"handle":"n99"}`),
		"ten_megabytes":        call("write_file", `{"path":"a","content":"`+strings.Repeat("x", 10<<20)+`"}`),
	}
}

// badLines are lines whose refusal is recognised by the id 77, or has none.
func badLines() map[string]string {
	call := func(arguments string) string {
		return `{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"write_file","arguments":` + arguments + `}}`
	}
	return map[string]string{
		"half_a_line":          `{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"wri`,
		"half_an_id":           `{"jsonrpc":"2.0","id":7`,
		"no_json":              `hello`,
		"number":               `5`,
		"null":                 `null`,
		"empty_object":         `{}`,
		"empty_array":          `[]`,
		"batch":                `[` + call(`{}`) + `]`,
		"two_on_a_line":        call(`{}`) + call(`{}`),
		"invalid_utf8":         call("{\"path\":\"a\",\"content\":\"\xff\xfe\"}"),
		"raw_nul":              call("{\"path\":\"a\x00\"}"),
		"deep":                 strings.Repeat(`[`, 1<<20),
		"deep_arguments":       call(strings.Repeat(`[`, 20_000) + strings.Repeat(`]`, 20_000)),
		"forty_megabytes":      call(`{"path":"a","content":"` + strings.Repeat("x", 40<<20) + `"}`),
		"no_version":           `{"id":77,"method":"tools/call","params":{"name":"read_file"}}`,
		"old_version":          `{"jsonrpc":"1.0","id":77,"method":"tools/call","params":{"name":"read_file"}}`,
		"object_as_id":         `{"jsonrpc":"2.0","id":{},"method":"tools/call","params":{"name":"read_file"}}`,
		"number_as_method":     `{"jsonrpc":"2.0","id":77,"method":5}`,
		"unknown_method":       `{"jsonrpc":"2.0","id":77,"method":"tools/run","params":{}}`,
		"empty_method":         `{"jsonrpc":"2.0","id":77,"method":""}`,
		"no_params":            `{"jsonrpc":"2.0","id":77,"method":"tools/call"}`,
		"params_no_object":     `{"jsonrpc":"2.0","id":77,"method":"tools/call","params":[1]}`,
		"number_as_tool":       `{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":5}}`,
		"initialized_twice":    `{"jsonrpc":"2.0","id":77,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`,
		"initialize_by_number": `{"jsonrpc":"2.0","id":77,"method":"initialize","params":5}`,
	}
}

// Each bad call gets a code and a hint, changes nothing, and the next call works.
func TestBadCalls(t *testing.T) {
	h := newHouse()
	g := connect(t, h.options(t))
	for name, params := range badCalls() {
		t.Run(name, func(t *testing.T) {
			m, err := g.Request("tools/call", json.RawMessage(params))
			if err != nil {
				t.Fatal(err)
			}
			r, err := m.Tool()
			if err != nil {
				t.Fatal(err)
			}
			refused(t, r)
			h.untouched(t)
		})
	}
	g.works()
}

func refused(t *testing.T, r caller.Result) {
	t.Helper()
	if s := r.Structured; !r.IsError || s.Outcome != "denied" || !strings.Contains(s.Code, "-") || s.Hint == "" || len(r.Content) != 1 || !strings.Contains(r.Content[0].Text, s.Code) {
		t.Errorf("got %+v, want a tool error with code and hint", r)
	}
	if len(r.Structured.Text) > 2000 {
		t.Errorf("the error has %d bytes", len(r.Structured.Text))
	}
}

func (h *house) untouched(t *testing.T) {
	t.Helper()
	if got := h.effects(); len(got) > 0 {
		t.Errorf("effects: got %v, want none", got)
	}
}

// works makes a call that is right, and checks its only effect.
func (g guest) works() {
	g.t.Helper()
	g.want("done", "write_file", `{"path":"./a//b/../c","content":"x"}`)
	g.want("done", "read_file", `{"path":"a/c","line":null}`)
}

// Each bad line gets an error with code and hint, changes nothing, and the next call
// works.
func TestBadLines(t *testing.T) {
	h := newHouse()
	g := connect(t, h.options(t))
	strays := 0
	for name, line := range badLines() {
		t.Run(name, func(t *testing.T) {
			answer := g.Expect("77")
			if err := g.Line(line); err != nil {
				t.Fatal(err)
			}
			var m caller.Message
			select {
			case m = <-answer:
			case m = <-g.stray(strays):
				if strays++; string(m.ID) != "null" {
					t.Errorf("got the message %+v", m)
				}
			}
			checkError(t, m)
			h.untouched(t)
		})
	}
	g.works()
}

func (g guest) stray(n int) <-chan caller.Message {
	out := make(chan caller.Message, 1)
	go func() {
		if m, err := g.Stray(n); err == nil {
			out <- m
		}
	}()
	return out
}

// checkError checks an error of the protocol or of a tool.
func checkError(t *testing.T, m caller.Message) {
	t.Helper()
	if m.Error == nil {
		r, err := m.Tool()
		if err != nil {
			t.Fatal(err)
		}
		refused(t, r)
		return
	}
	var data struct{ Code, Hint string }
	if err := json.Unmarshal(m.Error.Data, &data); err != nil || data.Code != string(session.ErrUsage) || data.Hint == "" || m.Error.Message == "" || m.Error.Code == 0 || len(m.Error.Message) > 1000 {
		t.Errorf("got the error %+v, %v, want code and hint", m.Error, err)
	}
}

// A request whose id is in use is refused and does not end the other one.
func TestIDInUse(t *testing.T) {
	h := newHouse()
	o := h.options(t)
	o.Patience = caller.Patience
	g := connect(t, o)
	line := `{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"run_command","arguments":{"command":"hold"}}}`
	answer := g.Expect("77")
	for range 2 {
		if err := g.Line(line); err != nil {
			t.Fatal(err)
		}
	}
	m, err := g.Stray(0)
	if err != nil {
		t.Fatal(err)
	}
	checkError(t, m)
	h.until(t, "begun", func() bool { return len(h.ops) > 0 })
	h.release()
	if m, err := g.Await(answer); err != nil || m.Error != nil {
		t.Errorf("the first request: got %+v, %v", m, err)
	}
	if got := len(h.effects()); got != 1 {
		t.Errorf("effects: got %d, want 1", got)
	}
}

// Of a thousand calls at once some are carried out and the others are refused. Each has
// its answer.
func TestThousandCallsAtOnce(t *testing.T) {
	h := newHouse()
	g := connect(t, h.options(t))
	var answers []<-chan caller.Message
	for i := range 1000 {
		a, err := g.BeginCall("run_command", map[string]any{"command": fmt.Sprint("hold ", i)})
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, a)
	}
	taken := 0
	for _, a := range answers {
		m, err := g.Await(a)
		if err != nil {
			t.Fatal(err)
		}
		r, err := m.Tool()
		if err != nil {
			t.Fatal(err)
		}
		if r.Structured.Outcome == "running" {
			taken++
			continue
		}
		if refused(t, r); !r.Structured.Retryable {
			t.Fatalf("a refused call: got %+v, want it retryable", r.Structured)
		}
	}
	if got := len(h.effects()); got != taken || taken == 0 || taken == 1000 {
		t.Errorf("got %d effects and %d calls carried out, want equally many, and some of both", got, taken)
	}
	h.release()
	g.works()
}

// FuzzLines sends a line between two requests.
func FuzzLines(f *testing.F) {
	for _, line := range badLines() {
		if len(line) < 10_000 {
			f.Add([]byte(line))
		}
	}
	for _, params := range badCalls() {
		if len(params) < 10_000 {
			f.Add([]byte(`{"jsonrpc":"2.0","id":77,"method":"tools/call","params":` + params + `}`))
		}
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		h := newHouse()
		g := connect(t, h.options(t))
		defer g.kill()
		if _, err := g.Write(append(line, '\n')); err != nil {
			t.Fatal(err)
		}
		if m, err := g.Request("ping", map[string]any{}); err != nil || m.Error != nil {
			t.Errorf("ping: got %+v, %v", m, err)
		}
	})
}
