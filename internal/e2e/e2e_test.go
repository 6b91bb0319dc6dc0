package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acode-dev/acode/provider/script/server"
)

// desk is a workspace in memory that answers the calls of the model, as a client does
// that gives the model the structured content.
type desk struct {
	t    *testing.T
	m    *model
	talk server.Conversation
	// made has the script's calls in the order in which they were made.
	made []int
}

func newDesk(t *testing.T, m *model) *desk {
	m.script, m.prefix = script(), "mcp__acode__"
	return &desk{t: t, m: m, talk: server.Conversation{Tools: []server.Tool{{Name: "mcp__acode__run_command"}}, Messages: []server.Message{{Text: prompt}}}}
}

// exchange lets the model make its next calls and answers each.
func (d *desk) exchange(answer func(i int, c server.Call) string) server.Reply {
	d.t.Helper()
	r := d.m.next(d.talk)
	results := server.Message{}
	for n := range r.Calls {
		r.Calls[n].ID = fmt.Sprint(len(d.talk.Messages), "-", n)
		i := d.m.find(r.Calls[n])
		d.made = append(d.made, i)
		results.Results = append(results.Results, server.Result{ID: r.Calls[n].ID, Text: answer(i, r.Calls[n])})
	}
	d.talk.Messages = append(d.talk.Messages, server.Message{Own: true, Text: r.Text, Calls: r.Calls}, results)
	return r
}

func structured(r result) string {
	raw, _ := json.Marshal(r)
	return string(raw)
}

// done is the answer to a call that was carried out.
func done(i int, _ server.Call) string {
	r := result{Outcome: "done", Text: "Exit status 0 after 1ms.\n" + line(i)}
	if script()[i].fails {
		return "Exit status 3 after 1ms.\n" + line(i)
	}
	return structured(r)
}

func line(i int) string { return fmt.Sprintf("%s %016x", script()[i].mark, i) }

// end plays the script to its end.
func (d *desk) end() {
	d.t.Helper()
	for range 3 * len(d.m.script) {
		if r := d.exchange(done); len(r.Calls) == 0 {
			return
		}
	}
	d.t.Fatal("the script did not end")
}

// The model of the demonstration makes each of its calls once, in order.
func TestModelPlaysTheDemo(t *testing.T) {
	d := newDesk(t, &model{})
	d.m.script = demo()
	d.end()
	if want := []int{0, 1, 2, 3, 4}; !slices.Equal(d.made, want) {
		t.Errorf("got the calls %v, want %v", d.made, want)
	}
}

// The model makes each call once, in order, if each has its result.
func TestModelMakesEachCallOnce(t *testing.T) {
	for _, batch := range []int{1, 2} {
		d := newDesk(t, &model{batch: batch, rewords: true})
		d.end()
		for i := range script() {
			if i >= len(d.made) || d.made[i] != i {
				t.Fatalf("batches of %d: got the calls %v", batch, d.made)
			}
		}
	}
}

// The model makes a call again in other words if it was told of others, and takes the
// result of a call that it was told of.
func TestModelIsTold(t *testing.T) {
	d := newDesk(t, &model{rewords: true})
	d.exchange(done)
	var first, second string
	text := "1. run_command: x (handle n2), began.\nExit status 0\nLast output: " + line(1) + "\n"
	d.exchange(func(_ int, c server.Call) string {
		first = string(c.Arguments)
		return structured(result{Outcome: "told", Text: text, Owed: []result{{Outcome: "done", Handle: "n2", Label: "Run line=mark04"}}})
	})
	d.exchange(func(i int, c server.Call) string { second = string(c.Arguments); return done(i, c) })
	if first == second || d.made[1] != 1 || d.made[2] != 1 {
		t.Errorf("the call made again: got %s after %s", second, first)
	}
	d.exchange(done)
	d.exchange(done)
	d.exchange(func(int, server.Call) string {
		return structured(result{Outcome: "told", Text: strings.ReplaceAll(text, line(1), line(5)), Owed: []result{{Outcome: "failed", Handle: "n2", Label: "Run line=mark06"}}})
	})
	d.exchange(done)
	if last := d.made[len(d.made)-1]; last != 6 {
		t.Errorf("after the list with call 6: got call %d, want 7", last+1)
	}
	if got := d.m.end; got != nil {
		t.Errorf("the end: got %+v", got)
	}
}

// After an unknown outcome the model looks. It makes the call again only if it finds
// nothing. A text that the client made up is no result.
func TestModelLooksAfterAnUnknownOutcome(t *testing.T) {
	for name, row := range map[string]struct {
		found string
		again bool
	}{"found": {"ledger:1: mark02 x", false}, "not_found": {"", true}} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, &model{})
			d.exchange(done)
			d.exchange(func(int, server.Call) string { return "OUTCOME UNKNOWN: the supervisor was killed" })
			if r := d.exchange(func(int, server.Call) string { return structured(result{Outcome: "done", Text: row.found}) }); r.Calls[0].Name != "mcp__acode__search" {
				t.Fatalf("got %s, want a search", r.Calls[0].Name)
			}
			r := d.exchange(func(int, server.Call) string { return "aborted" })
			if again := d.made[3] == 1; again != row.again || again != strings.Contains(string(r.Calls[0].Arguments), `"fresh":true`) {
				t.Errorf("got %s", r.Calls[0].Arguments)
			}
			d.exchange(done)
			if d.made[4] != d.made[3] {
				t.Errorf("after a text of the client: got call %d, want %d", d.made[4]+1, d.made[3]+1)
			}
		})
	}
}

// The judge accepts a right end and finds each mistake (J1, J2, J3).
func TestJudge(t *testing.T) {
	for name, row := range map[string]struct {
		plant func(t *testing.T, ws string, m *model)
		want  string
	}{
		"right":          {func(*testing.T, string, *model) {}, ""},
		"repeated_line":  {func(t *testing.T, ws string, _ *model) { appendTo(t, ws, ledger, "mark04 ffffffffffffffff\n") }, "repeated: mark04 (2 times)"},
		"repeated_edit":  {func(t *testing.T, ws string, _ *model) { put(t, ws, "a.txt", "one\ntwo\ntwo\ntail\n") }, "repeated: file a.txt"},
		"repeated_write": {func(t *testing.T, ws string, _ *model) { put(t, ws, "a.txt", "one\ntail\n") }, "wrong: file a.txt"},
		"stray_file":     {func(t *testing.T, ws string, _ *model) { put(t, ws, "b.txt", "tail\n") }, "wrong: file b.txt"},
		"lost_file":      {func(t *testing.T, ws string, _ *model) { remove(t, ws, "a.txt") }, "lost: file a.txt"},
		"lost_effect":    {func(t *testing.T, ws string, _ *model) { put(t, ws, ledger, line(1)+"\n") }, "lost: the effect of mark04"},
		"lost_result":    {func(_ *testing.T, _ string, m *model) { delete(m.end.results, 4) }, "lost: the result of call 5"},
		"other_outcome": {func(_ *testing.T, _ string, m *model) {
			r := m.end.results[5]
			r.outcome = "done"
			m.end.results[5] = r
		}, "wrong: call 6 is done"},
		"another_text":    {func(_ *testing.T, _ string, m *model) { m.end.seen[3].text = "mark04 0" }, "wrong: the answer result of call 4"},
		"unknown":         {func(_ *testing.T, _ string, m *model) { m.end.seen[3].outcome = "unknown" }, "wrong: an outcome is unknown"},
		"no_end":          {func(_ *testing.T, _ string, m *model) { m.end = nil }, "lost: the end of the script"},
		"cannot_continue": {func(_ *testing.T, _ string, m *model) { m.end.failed = "denied" }, "wrong: denied"},
	} {
		t.Run(name, func(t *testing.T) {
			ws := t.TempDir()
			d := newDesk(t, &model{})
			d.end()
			for i, c := range script() {
				if c.mark != "" {
					appendTo(t, ws, ledger, line(i)+"\n")
				}
			}
			for path, text := range files() {
				put(t, ws, path, text)
			}
			row.plant(t, ws, d.m)
			if got := judge(d.m, ws, false).String(); (got == "") != (row.want == "") || !strings.Contains(got, row.want) {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

func put(t *testing.T, ws, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(ws, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func appendTo(t *testing.T, ws, name, text string) {
	t.Helper()
	before, _ := os.ReadFile(filepath.Join(ws, name)) // the first line finds no file
	put(t, ws, name, string(before)+text)
}

func remove(t *testing.T, ws, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(ws, name)); err != nil {
		t.Fatal(err)
	}
}
