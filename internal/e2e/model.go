package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/acode-dev/acode/provider/script/server"
)

// model plays the script. It decides only from the conversation that the client sends;
// it also notes for the judge, in its fields, what it has seen.
type model struct {
	script []call
	// prefix stands before the names of acode's tools.
	prefix string
	// shell is the client's own tool for commands, if the model is to use that: its name
	// and its argument. Both are empty for acode's tools.
	shell, argument string
	// rewords makes the model say a call in other words when it makes it again.
	rewords bool
	// batch is how many calls the model makes in one message.
	batch int
	// think is how long the model takes after an answer of the kind told. A real model
	// takes longer.
	think time.Duration
	// first is called once with the knowledge before the next reply; nil for none.
	first func(*state)
	had   int
	// replied is called before each reply with calls; it may block.
	replied func(n int)

	mu      sync.Mutex
	replies int
	end     *state
}

// received is a result that the model got. Kind is answer, recovered or told.
type received struct {
	call       int
	kind, text string
	outcome    string
}

// state is the knowledge that a conversation contains.
type state struct {
	// results has the results of calls by their index, and handles the commands that run.
	results map[int]received
	handles map[int]string
	// made counts how often a call was made, unknown its unknown outcomes.
	made, unknown map[int]int
	// looked has calls whose effect the model found in the ledger.
	looked map[int]bool
	seen   []received
	lost   []string
	told   bool
	// failed is the reason why the script cannot continue.
	failed  string
	prompts int
	calls   int
}

// next implements server.Model.
func (m *model) next(c server.Conversation) server.Reply {
	if !slices.ContainsFunc(c.Tools, func(t server.Tool) bool { return t.Name == cmp.Or(m.shell, m.prefix+"run_command") }) {
		return server.Reply{Text: "A script"} // a title, or another side purpose
	}
	s := m.read(c)
	reply := m.decide(s)
	m.mu.Lock()
	if m.first != nil {
		m.first(s)
		m.first = nil
	}
	if len(reply.Calls) == 0 {
		m.end = s
	} else {
		m.replies++
	}
	n := m.replies
	m.mu.Unlock()
	if s.told {
		<-time.After(m.think)
	}
	if len(reply.Calls) > 0 && m.replied != nil {
		m.replied(n)
	}
	return reply
}

// read finds out what the conversation says about each call.
func (m *model) read(c server.Conversation) *state {
	s := &state{results: map[int]received{}, handles: map[int]string{}, made: map[int]int{}, unknown: map[int]int{}, looked: map[int]bool{}}
	open := map[string]server.Call{}
	for _, msg := range c.Messages {
		if !msg.Own && len(msg.Results) == 0 {
			s.prompts++
		}
		for _, call := range msg.Calls {
			open[call.ID] = call
			s.calls++
			if i := m.find(call); i >= 0 {
				s.made[i]++
			}
		}
		s.told = false
		for _, r := range msg.Results {
			m.result(s, open[r.ID], r.Text)
		}
	}
	return s
}

// find returns the index of the script's call; -1 for another call.
func (m *model) find(c server.Call) int {
	var args map[string]any
	if json.Unmarshal(c.Arguments, &args) != nil {
		return -1
	}
	if m.shell != "" {
		text, _ := args[m.argument].(string)
		for i := range m.script {
			if strings.Contains(text, tag(i)) {
				return i
			}
		}
		return -1
	}
	return slices.IndexFunc(m.script, func(want call) bool {
		return c.Name == m.prefix+want.tool && want.equals(args)
	})
}

// tag marks a command for the client's own tool. The command prints it at its end.
func tag(i int) string { return fmt.Sprintf("step-%02d", i+1) }

// equals reports whether arguments are those of the call, in any words.
func (c call) equals(args map[string]any) bool {
	text := func(name string) string { s, _ := args[name].(string); return s }
	if c.mark != "" {
		return strings.Contains(text("command"), c.mark)
	}
	if want, ok := c.args["pattern"].(string); ok && text("pattern") != want {
		return false
	}
	for _, name := range []string{"path", "from"} {
		if want, ok := c.args[name].(string); ok && path.Clean(text(name)) != want {
			return false
		}
	}
	return true
}

// result notes the result of a call.
func (m *model) result(s *state, c server.Call, text string) {
	i := m.find(c)
	if m.shell != "" {
		if i >= 0 && strings.Contains(text, tag(i)) {
			s.results[i] = received{i, "answer", text, "done"}
		}
		return
	}
	r, ok := parse(text)
	var args map[string]string
	_ = json.Unmarshal(c.Arguments, &args) // arguments of other types are none of the helpers'
	switch {
	case !ok:
		s.lost = append(s.lost, text)
	case c.Name == m.prefix+"wait_command":
		for call, handle := range s.handles {
			if handle == args["handle"] {
				m.note(s, call, r, "answer")
			}
		}
	case c.Name == m.prefix+"search": // it looked for the effect of a call with an unknown outcome
		for call, want := range m.script {
			if want.mark != "" && want.mark == args["pattern"] {
				s.looked[call] = strings.Contains(r.Text, want.mark)
				delete(s.unknown, call)
				if s.looked[call] {
					s.results[call] = received{call, "answer", r.Text, "unknown"}
				}
			}
		}
	case i < 0:
	case r.Outcome == "told":
		s.told = true
		for _, item := range r.Owed {
			item.Text = r.about(item.Handle)
			call := slices.IndexFunc(m.script, func(want call) bool { return strings.Contains(item.Label, cmp.Or(want.mark, want.label, "\x00")) })
			if call >= 0 {
				m.note(s, call, item, "told")
			}
		}
	default:
		m.note(s, i, r, "answer")
	}
}

// note takes a result, unless there is one already.
func (m *model) note(s *state, i int, r result, kind string) {
	if r.Recovered && kind == "answer" {
		kind = "recovered"
	}
	got := received{i, kind, r.Text, r.Outcome}
	switch r.Outcome {
	case "done", "failed":
		delete(s.handles, i)
		s.seen = append(s.seen, got)
		if _, ok := s.results[i]; !ok {
			s.results[i] = got
		}
	case "running":
		s.handles[i] = r.Handle
	case "unknown":
		s.seen = append(s.seen, got)
		delete(s.handles, i)
		s.unknown[i]++
	case "denied":
		if !r.Retryable {
			s.failed = r.Text
		}
	}
}

// most is how often the model makes one call.
const most = 12

// decide returns the next calls, or the end.
func (m *model) decide(s *state) server.Reply {
	var reply server.Reply
	for i := range m.script {
		if _, ok := s.results[i]; ok {
			if len(reply.Calls) > 0 { // the one behind it may depend on the first
				return reply
			}
			continue
		}
		if s.failed != "" || s.made[i] > most || s.calls > 20*most {
			return server.Reply{Text: fmt.Sprintf("The script cannot continue at call %d: %s", i+1, s.failed)}
		}
		reply.Calls = append(reply.Calls, m.make(s, i))
		if len(reply.Calls) == max(m.batch, 1) || s.handles[i] != "" {
			return reply
		}
	}
	if len(reply.Calls) == 0 {
		reply.Text = "The script has ended."
	}
	return reply
}

// make makes a call, or asks about the one that was made.
func (m *model) make(s *state, i int) server.Call {
	c := m.script[i]
	tool, args := c.tool, c.args
	switch {
	case m.shell != "":
		text := c.shell + "; echo " + tag(i)
		return server.Call{Name: m.shell, Arguments: encode(map[string]any{m.argument: text})}
	case s.handles[i] != "":
		tool, args = "wait_command", map[string]any{"handle": s.handles[i]}
	case s.unknown[i] > 0 && c.mark != "":
		tool, args = "search", map[string]any{"pattern": c.mark, "path": ledger}
	case m.rewords:
		args = c.reworded(s.made[i] + s.prompts - 1)
	}
	if found, ok := s.looked[i]; ok && !found && tool == c.tool {
		args = maps.Clone(args)
		args["fresh"] = true
	}
	return server.Call{Name: m.prefix + tool, Arguments: encode(args)}
}

func encode(args map[string]any) json.RawMessage {
	raw, err := json.Marshal(args)
	if err != nil {
		panic(err) // strings only
	}
	return raw
}
