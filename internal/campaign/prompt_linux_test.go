package campaign_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The judge of a prompt step reads only the ledger, the files, and the requests that the
// model got. It does not ask acode.

// scriptCall is one call of the script of the model.
type scriptCall struct {
	tool string
	args map[string]any
	// mark is the word that the command writes to the ledger with a random number. It is
	// empty for a call that writes nothing there.
	mark string
	// fails says that the command ends with an error.
	fails bool
}

const ledgerFile = "ledger"

func command(mark, more string) scriptCall {
	text := fmt.Sprintf(`line="%s $(od -An -N8 -tx8 /dev/urandom | tr -d ' ')"; printf '%%s\n' "$line" >> %s; printf '%%s\n' "$line"; %s`, mark, ledgerFile, more)
	return scriptCall{tool: "run_command", args: map[string]any{"command": text}, mark: mark, fails: strings.Contains(more, "exit 3")}
}

func tool(name string, args ...string) scriptCall {
	c := scriptCall{tool: name, args: map[string]any{}}
	for i := 0; i < len(args); i += 2 {
		c.args[args[i]] = args[i+1]
	}
	return c
}

// edit inserts a line before the line "tail". Done twice, it inserts it twice.
func edit(path, line string) scriptCall {
	return tool("edit_file", "path", path, "old_string", "tail\n", "new_string", line+"\ntail\n")
}

// promptScript returns the calls of each reply. The reply after them has none.
func promptScript() [][]scriptCall {
	return [][]scriptCall{
		{tool("write_file", "path", "a.txt", "content", "one\ntail\n")},
		{command("mark02", "true")},
		{edit("a.txt", "two"), command("mark04", "sleep 0.3; echo done")},
		{tool("read_file", "path", "a.txt"), tool("list_files")},
		{command("mark06", "exit 3")},
		{tool("write_file", "path", "b.txt", "content", "tail\n"), edit("b.txt", "three")},
		{command("mark08", "sleep 0.5; echo done")},
		{command("mark11", "sleep 0.2; wc -l a.txt"), tool("read_file", "path", "a.txt"), command("mark12", "cat a.txt")},
		{tool("move_file", "from", "b.txt", "to", "dir/c.txt")},
		{tool("delete_file", "path", "dir/c.txt"), command("mark14", "sleep 0.2; cat a.txt")},
	}
}

// promptFiles is the workspace after the script, without the ledger.
func promptFiles() map[string]string { return map[string]string{"a.txt": "one\ntwo\ntail\n"} }

// writeScript writes the script for the model, which sends a piece each 15 milliseconds.
func writeScript(t testing.TB, path string) {
	t.Helper()
	type call struct {
		ID        string         `json:"id"`
		Tool      string         `json:"tool"`
		Arguments map[string]any `json:"arguments"`
	}
	var out strings.Builder
	for i, calls := range append(promptScript(), nil) {
		reply := map[string]any{"text": fmt.Sprintf("This is reply %d of the model, in several pieces.", i+1), "pause_ms": 15}
		var all []call
		for n, c := range calls {
			all = append(all, call{fmt.Sprintf("id-%d-%d", i+1, n+1), c.tool, c.args})
		}
		reply["calls"] = all
		raw, err := json.Marshal(reply)
		must(t, err)
		out.Write(append(raw, '\n'))
	}
	must(t, os.WriteFile(path, []byte(out.String()), 0o600))
}

// promptSite is a site with one prompt step.
type promptSite struct{ site }

func (s promptSite) log() string { return filepath.Join(s.root, "requests") }

func newPromptSite(t testing.TB, dir, program string) promptSite {
	t.Helper()
	s := promptSite{newSite(t, dir, "version: 1\ntask: Prompt\ntasks:\n  - id: fix\n    steps:\n      - {id: code, prompt: Carry out the script, tools: [files, commands]}\n", nil)}
	s.program = program
	writeScript(t, filepath.Join(dir, "script"))
	must(t, os.MkdirAll(filepath.Join(dir, "config", "acode"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "config", "acode", "config.yml"),
		fmt.Appendf(nil, "model: m\napprovals: {command: allow}\nmodels:\n  m: {provider: script, script: %q, log: %q}\n", filepath.Join(dir, "script"), s.log()), 0o600))
	return s
}

// request is a request that the model got.
type request struct {
	Messages []struct {
		Role  string `json:"role"`
		Text  string `json:"text"`
		Call  string `json:"call"`
		Cut   bool   `json:"cut"`
		Calls []struct {
			ID string `json:"id"`
		} `json:"calls"`
	} `json:"messages"`
}

func (s promptSite) requests(t testing.TB) (all []request) {
	t.Helper()
	raw, err := os.ReadFile(s.log())
	must(t, err)
	for line := range strings.Lines(string(raw)) {
		var r request
		must(t, json.Unmarshal([]byte(line), &r))
		all = append(all, r)
	}
	return all
}

// moment says when to kill.
type moment struct {
	name string
	here func(promptSite) bool
	// part says that a part of a reply has arrived.
	part bool
}

// replyFiles returns the sizes of the replies that are arriving.
func (s promptSite) replyFiles() (sizes []int64) {
	files, _ := filepath.Glob(filepath.Join(s.store(), "replies", "*", "*")) // the pattern is well formed
	for _, f := range files {
		if info, err := os.Stat(f); err == nil {
			sizes = append(sizes, info.Size())
		}
	}
	return sizes
}

func (s promptSite) asked() int {
	raw, _ := os.ReadFile(s.log()) // there is none before the first request
	return strings.Count(string(raw), "\n")
}

func (s promptSite) has(file, text string) bool {
	raw, _ := os.ReadFile(filepath.Join(s.ws(), file)) // there is none before its call
	return strings.Contains(string(raw), text)
}

// moments returns all points of a kill. For each request, they lie just after it was
// sent, at two places of its reply, and after its receipt. One lies in each command, and
// one just after each change of a file.
func moments() (all []moment) {
	turns := len(promptScript()) + 1
	for turn := 1; turn <= turns; turn++ {
		all = append(all, moment{name: fmt.Sprintf("request %d", turn), here: func(s promptSite) bool { return s.asked() >= turn }})
		for _, size := range []int64{40, 90} {
			all = append(all, moment{part: true, name: fmt.Sprintf("reply %d byte %d", turn, size), here: func(s promptSite) bool {
				return s.asked() == turn && slices.ContainsFunc(s.replyFiles(), func(n int64) bool { return n >= size }) || s.asked() > turn
			}})
		}
		if turn < turns {
			all = append(all, moment{name: fmt.Sprintf("after reply %d", turn), here: func(s promptSite) bool {
				return s.asked() == turn && len(s.replyFiles()) == 0 || s.asked() > turn
			}})
		}
	}
	for _, calls := range promptScript() {
		for _, c := range calls {
			if c.mark != "" {
				all = append(all, moment{name: "in " + c.mark, here: func(s promptSite) bool { return s.has(ledgerFile, c.mark) }})
			}
		}
	}
	for _, change := range []struct{ file, text string }{{"a.txt", "one"}, {"a.txt", "two"}, {"b.txt", "tail"}, {"b.txt", "three"}, {"dir/c.txt", "three"}} {
		all = append(all, moment{name: "after the change of " + change.file + " with " + change.text, here: func(s promptSite) bool { return s.has(change.file, change.text) }})
	}
	return all
}

// killAll kills acode, its supervisor and the commands of its session. Only they have
// the store or a key of the session in their environment.
func (s promptSite) killAll(p *process) {
	p.signal(syscall.SIGKILL)
	heads, _ := filepath.Glob(filepath.Join(s.store(), "heads", "*")) // the pattern is well formed
	belongs := []string{"ACODE_HOME=" + s.store() + "\x00"}
	for _, h := range heads {
		belongs = append(belongs, "=v1:"+filepath.Base(h)+":")
	}
	for range 3 { // one of them may have started another
		all, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is well formed
		for _, path := range all {
			raw, _ := os.ReadFile(path) // it may have ended
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if err == nil && slices.ContainsFunc(belongs, func(text string) bool { return strings.Contains(string(raw), text) }) {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			}
		}
	}
}

// A7: a prompt step is killed at each of its requests, replies and calls, and resumed. No
// effect happens twice, none is lost, an outcome is unknown only if the supervisor died
// too, and every request tells the truth about each call.
func TestPromptIsKilled(t *testing.T) {
	all := moments()
	random := rand.New(rand.NewPCG(uint64(setting(t, "ACODE_TORTURE_SEED", 1)), 0))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for i, m := range all[:min(len(all), setting(t, "ACODE_TORTURE_PROMPTS", 6))] {
		tree := i%2 == 1
		t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			for _, breach := range killPrompt(t, acodePath, m, tree) {
				t.Errorf("killed at %s, with its supervisor: %v: %s", m.name, tree, breach)
			}
		})
	}
}

// killPrompt runs the script, kills it at m, and resumes it. It returns the breaches.
func killPrompt(t testing.TB, program string, m moment, tree bool) []string {
	s := newPromptSite(t, t.TempDir(), program)
	p := s.start(t, "run", s.plan())
	over, killed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(killed)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for !m.here(s) {
			select {
			case <-tick.C:
			case <-over:
				return
			}
		}
		if tree {
			s.killAll(p)
		} else {
			p.signal(syscall.SIGKILL)
		}
	}()
	first := p.wait(t)
	close(over)
	<-killed
	if first.exit != -1 {
		return []string{"the kill came too late: " + first.String()}
	}
	before := s.asked()
	if e := s.acode(t, "resume"); e.exit != 0 {
		return []string{e.String()}
	}
	breaches := s.judge(t, before, tree)
	if m.part && !s.hasPart(t, before) {
		breaches = append(breaches, "the request after the resume lacks the part of the reply that had arrived")
	}
	if e := s.acode(t, "verify"); e.exit != 0 {
		breaches = append(breaches, e.String())
	}
	if left := s.replyFiles(); len(left) > 0 {
		breaches = append(breaches, fmt.Sprintf("%d files of replies are left", len(left)))
	}
	return breaches
}

// judge compares the requests that the model got with the ledger and the files. before
// counts the requests before the kill.
func (s promptSite) judge(t testing.TB, before int, tree bool) (wrong []string) {
	lines := map[string][]string{}
	raw, err := os.ReadFile(filepath.Join(s.ws(), ledgerFile))
	must(t, err)
	for line := range strings.Lines(string(raw)) {
		mark, _, _ := strings.Cut(line, " ")
		lines[mark] = append(lines[mark], strings.TrimSpace(line))
	}
	all := s.requests(t)
	unknown := map[string]bool{}
	for i, r := range all {
		for _, breach := range s.truth(r, lines, unknown) {
			wrong = append(wrong, fmt.Sprintf("request %d: %s", i+1, breach))
		}
	}
	if len(unknown) > 0 && !tree {
		wrong = append(wrong, fmt.Sprintf("an outcome is unknown, although the supervisor lived on: %v", unknown))
	}
	for _, calls := range promptScript() {
		for _, c := range calls {
			switch n := len(lines[c.mark]); {
			case c.mark == "" || n == 1:
			case n > 1:
				wrong = append(wrong, fmt.Sprintf("%s is repeated: %d times", c.mark, n))
			case !unknown[c.mark]:
				wrong = append(wrong, c.mark+" is lost")
			}
		}
	}
	wrong = append(wrong, resumeIsTold(all, before)...)
	return append(wrong, s.filesWrong(t)...)
}

// resumeIsTold checks that the first request after the resume says that acode was
// stopped, and that no request before does.
func resumeIsTold(all []request, before int) (wrong []string) {
	if before >= len(all) {
		return []string{"the model was not asked after the resume"}
	}
	for i, r := range all {
		told := 0
		for _, m := range r.Messages {
			if m.Role == "user" && strings.HasPrefix(m.Text, "acode was stopped") {
				told++
			}
		}
		want := 1
		if i < before || before == 0 { // a conversation that had not begun tells nothing
			want = 0
		}
		if told != want {
			wrong = append(wrong, fmt.Sprintf("request %d says %d times that acode was stopped, want %d", i+1, told, want))
		}
	}
	return wrong
}

// hasPart reports whether the request after the first ones ends with unfinished words of
// the model, followed by the message about the resume.
func (s promptSite) hasPart(t testing.TB, before int) bool {
	all := s.requests(t)
	if before >= len(all) || len(all[before].Messages) < 2 {
		return false
	}
	last := all[before].Messages[len(all[before].Messages)-2]
	return last.Cut && last.Text != "" && strings.HasPrefix(fmt.Sprintf("This is reply %d of the model, in several pieces.", before), last.Text)
}

// exits matches the result of a command that ended by itself.
var exits = regexp.MustCompile(`^Exit status (\d+) after `)

// truth compares the results in a request with the ledger. It adds the marks of unknown
// outcomes to unknown.
func (s promptSite) truth(r request, lines map[string][]string, unknown map[string]bool) (wrong []string) {
	turn, n := 0, 0
	for _, m := range r.Messages {
		switch {
		case m.Role == "assistant" && !m.Cut:
			turn, n = turn+1, 0
			if len(m.Calls) != len(promptScript()[turn-1]) {
				wrong = append(wrong, fmt.Sprintf("reply %d has %d calls", turn, len(m.Calls)))
			}
		case m.Role == "tool":
			c := promptScript()[turn-1][n]
			n++
			wrong = append(wrong, resultWrong(c, m.Text, lines[c.mark], unknown)...)
		}
	}
	return wrong
}

// resultWrong compares the result of a call with the truth.
func resultWrong(c scriptCall, text string, have []string, unknown map[string]bool) []string {
	fail := func(why string) []string {
		return []string{fmt.Sprintf("the result of %s %s %s: %q", c.tool, c.mark, why, text)}
	}
	switch {
	case text == "":
		return fail("is silence")
	case strings.Contains(strings.ToLower(text), "abort"):
		return fail("says aborted")
	case strings.HasPrefix(text, "OUTCOME UNKNOWN: "):
		if c.mark == "" {
			return fail("is unknown, although it changed files or only read")
		}
		unknown[c.mark] = true
		return nil
	case c.mark == "" && strings.HasPrefix(text, "NOT CARRIED OUT"), c.mark == "" && strings.HasPrefix(text, "FAILED"):
		return fail("is no success")
	case c.mark == "":
		return nil
	case !slices.ContainsFunc(have, func(line string) bool { return strings.Contains(text, line) }):
		return fail("has no line of the ledger")
	}
	status := "0"
	if c.fails {
		status = "3"
	}
	if got := exits.FindStringSubmatch(text); got == nil || got[1] != status {
		return fail("has not the exit status " + status)
	}
	return nil
}

// filesWrong compares the workspace with what the script leaves.
func (s promptSite) filesWrong(t testing.TB) (wrong []string) {
	want := promptFiles()
	must(t, filepath.WalkDir(s.ws(), func(at string, d os.DirEntry, err error) error {
		name, _ := filepath.Rel(s.ws(), at)
		if err != nil || d.IsDir() || name == ledgerFile {
			return err
		}
		content, err := os.ReadFile(at)
		if text, ok := want[name]; !ok || text != string(content) {
			wrong = append(wrong, fmt.Sprintf("the file %s holds %q", name, content))
		}
		delete(want, name)
		return err
	}))
	for name := range want {
		wrong = append(wrong, "the file "+name+" is lost")
	}
	return wrong
}

// The executioner finds planted mistakes.
func TestPromptMistakesAreFound(t *testing.T) {
	for _, bug := range []struct{ name, file, old, planted, at, finds string }{
		{"reply_recorded_before_its_bytes", "engine/reply.go", "err = send(w)",
			"held := &ends{limit: 1 << 20}\n\tif err = send(held); err == nil {\n\t\treturn append(held.head, held.tail...), w.Close()\n\t}", "reply 3 byte 90", "lacks the part of the reply"},
		{"call_before_its_intent", "engine/attempt.go", "if err := b.commit(ctx, session.Draft{Type: it.ID.Event(session.StepStarted), Data: d}); err != nil {\n\t\treturn err\n\t}",
			"b.pending = append(b.pending, session.Draft{Type: it.ID.Event(session.StepStarted), Data: d})\n\tif it.Call == nil {\n\t\tif err := b.commit(ctx); err != nil {\n\t\t\treturn err\n\t\t}\n\t}", "after the change of a.txt with two", "a.txt"},
	} {
		t.Run(bug.name, func(t *testing.T) {
			program := planted(t, bug.file, bug.old, bug.planted)
			all := moments()
			m := all[slices.IndexFunc(all, func(m moment) bool { return m.name == bug.at })]
			for range 5 { // the kill may come after the next commit
				if found := strings.Join(killPrompt(t, program, m, false), "; "); strings.Contains(found, bug.finds) {
					return
				}
			}
			t.Errorf("killed at %s: no breach with %q was found", bug.at, bug.finds)
		})
	}
}

// planted builds the programs with one change of a file, and returns the path of acode.
func planted(t testing.TB, file, before, after string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", file))
	must(t, err)
	raw, err := os.ReadFile(path)
	must(t, err)
	if strings.Count(string(raw), before) != 1 {
		t.Fatalf("%s has not once %q", file, before)
	}
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "changed.go"), []byte(strings.Replace(string(raw), before, after, 1)), 0o600))
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{path: filepath.Join(dir, "changed.go")}})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	out, err := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", dir+"/", "../../cmd/acode", "../../cmd/acode-agent").CombinedOutput()
	if err != nil {
		t.Fatalf("build with a mistake in %s: %v: %s", file, err, out)
	}
	return filepath.Join(dir, "acode")
}
