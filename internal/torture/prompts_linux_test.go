package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acode-dev/acode/internal/crash"
)

// sampledSpots is the number of spots of each series of prompts in a test.
const sampledSpots = 2

// A model plans and works on three tasks at once, and acode is killed at its requests,
// replies, calls and commits. Each effect happens once, no result that the model saw is
// lost, and an outcome is unknown only if the supervisor was killed too.
func TestKilledPromptsEndTheSame(t *testing.T) {
	h := testHarness(t)
	rows, err := h.prompts(t.Context(), sampledSpots)
	if err == nil {
		err = h.table(rows)
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 6 || rows[1].kills < sampledSpots {
		t.Errorf("prompts: got %d series with %d kills in replies, want 6 and at least %d", len(rows), rows[1].kills, sampledSpots)
	}
}

// Prompts find mistakes that plain steps would not find: here a reply that is bound to
// another conversation than the model saw.
func TestPromptsFindAPlantedBug(t *testing.T) {
	h := testHarness(t)
	all := promptBugs()
	b := all[slices.IndexFunc(all, func(b bug) bool { return b.name == "a digest without the last message" })]
	program, err := b.build(t.Context(), h.scratch)
	must(t, err)
	for at, want := range map[string]string{program: b.shows, h.acode: ""} {
		found, err := h.find(t.Context(), b.judges[0], at)
		must(t, err)
		if !strings.Contains(found, want) || (found == "") != (want == "") {
			t.Errorf("%s in %s: got %q, want %q", b.name, at, found, want)
		}
	}
}

// The judge finds each way in which a request can lie.
func TestToldJudgeFindsLies(t *testing.T) {
	lines := map[string][]string{"mark-a1": {"mark-a1 00ff"}}
	first := promptScript()[3] // of part a
	second := promptScript()[4]
	says := func(r wantedReply) (m toldMessage) {
		m.Role, m.Text = "assistant", r.text
		for _, c := range r.calls {
			m.Calls = append(m.Calls, struct {
				Tool      string `json:"tool"`
				Arguments string `json:"arguments"`
			}{c.tool, c.args})
		}
		return m
	}
	result := func(text string) toldMessage { return toldMessage{Role: "tool", Text: text} }
	prompt := toldMessage{Role: "user", Text: "Part a of the shop"}
	good := []toldMessage{prompt, says(first), result("Done."), result("Done."), says(second), result("Exit status 0 after 1ms.\nmark-a1 00ff\n"), result("1: two")}
	with := func(i int, m toldMessage) []toldMessage {
		all := slices.Clone(good)
		all[i] = m
		return all
	}
	other := says(second)
	other.Text = "Something else"
	for name, c := range map[string]struct {
		messages []toldMessage
		want     string
	}{
		"true":            {good, ""},
		"silence":         {good[:6], "1 calls of reply 2 have no result"},
		"empty":           {with(2, result("")), "is silence"},
		"aborted":         {with(5, result("Aborted by the user")), "says aborted"},
		"other_words":     {with(4, other), "the model said"},
		"not_carried_out": {with(2, result("NOT CARRIED OUT: Done")), "was not carried out"},
		"no_such_line":    {with(5, result("Exit status 0 after 1ms.\nmark-a1 1111\n")), "has no line of the ledger"},
		"other_status":    {with(5, result("Exit status 1 after 1ms.\nmark-a1 00ff\n")), "has not the exit status 0"},
		"file_unknown":    {with(2, result("OUTCOME UNKNOWN: who knows")), "is unknown, although"},
		"result_of_none":  {append(slices.Clone(good), result("Done.")), "belongs to no call"},
		"note":            {append(slices.Clone(good), toldMessage{Role: "user", Text: "Your calls were aborted."}), "it says aborted"},
	} {
		t.Run(name, func(t *testing.T) {
			r := toldRequest{Messages: c.messages, talk: "Part a"}
			got := strings.Join(r.truth(lines, map[string]bool{}), "; ")
			if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
				t.Errorf("truth: got %q, want %q", got, c.want)
			}
		})
	}
	before := toldRequest{Messages: good[:4], talk: "Part a"}
	if got := resumeIsTold([]toldRequest{before, {Messages: good, talk: "Part a"}}, 1); len(got) != 1 {
		t.Errorf("resumeIsTold: got %q, want one finding", got)
	}
	if got := grows([]toldRequest{{Messages: good, talk: "Part a"}, before}); len(got) != 1 {
		t.Errorf("grows: got %q, want one finding", got)
	}
}

// toldKills is how many kills TestToldAfterKills makes, unless the environment says
// otherwise.
const toldKills = 4

// After each kill the first request compares with the ledger and the files: nothing is
// said to be aborted, each call has its result, and each result is true.
func TestToldAfterKills(t *testing.T) {
	h := testHarness(t)
	n := toldKills
	if text := os.Getenv("ACODE_TORTURE_PROMPTS"); text != "" {
		_, err := fmt.Sscan(text, &n)
		must(t, err)
	}
	spots := bothVictims(slices.Concat(requestSpots(), replySpots(), commandSpots()))
	rand.New(rand.NewPCG(h.seed, 33)).Shuffle(len(spots), func(i, j int) { spots[i], spots[j] = spots[j], spots[i] })
	r, err := h.killPrompts(t.Context(), "told after kills", spots[:min(n, len(spots))])
	if err == nil {
		err = h.table([]row{r})
	}
	if err != nil || r.kills < n {
		t.Errorf("%d kills of %d: %v", r.kills, n, err)
	}
}

// killedPrompt kills a session before its fourth request about part a, when a.txt is a
// file of the talk.
func killedPrompt(t *testing.T) *promptTrial {
	t.Helper()
	spots := requestSpots()
	at := spots[slices.IndexFunc(spots, func(s spot) bool { return s.name == "request 4 of Part a" && s.when == crash.Before })]
	at.victim = crash.VictimGroup
	p, err := testHarness(t).newPrompt("told", at)
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(p.Root) })
	p.onlyKill = true
	must(t, p.run(t.Context()))
	if !p.struck {
		t.Fatalf("the kill did not come: %s", p.said.String())
	}
	return p
}

// Someone changes a file of a talk after the kill, in one of five ways. The first request
// after the resume tells it.
func TestToldOfChangedFiles(t *testing.T) {
	for name, c := range map[string]struct {
		change func(path string) error
		want   string
	}{
		"modified":         {func(path string) error { return os.WriteFile(path, []byte("other\n"), 0o644) }, "a.txt (modified)"},
		"deleted":          {os.Remove, "a.txt (deleted)"},
		"replaced_by_link": {func(path string) error { return replaced(path, func() error { return os.Symlink("keep.txt", path) }) }, "a.txt (modified)"},
		"mode":             {func(path string) error { return os.Chmod(path, 0o755) }, "a.txt (its mode changed"},
		"recreated": {func(path string) error {
			return replaced(path, func() error { return os.WriteFile(path, []byte("other\n"), 0o644) })
		}, "a.txt (modified)"},
	} {
		t.Run(name, func(t *testing.T) {
			p := killedPrompt(t)
			must(t, c.change(filepath.Join(p.Workspace(), "a.txt")))
			out, _ := p.Program(t.Context(), []string{p.Acode, "resume", "--on-changes=continue"}).CombinedOutput()
			all, err := p.requests()
			must(t, err)
			for _, r := range all[p.asked[0]:] {
				if r.talk != "Part a" {
					continue
				}
				told := r.Messages[len(r.Messages)-1].Text
				if !strings.HasPrefix(told, "acode was stopped") || !strings.Contains(told, c.want) {
					t.Errorf("the first request says %q, want %q", told, c.want)
				}
				return
			}
			t.Errorf("part a was not asked about after the resume: %s", out)
		})
	}
}

// replaced removes a file and makes another one.
func replaced(path string, create func() error) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return create()
}

// Someone edits what the model was told, in the database and without the key. The resume
// refuses, and no request leaves.
func TestToldNothingEdited(t *testing.T) {
	events := `DROP TRIGGER events_update; UPDATE events SET payload = `
	for name, sql := range map[string]string{
		"result":  events + `replace(payload, '"exit":3', '"exit":0') WHERE type = 'OperationFailed'`,
		"output":  events + `replace(payload, 'mark-a1', 'mark-a9') WHERE type = 'OperationCompleted'`,
		"message": events + `replace(payload, 'of the shop', 'of the bank') WHERE type = 'MessageAdded'`,
		"answer":  events + `replace(payload, 'Reply 1 of Part a', 'Reply 1 of Part x') WHERE type = 'ModelAnswered'`,
		"reply":   `UPDATE blobs SET codec = 'raw', bytes = 8, data = CAST('{"end":{' AS BLOB) WHERE lower(hex(hash)) IN (SELECT json_extract(payload, '$.blob.hash') FROM events WHERE type = 'ModelAnswered' AND json_extract(payload, '$.task') = 'a')`,
	} {
		t.Run(name, func(t *testing.T) {
			p := killedPrompt(t)
			database := filepath.Join(p.Home(), "acode.db")
			trigger, err := exec.CommandContext(t.Context(), "sqlite3", database, `SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND name = 'events_update'`).Output()
			must(t, err)
			script := sql + "; SELECT changes(); "
			if strings.HasPrefix(sql, "DROP") {
				script += string(trigger)
			}
			before, err := p.Query(t.Context(), "SELECT * FROM events; SELECT hex(data) FROM blobs")
			must(t, err)
			out, err := exec.CommandContext(t.Context(), "sqlite3", database, script).CombinedOutput()
			if err != nil || strings.TrimSpace(string(out)) == "0" {
				t.Fatalf("sqlite3: %v: %s", err, out)
			}
			if after, err := p.Query(t.Context(), "SELECT * FROM events; SELECT hex(data) FROM blobs"); err != nil || after == before {
				t.Fatalf("nothing was edited: %v", err)
			}
			cmd := p.Program(t.Context(), []string{p.Acode, "resume"})
			said, _ := cmd.CombinedOutput()
			all, err := p.requests()
			must(t, err)
			if got := cmd.ProcessState.ExitCode(); got != exitCorrupt || len(all) != p.asked[0] {
				t.Errorf("exit %d and %d requests after %d, want exit %d and no other request: %s", got, len(all), p.asked[0], exitCorrupt, said)
			}
		})
	}
}

// exitCorrupt is the status for a damaged store.
const exitCorrupt = 18
