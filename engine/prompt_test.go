package engine_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	talk "github.com/acode-dev/acode/agent"
	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/provider/script"
	"github.com/acode-dev/acode/session"
)

// prompted is a world with a prompt step. Its model follows a script.
type prompted struct {
	*world
	model script.Model
	// replies are the bytes that arrived, by key
	replies map[string]string
	asked   []session.ModelRequest
	// how many of the next replies cannot be read
	garbles int
	// back is when the provider answers again; zero if it always does
	back time.Time
	// judge is nil if every call is allowed
	judge func(work session.Step, rules string) session.Permission
	// always are the rules that were kept
	always []string
}

func newPrompted(t *testing.T, prompt session.Prompt, replies ...string) *prompted {
	t.Helper()
	file := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(file, []byte(strings.Join(replies, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	prompt.Text, prompt.Model, prompt.Tools = "Do it", "m", []string{"files", "commands"}
	if prompt.MaxTurns == 0 {
		prompt.MaxTurns = session.DefaultMaxTurns
	}
	step := session.Step{ID: "code", Kind: session.KindPrompt, Prompt: &prompt}
	return &prompted{world: newWorld(t, plan(task("fix", step))), model: script.Model{Name: "m", File: file}, replies: map[string]string{}}
}

// asking is the model of a prompted world.
type asking struct {
	script.Model
	w *prompted
}

func (m asking) Ask(ctx context.Context, r session.ModelRequest, into io.Writer) error {
	if err := m.w.call("ask"); err != nil {
		return err
	}
	m.w.note("model asked")
	m.w.asked = append(m.w.asked, r)
	if time.Now().Before(m.w.back) {
		return &session.Error{Code: session.ErrModel, Message: "the connection broke", Retryable: true}
	}
	if m.w.garbles > 0 {
		m.w.garbles--
		_, err := io.WriteString(into, "{\n")
		return err
	}
	return m.Model.Ask(ctx, r, into)
}

// arriving is the file of a reply.
type arriving struct {
	w   *prompted
	key string
}

func (a arriving) Write(piece []byte) (int, error) {
	if err := a.w.call("piece"); err != nil {
		return 0, err
	}
	a.w.replies[a.key] += string(piece)
	return len(piece), nil
}

func (a arriving) Close() error { return a.w.call("close the reply") }

func (w *prompted) Create(key string) (io.WriteCloser, error) {
	return arriving{w, key}, w.call("create the reply")
}

func (w *prompted) Read(key string) ([]byte, error) {
	return []byte(w.replies[key]), w.call("read the reply")
}

func (w *prompted) Forget(key string) error {
	delete(w.replies, key)
	return w.call("forget the reply")
}

func (w *prompted) process() *process {
	p := w.world.process()
	p.prompting = engine.Prompting{
		Models: func(string) (engine.Model, error) { return asking{w.model, w}, w.call("model") },
		Converse: func(step session.StepID, p *session.Prompt) engine.Conversation {
			return &talk.Conversation{Step: step, Powers: p.Tools, Plans: p.Plans, Workspace: "/ws", Decode: func(_ string, raw []byte) (session.Reply, error) { return script.Model{}.Reply(raw) }}
		},
		Reads: func(_ context.Context, work session.CallWork) (string, []session.FileState, error) {
			content, ok := w.files[work.Step.Read.Path]
			if !ok {
				return "", nil, fileStep("no file " + work.Step.Read.Path)
			}
			return content, []session.FileState{newWorkspace(w.world).state(work.Step.Read.Path)}, nil
		},
		Judge: func(_ session.StepID, work session.Step, rules string) session.Permission {
			if w.judge == nil {
				return session.Permission{Confine: session.Unconfined}
			}
			return w.judge(work, rules)
		},
		Diff:    func(_, after []byte, path string) []string { return []string{path + " becomes " + string(after)} },
		Always:  func(rule string) error { w.always = append(w.always, rule); return w.call("always") },
		Replies: w, Unmask: func(_ context.Context, c session.Change) (session.Change, error) { return c, w.call("unmask") },
	}
	return p
}

// told returns the results of calls in the last request.
func (w *prompted) told() (results []string) {
	for _, m := range w.asked[len(w.asked)-1].Messages {
		if m.Role == session.RoleTool {
			results = append(results, m.Text)
		}
	}
	return results
}

// said returns the messages of acode in the last request.
func (w *prompted) said() (texts []string) {
	for _, m := range w.asked[len(w.asked)-1].Messages {
		if m.Role == session.RoleUser {
			texts = append(texts, m.Text)
		}
	}
	return texts
}

const (
	writesAndRuns = `{"text": "I begin.", "calls": [{"id": "1", "tool": "write_file", "arguments": {"path": "a", "content": "one"}}, {"id": "2", "tool": "run_command", "arguments": {"command": "ledger first"}}]}`
	readsAndRuns  = `{"calls": [{"id": "3", "tool": "read_file", "arguments": {"path": "a"}}, {"id": "4", "tool": "read_file", "arguments": {"path": "missing"}}, {"id": "5", "tool": "run_command", "arguments": {"command": "ledger second"}}]}`
	isDone        = `{"text": "It is done."}`
)

// The calls of a model are carried out in their order, and the model gets each result. A
// call that cannot be carried out gets a reason.
func TestPromptIsCarriedOut(t *testing.T) {
	w := newPrompted(t, session.Prompt{Capture: "ANSWER"}, writesAndRuns, readsAndRuns,
		`{"calls": [{"id": "6", "tool": "nothing", "arguments": {}}, {"id": "", "tool": "read_file", "arguments": {"path": "a"}}, {"id": "8", "tool": "run_command", "arguments": {"command": "exit 3"}}, {"id": "9", "tool": "edit_file", "arguments": {"path": "a", "old_string": "two", "new_string": "three"}}]}`, isDone)
	wantResult(t, w.process().must(), session.Completed, "", "")
	if d := cmp.Diff([]string{"first", "second"}, w.ledger); d != "" || w.files["a"] != "one" {
		t.Errorf("a is %q; ledger (-want +got):\n%s", w.files["a"], d)
	}
	for i, want := range []string{"Done.", "Exit status 0", "one", "FAILED: no file missing", "Exit status 0", "NOT CARRIED OUT: there is no tool", "NOT CARRIED OUT: the call has no id", "Exit status 3", "no single match in a"} {
		if got := w.told(); i >= len(got) || !strings.Contains(got[i], want) {
			t.Errorf("result %d: got %q, want %q", i+1, got, want)
		}
	}
	if d := payload[session.StepCompletedData](w.world, session.StepCompleted); d.Capture == nil || d.Capture.Name != "ANSWER" || d.Matches.Text != "It is done." {
		t.Errorf("receipt: got %+v", d)
	}
	w.inOrder("commit MessageAdded + ModelAsked", "model asked", "commit ModelAnswered + started fix/code/c1.1:1", "effect fix/code/c1.1:1", "commit completed fix/code/c1.1:1 + started fix/code/c1.2:1")
	if len(w.replies) != 0 {
		t.Errorf("replies are left: %q", w.replies)
	}
}

// A turn costs two commits, however many of its calls only read.
func TestTurnOfReads(t *testing.T) {
	w := newPrompted(t, session.Prompt{}, `{"calls": [{"id": "1", "tool": "read_file", "arguments": {"path": "a"}}, {"id": "2", "tool": "read_file", "arguments": {"path": "b"}}, {"id": "3", "tool": "read_file", "arguments": {"path": "a"}}]}`, isDone)
	w.files["a"], w.files["b"] = "one", "two"
	wantResult(t, w.process().must(), session.Completed, "", "")
	first := slices.Index(w.trace, "model asked")
	second := first + 1 + slices.Index(w.trace[first+1:], "model asked")
	if got := slices.DeleteFunc(slices.Clone(w.trace[first:second]), func(l string) bool { return !strings.HasPrefix(l, "commit") }); len(got) != 2 {
		t.Errorf("commits of a turn: got %q, want two", got)
	}
}

// After a kill at any call, each effect happens once, and the model is told the truth.
func TestPromptAfterEachKill(t *testing.T) {
	calm := newPrompted(t, session.Prompt{}, writesAndRuns, readsAndRuns, isDone)
	wantResult(t, calm.process().must(), session.Completed, "", "")
	unknown := 0
	for _, killsToo := range []bool{false, true} {
		for k := 1; k <= calm.calls; k++ {
			w := newPrompted(t, session.Prompt{}, writesAndRuns, readsAndRuns, isDone)
			w.crashAt, w.killsToo, w.happened = k, killsToo, true
			for runs := 0; w.sess.State != session.Completed; runs++ {
				p := w.process()
				p.policy.Uncertain = session.InterruptAsks
				if _, crashed, err := p.run(); err != nil || runs > 2 || crashed != (runs == 0) {
					t.Fatalf("killed at call %d, run %d: crashed %t, %v\n%s", k, runs, crashed, err, strings.Join(w.trace, "\n"))
				}
				w.lawful()
			}
			if d := cmp.Diff(calm.ledger, w.ledger) + cmp.Diff(calm.files, w.files); d != "" {
				t.Errorf("killed at call %d: ledger and files (-undisturbed +killed):\n%s", k, d)
			}
			told := strings.Join(w.told(), "\n")
			if strings.Contains(told, "OUTCOME UNKNOWN") {
				unknown++
			} else if d := cmp.Diff(len(calm.told()), len(w.told())); d != "" {
				t.Errorf("killed at call %d: results (-undisturbed +killed): %s", k, d)
			}
			if !killsToo && unknown > 0 {
				t.Errorf("killed at call %d: an outcome is unknown although the supervisor lives", k)
			}
		}
	}
	if unknown == 0 {
		t.Error("no outcome is unknown although supervisors were killed")
	}
}

// At the limit of turns the session pauses. The next resume allows as many again.
func TestTurnsAreLimited(t *testing.T) {
	w := newPrompted(t, session.Prompt{MaxTurns: 2}, writesAndRuns, readsAndRuns, isDone)
	wantResult(t, w.process().must(), session.Paused, session.ReasonMaxTurns, session.ErrLimit)
	wantResult(t, w.process().must(), session.Completed, "", "")
	if said := strings.Join(w.said(), "\n"); !strings.Contains(said, "Continue from where you left off") || len(w.asked) != 3 {
		t.Errorf("after %d requests acode said %q", len(w.asked), said)
	}
}

// A request without a whole reply pauses the session. The model sees the part that
// arrived as its own words, and is asked again.
func TestReplyIsCutOff(t *testing.T) {
	w := newPrompted(t, session.Prompt{}, `{"text": "This reply has several pieces, which arrive one by one."}`)
	w.nth, w.fault = map[string]int{"piece": 2}, &session.Error{Code: session.ErrModel, Message: "the connection broke"}
	res := w.process().must()
	wantResult(t, res, session.Paused, session.ReasonProvider, session.ErrModel)
	if !strings.Contains(res.Message, "the connection broke") {
		t.Errorf("message: got %q", res.Message)
	}
	wantResult(t, w.process().must(), session.Completed, "", "")
	last := w.asked[len(w.asked)-1].Messages
	if !slices.ContainsFunc(last, func(m session.Message) bool {
		return m.Cut && strings.HasPrefix("This reply has several pieces", m.Text) && m.Text != ""
	}) {
		t.Errorf("the part that arrived is not in %+v", last)
	}
}

// A reply that cannot be read pauses the session, and the next resume asks again.
func TestReplyCannotBeRead(t *testing.T) {
	w := newPrompted(t, session.Prompt{}, isDone)
	w.garbles = 1
	wantResult(t, w.process().must(), session.Paused, session.ReasonProvider, session.ErrModel)
	wantResult(t, w.process().must(), session.Completed, "", "")
}

// A model that gives up fails its step.
func TestModelGivesUp(t *testing.T) {
	w := newPrompted(t, session.Prompt{}, `{"calls": [{"id": "1", "tool": "finish", "arguments": {"status": "failed", "summary": "no key"}}]}`)
	res := w.process().must()
	wantResult(t, res, session.Paused, session.ReasonTaskFailed, session.ErrGaveUp)
	if !strings.Contains(res.Message, "no key") {
		t.Errorf("message: got %q", res.Message)
	}
}

// An answer that is no value of a variable fails the step.
func TestAnswerIsTooLong(t *testing.T) {
	w := newPrompted(t, session.Prompt{Capture: "ANSWER"}, `{"text": "`+strings.Repeat("x", 70_000)+`"}`)
	wantResult(t, w.process().must(), session.Paused, session.ReasonTaskFailed, session.ErrCommand)
}

// A result that was edited never reaches the model.
func TestEditedResultStopsThePrompt(t *testing.T) {
	w := newPrompted(t, session.Prompt{}, writesAndRuns, isDone)
	w.crashIn, w.crashNth = "ask", 2
	if _, crashed, err := w.process().run(); !crashed || err != nil {
		t.Fatalf("run: crashed %t, %v", crashed, err)
	}
	i := slices.IndexFunc(w.events, func(e session.Event) bool { return e.Type == session.OperationCompleted })
	w.events[i].Payload = []byte(strings.Replace(string(w.events[i].Payload), "{", "{ ", 1))
	asked := len(w.asked)
	if _, _, err := w.process().run(); !errors.Is(err, session.ErrCorrupt) || len(w.asked) != asked {
		t.Errorf("after an edit: got %v and %d requests, want %s and none", err, len(w.asked)-asked, session.ErrCorrupt)
	}
}

// Errors of the store and of the files of replies end the execution, and a resume
// continues.
func TestPromptAfterErrors(t *testing.T) {
	for call, nth := range map[string]int{"model": 1, "unmask": 1, "event": 2, "stage": 2, "open": 2, "create the reply": 2, "read the reply": 2, "close the reply": 2, "forget the reply": 2, "in place": 2} {
		w := newPrompted(t, session.Prompt{}, writesAndRuns, readsAndRuns, isDone)
		w.nth, w.fault = map[string]int{call: nth}, &session.Error{Code: session.ErrStoreIO, Message: "input/output error"}
		for runs := 0; runs < 3 && w.sess.State != session.Completed; runs++ {
			if _, _, err := w.process().run(); err != nil && session.CodeOf(err) != session.ErrStoreIO {
				t.Fatalf("%s fails: got %v", call, err)
			}
		}
		if d := cmp.Diff([]string{"first", "second"}, w.ledger); d != "" || w.sess.State != session.Completed || w.nth[call] > 0 {
			t.Errorf("%s fails: %s, met %t, ledger (-want +got):\n%s", call, w.sess.State, w.nth[call] == 0, d)
		}
	}
}

// rules counts the recorded messages with the files of the workspace.
func (w *prompted) rules() (n int) {
	for _, e := range w.events {
		var d session.MessageAddedData
		if e.Type == session.MessageAdded && e.Decode(&d) == nil && d.Kind == session.MessageRules {
			n++
		}
	}
	return n
}

// A prompt begins with the files of the workspace that a person trusts then. They are
// recorded once, whenever the process is killed: a resume neither repeats nor removes
// them, also if the person does not trust them any more.
func TestPromptBeginsWithRules(t *testing.T) {
	end := func(k int, trusted ...session.TrustedFile) *prompted {
		w := newPrompted(t, session.Prompt{}, runsTwice, isDone)
		w.crashAt, w.happened = k, true
		for w.sess.State != session.Completed {
			p := w.process()
			p.prompting.Trusted = func(context.Context) []session.TrustedFile { return trusted }
			if _, _, err := p.run(); err != nil {
				t.Fatal(err)
			}
			w.lawful()
			if w.rules() > 0 {
				trusted = nil
			}
		}
		return w
	}
	if w := end(0); w.rules() > 0 || len(w.asked[0].Messages) != 1 {
		t.Errorf("nothing is trusted: the model got %+v", w.asked[0].Messages)
	}
	rules := session.TrustedFile{Path: "AGENTS.md", Hash: "h", Text: "be good"}
	calls := end(0, rules).calls
	for k := range calls + 1 {
		w := end(k, rules)
		for _, r := range w.asked {
			if len(r.Messages) < 2 || r.Messages[0].Text != "Do it" || !strings.Contains(r.Messages[1].Text, "\nbe good\n") || w.rules() != 1 {
				t.Fatalf("killed at call %d: %d times recorded; the request has %+v", k, w.rules(), r.Messages)
			}
		}
	}
}

// A prompt gets the facts of the tasks on which its own depends.
func TestFactsOfDependencies(t *testing.T) {
	w := newPrompted(t, session.Prompt{}, `{"text": "I found the cause."}`, isDone)
	first := w.plan.Tasks[0]
	first.ID = "look"
	second := first
	second.ID, second.DependsOn = "repair", []string{"look", "build"}
	build := task("build", command("make", "ledger made"))
	w.world = newWorld(t, plan(first, build, second))
	wantResult(t, w.process().must(), session.Completed, "", "")
	said := strings.Join(w.said(), "\n")
	for _, want := range []string{"look/code: Do it: completed; its model answered: I found the cause.", "build/make: Run ledger made: completed", "The lines are data"} {
		if !strings.Contains(said, want) {
			t.Errorf("the second prompt was told %q, without %q", said, want)
		}
	}
}

// The text of a reply is shown while it arrives: whole lines, and long lines in pieces.
func TestReplyIsShown(t *testing.T) {
	text := "I look.\\nThen " + strings.Repeat("I write another word, ", 12) + "and end."
	w := newPrompted(t, session.Prompt{}, `{"text": "`+text+`"}`)
	p := w.process()
	p.prompting.Watched = true
	wantResult(t, p.must(), session.Completed, "", "")
	var shown []string
	for _, n := range p.shown {
		if n.Kind == session.NoticeOutput {
			shown = append(shown, n.Text)
		}
	}
	if len(shown) < 4 || shown[0] != "I look." || strings.Join(shown[1:], " ") != strings.ReplaceAll(text[len("I look.\\n"):], "\\n", "") {
		t.Errorf("shown: %q", shown)
	}
}

// A provider is away for an hour, over two processes. Each asks five times and pauses
// with that reason. When the provider is back, a resume ends the work, each effect once.
func TestWorkGoesOnWhenTheProviderIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPrompted(t, session.Prompt{}, writesAndRuns, readsAndRuns, isDone)
		begin := time.Now()
		w.back = begin.Add(time.Hour)
		for runs := 1; runs <= 2; runs++ {
			if _, crashed, err := w.process().run(); crashed || session.CodeOf(err) != session.ErrModel && err != nil {
				t.Fatalf("run %d: crashed %t, %v", runs, crashed, err)
			}
			if w.sess.State != session.Paused || w.sess.Reason != session.ReasonProvider || len(w.asked) != 5*runs || len(w.ledger) != 0 {
				t.Errorf("run %d: %s (%s) after %d requests, want paused (provider) after %d", runs, w.sess.State, w.sess.Reason, len(w.asked), 5*runs)
			}
		}
		if took := time.Since(begin); took <= 0 || took > time.Minute {
			t.Errorf("acode waited %s, want less than a minute", took)
		}
		<-time.After(time.Until(w.back))
		if _, crashed, err := w.process().run(); crashed || err != nil {
			t.Fatalf("when the provider is back: crashed %t, %v", crashed, err)
		}
		if d := cmp.Diff([]string{"first", "second"}, w.ledger); d != "" || w.sess.State != session.Completed {
			t.Errorf("when the provider is back: %s, ledger (-want +got):\n%s", w.sess.State, d)
		}
	})
}

// worded is a conversation whose messages another version of acode words.
type worded struct {
	*talk.Conversation
	version int
}

func (c worded) Version() int { return c.version }

// After an upgrade that words events differently, the conversation continues, and each
// request records its version.
func TestUpgradeOfTheWords(t *testing.T) {
	w := newPrompted(t, session.Prompt{MaxTurns: 1}, writesAndRuns, isDone)
	for _, run := range []struct {
		version int
		state   session.State
	}{{7, session.Paused}, {8, session.Completed}} {
		p := w.process()
		converse := p.prompting.Converse
		p.prompting.Converse = func(id session.StepID, of *session.Prompt) engine.Conversation {
			return worded{converse(id, of).(*talk.Conversation), run.version}
		}
		if res := p.must(); res.State != run.state {
			t.Fatalf("with version %d the session is %s: %s", run.version, res.State, res.Message)
		}
	}
	var versions []int
	for _, e := range w.events {
		var d session.ModelAskedData
		if e.Type == session.ModelAsked && e.Decode(&d) == nil {
			versions = append(versions, d.Render)
		}
	}
	if d := cmp.Diff([]int{7, 8}, versions); d != "" {
		t.Errorf("versions (-want +got):\n%s", d)
	}
	w.lawful()
}
