package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The judge of prompts reads the ledger, the files, and the requests that the model got.
// It asks the journal only whether it has each result that the model saw.

// told is a message of a request.
type toldMessage struct {
	Role  string `json:"role"`
	Text  string `json:"text"`
	Cut   bool   `json:"cut"`
	Calls []struct {
		Tool      string `json:"tool"`
		Arguments string `json:"arguments"`
	} `json:"calls"`
}

// toldRequest is a request that the model got.
type toldRequest struct {
	Messages []toldMessage `json:"messages"`
	talk     string
}

// readRequest reads a line of the log.
func readRequest(line []byte) (r toldRequest, err error) {
	if err = json.Unmarshal(line, &r); err != nil {
		return r, fmt.Errorf("read the log of requests: %w", err)
	}
	for _, talk := range promptTalks() {
		if len(r.Messages) > 0 && strings.Contains(r.Messages[0].Text, talk) {
			r.talk = talk
		}
	}
	return r, nil
}

// turn returns the number of the reply that r asks for.
func (r toldRequest) turn() int {
	n := 1
	for _, m := range r.Messages {
		if m.Role == "assistant" && !m.Cut {
			n++
		}
	}
	return n
}

// requests returns the requests of the log. A kill may cut one, which the model did not
// get, and the next one then follows on the same line.
func (t *promptTrial) requests() (all []toldRequest, err error) {
	raw, err := os.ReadFile(t.log())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	const begin = `{"system":`
	for _, rest := range strings.Split(string(raw), begin)[1:] {
		if r, err := readRequest([]byte(begin + rest)); err == nil {
			all = append(all, r)
		} else if strings.HasSuffix(rest, "\n") {
			return nil, err
		}
	}
	return all, err
}

// resultNames lists the calls whose results the journal has.
const resultNames = `SELECT DISTINCT json_extract(payload, '$.task') || '/' || json_extract(payload, '$.step') || '/' || json_extract(payload, '$.op') FROM events
	WHERE type IN ('OperationCompleted', 'OperationFailed', 'OperationUnknown') OR type = 'MessageAdded' AND json_extract(payload, '$.op') IS NOT NULL`

// compare checks that the journal has each result that the model saw.
func (t *promptTrial) compare(ctx context.Context) error {
	out, err := t.Query(ctx, resultNames)
	if err != nil {
		return err
	}
	all, err := t.requests()
	have := strings.Fields(out)
	for _, r := range all {
		turn, n := 0, 0
		for _, m := range r.Messages {
			switch {
			case m.Role == "assistant" && !m.Cut:
				turn, n = turn+1, 0
			case m.Role == "tool":
				n++
				if name := callName(r.talk, turn, n); !slices.Contains(have, name) {
					t.Wrong = append(t.Wrong, "the model saw a result of "+name+", which the journal does not have")
				}
			}
		}
	}
	return err
}

func callName(talk string, turn, n int) string {
	if talk == planTalk {
		return fmt.Sprintf("plan/plan/c%d.%d", turn, n)
	}
	return fmt.Sprintf("%s/code/c%d.%d", strings.TrimPrefix(talk, "Part "), turn, n)
}

// finish waits for the remaining processes and judges the end.
func (t *promptTrial) finish(ctx context.Context) error {
	if _, err := t.tracer.Wait(ctx); err != nil {
		alive, _ := t.tracer.Survivors() // a closed tracer has none
		t.Wrong = append(t.Wrong, fmt.Sprintf("processes that do not end: %v", slices.Collect(maps.Values(alive))))
	}
	if t.Stuck != "" {
		return nil
	}
	all, err := t.requests()
	if err != nil {
		return err
	}
	lines, err := t.signed()
	if err != nil {
		return err
	}
	unknown := map[string]bool{}
	for i, r := range all {
		for _, wrong := range r.truth(lines, unknown) {
			t.Wrong = append(t.Wrong, fmt.Sprintf("request %d (%s): %s", i+1, r.talk, wrong))
		}
	}
	t.Uncertain = len(unknown)
	t.effects(lines, unknown)
	t.Wrong = append(t.Wrong, grows(all)...)
	for _, n := range t.asked {
		t.Wrong = append(t.Wrong, resumeIsTold(all, n)...)
	}
	if t.at.surely && !t.struck {
		t.Wrong = append(t.Wrong, "this never came: "+t.at.name)
	}
	if t.struck && t.at.arrived != "" && !hasPart(all, t.asked[0], t.at) {
		t.Wrong = append(t.Wrong, "the request after the kill lacks the part of the reply that had arrived: "+t.at.arrived)
	}
	return t.files()
}

// signed returns the lines of the ledger by their marks.
func (t *promptTrial) signed() (map[string][]string, error) {
	raw, err := os.ReadFile(filepath.Join(t.Workspace(), "ledger"))
	lines := map[string][]string{}
	for line := range strings.Lines(string(raw)) {
		mark, _, _ := strings.Cut(line, " ")
		lines[mark] = append(lines[mark], strings.TrimSpace(line))
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return lines, err
}

// effects counts the effects of the commands. One with an unknown outcome may be missing.
func (t *promptTrial) effects(lines map[string][]string, unknown map[string]bool) {
	for _, r := range promptScript() {
		for _, c := range r.calls {
			switch n := len(lines[c.mark]); {
			case c.mark == "":
			case n > 1:
				t.Repeated = append(t.Repeated, fmt.Sprintf("%s (%d times)", c.mark, n))
			case n == 0 && !unknown[c.mark]:
				t.Lost = append(t.Lost, c.mark)
			}
			delete(lines, c.mark)
		}
	}
	for mark := range lines {
		t.Wrong = append(t.Wrong, "a line of the ledger belongs to no call: "+mark)
	}
}

// files compares the workspace with the files that the script leaves.
func (t *promptTrial) files() error {
	want := promptFiles()
	err := filepath.WalkDir(t.Workspace(), func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(t.Workspace(), at)
		if err != nil || name == "ledger" {
			return err
		}
		content, err := os.ReadFile(at)
		if text, ok := want[name]; !ok || text != string(content) {
			t.Wrong = append(t.Wrong, fmt.Sprintf("the file %s holds %q", name, content))
		}
		delete(want, name)
		return err
	})
	for name := range want {
		t.Lost = append(t.Lost, "file "+name)
	}
	return err
}

// truth compares the messages of a request with the script and the ledger. It adds the
// marks of unknown outcomes to unknown.
func (r toldRequest) truth(lines map[string][]string, unknown map[string]bool) (wrong []string) {
	if r.talk == "" {
		return []string{"it belongs to no prompt"}
	}
	turn := 0
	var open []wantedCall
	silence := func() {
		if len(open) > 0 {
			wrong = append(wrong, fmt.Sprintf("%d calls of reply %d have no result", len(open), turn))
		}
	}
	for _, m := range r.Messages {
		switch {
		case m.Role == "assistant" && !m.Cut:
			silence()
			turn++
			want, _ := promptReply(r.talk, turn)
			open = want.calls
			wrong = append(wrong, want.heard(m)...)
		case m.Role == "tool" && len(open) == 0:
			wrong = append(wrong, fmt.Sprintf("a result belongs to no call: %q", m.Text))
		case m.Role == "tool":
			if why := open[0].result(m.Text, lines, unknown); why != "" {
				wrong = append(wrong, fmt.Sprintf("the result of %s %s %s: %q", open[0].tool, open[0].mark, why, m.Text))
			}
			open = open[1:]
		case strings.Contains(strings.ToLower(m.Text), "abort"):
			wrong = append(wrong, "it says aborted: "+m.Text)
		}
	}
	silence()
	return wrong
}

// heard compares a message of the model with the reply that it sent.
func (w wantedReply) heard(m toldMessage) (wrong []string) {
	if m.Text != w.text {
		wrong = append(wrong, fmt.Sprintf("a reply reads %q, and the model said %q", m.Text, w.text))
	}
	if len(m.Calls) != len(w.calls) {
		return append(wrong, fmt.Sprintf("a reply has %d calls, and the model made %d", len(m.Calls), len(w.calls)))
	}
	for i, c := range m.Calls {
		if c.Tool != w.calls[i].tool || c.Arguments != w.calls[i].args {
			wrong = append(wrong, fmt.Sprintf("a call reads %s %s, and the model sent %s %s", c.Tool, c.Arguments, w.calls[i].tool, w.calls[i].args))
		}
	}
	return wrong
}

// result returns how a result differs from the truth, or "".
func (c wantedCall) result(text string, lines map[string][]string, unknown map[string]bool) string {
	begins := func(words string) bool { return strings.HasPrefix(text, words) }
	switch {
	case text == "":
		return "is silence"
	case strings.Contains(strings.ToLower(text), "abort"):
		return "says aborted"
	case begins("OUTCOME UNKNOWN: ") && c.mark != "":
		unknown[c.mark] = true
		return ""
	case begins("OUTCOME UNKNOWN: "):
		return "is unknown, although it changed files or only read"
	case !strings.Contains(text, c.shows):
		return fmt.Sprintf("does not show %q", c.shows)
	case c.want == deniedCall && !begins("DENIED"):
		return "is not denied"
	case c.want == carriedOut && (begins("DENIED") || begins("FAILED") || begins("NOT CARRIED OUT")):
		return "says that it was not carried out"
	case c.mark == "":
		return ""
	case !slices.ContainsFunc(lines[c.mark], func(line string) bool { return strings.Contains(text, line) }):
		return "has no line of the ledger"
	case !begins(fmt.Sprintf("Exit status %d after ", c.exit)):
		return fmt.Sprintf("has not the exit status %d", c.exit)
	}
	return ""
}

// grows checks that each request of a talk begins with all messages of the one before.
func grows(all []toldRequest) (wrong []string) {
	last := map[string][]toldMessage{}
	for i, r := range all {
		for n, m := range last[r.talk] {
			if n >= len(r.Messages) || fmt.Sprint(r.Messages[n]) != fmt.Sprint(m) {
				wrong = append(wrong, fmt.Sprintf("request %d (%s) lost or changed message %d of the request before: %q", i+1, r.talk, n+1, m.Text))
				break
			}
		}
		last[r.talk] = r.Messages
	}
	return wrong
}

// resumeIsTold checks that each prompt that had begun before a kill is told that acode
// was stopped, in the first request after the kill. before counts the requests then.
func resumeIsTold(all []toldRequest, before int) (wrong []string) {
	stops := func(r toldRequest) (n int) {
		for _, m := range r.Messages {
			if m.Role == "user" && strings.HasPrefix(m.Text, "acode was stopped") {
				n++
			}
		}
		return n
	}
	known := map[string]int{}
	for _, r := range all[:before] {
		known[r.talk] = stops(r)
	}
	for i, r := range all[before:] {
		if n, begun := known[r.talk]; begun && stops(r) <= n {
			wrong = append(wrong, fmt.Sprintf("request %d (%s) does not say that acode was stopped", before+i+1, r.talk))
		}
		delete(known, r.talk)
	}
	return wrong
}

// hasPart reports whether the first request of the talk after the kill has the words that
// had arrived, as unfinished words of the model.
func hasPart(all []toldRequest, before int, at spot) bool {
	for _, r := range all[before:] {
		if r.talk != at.talk {
			continue
		}
		want, _ := promptReply(at.talk, r.turn())
		return slices.ContainsFunc(r.Messages, func(m toldMessage) bool {
			return m.Cut && strings.HasPrefix(m.Text, at.arrived) && strings.HasPrefix(want.text, m.Text)
		})
	}
	return false
}
