package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quiet is an environment in which nothing changed.
type quiet struct{ changed []session.ChangedFile }

func (q quiet) Changes(context.Context, []session.FileState, []string, string) ([]session.ChangedFile, []string, error) {
	return q.changed, nil, nil
}
func (quiet) GitChanges(context.Context, string) ([]string, error)       { return nil, nil }
func (quiet) Suspicious(context.Context, []session.ChangedFile) []string { return nil }
func (quiet) Snapshot(context.Context, []string) (resume.Snapshot, error) {
	return resume.Snapshot{}, nil
}
func (quiet) Changed(context.Context, []session.ChangedFile) (bool, error) { return true, nil }
func (quiet) InProgress(context.Context, session.StepID, []session.FileState) (resume.Strategy, error) {
	return "", nil
}

// Keep accepts all changes.
func (quiet) Keep(_ context.Context, changed []session.ChangedFile) ([]session.FileState, error) {
	var out []session.FileState
	for _, c := range changed {
		out = append(out, session.FileState{Path: c.Path, Hash: c.New, Size: c.Size})
	}
	return out, nil
}

// process is one acode process in a world.
type process struct {
	w       *world
	ctx     context.Context
	person  person
	policy  engine.Policy
	choices resume.Choices
	environ []string
	inputs  *session.Inputs
	secrets map[string]string
	again   chan struct{}
	last    bool
	log     bytes.Buffer
	snap    func(context.Context) (string, string, error)
	look    func(context.Context) (string, error)
	next    *session.Continuation
	// called after planning and before execution
	between func()
	shown   []session.Notice

	parallel int
	// limit of the execution; 0 for none
	limit time.Duration
	// for several branches; nil if one branch has the world
	shared *shared
	// for prompt steps
	prompting engine.Prompting
}

func (w *world) process() *process { return &process{w: w, ctx: context.Background()} }

type journal interface {
	engine.Journal
	engine.Blobs
}

// run resumes the session and executes it to its end, or to the crash.
func (p *process) run() (res session.Result, crashed bool, err error) {
	ctx := p.ctx
	if p.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.limit)
		defer cancel()
	}
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(crash); !ok {
				panic(r)
			}
			crashed, p.w.crashAt, p.w.crashIn = true, 0, ""
			p.w.replay()
		}
	}()
	ws := newWorkspace(p.w)
	if p.prompting.Models != nil {
		ws.Guarding = &guarding{w: p.w}
	}
	var journal journal = p.w
	var files engine.Files = ws
	var commands interface {
		engine.Commands
		resume.Commands
	} = supervisor{p.w}
	if p.shared != nil {
		journal, files, commands = p.shared, sharedFiles{nil, p.shared, ws}, sharedCommands{p.shared, supervisor{p.w}}
	}
	r := &resume.Resumer{
		Journal: journal, Plan: p.w.plan, Files: files, Commands: commands, Environment: quiet{}, Person: quiet{},
		Options: resume.Options{Choices: p.choices, Workspace: "/ws", OnChanges: resume.ChangesContinue, DecidedBy: "flag"},
		Notify:  func(session.Notice) {}, Log: slog.New(slog.DiscardHandler),
	}
	ready, err := r.Resume(ctx)
	if err != nil {
		return res, false, err
	}
	p.next = &ready.Next
	if p.prompting.Models != nil {
		if err := p.openCalls(ctx, r); err != nil {
			return res, false, err
		}
	}
	if p.between != nil {
		p.between()
	}
	e := &engine.Engine{
		Prompting: p.prompting, Journal: journal, Blobs: journal, Files: files, Commands: commands, MaxParallel: p.parallel, Person: p.person, Plan: p.w.plan, Policy: p.policy,
		Environ: p.environ, Inputs: p.inputs, Secrets: p.secrets, Redact: redact, Masked: masked, Log: slog.New(slog.NewJSONHandler(&p.log, nil)), Again: p.again, Last: p.last, Snapshot: snapshots(p.snap), Look: p.look,
		Captured: func(name, _ string) { p.w.note("captured %s", name) },
		Notify: func(n session.Notice) {
			p.shown = append(p.shown, n)
			line := "notice " + string(n.Kind)
			if n.Item != nil {
				line += " " + n.Item.ID.String()
			}
			if n.Level != "" {
				line += " " + string(n.Level)
			}
			if n.Kind == session.NoticeWarning {
				line += " " + n.Text
			}
			if strings.Contains(n.Text+strings.Join(n.Detail, ""), "hunter2") {
				p.w.t.Errorf("%s shows a secret: %s %q", line, n.Text, n.Detail)
			}
			p.w.note("%s", line)
		},
	}
	res, err = e.Execute(ctx, ready.Next, ready.Begin...)
	return res, false, err
}

// openCalls gives the prompts their calls in progress.
func (p *process) openCalls(ctx context.Context, r *resume.Resumer) error {
	open, err := r.Operations(ctx, func(_ context.Context, ref session.BlobRef) (*session.Step, error) {
		var step session.Step
		return &step, json.Unmarshal([]byte(p.w.blobs[ref.Hash]), &step)
	})
	for _, call := range open {
		for i := range p.next.Items {
			if it := &p.next.Items[i]; it.ID == call.ID.Of() {
				it.Calls = append(it.Calls, call)
			}
		}
	}
	return err
}

func redact(s string) string {
	return strings.NewReplacer("hunter2", "[redacted]", longSecret, "[redacted]", bytesSecret, "[redacted]").Replace(s)
}

// masked is redact for a reader.
func masked(r io.Reader) io.Reader { return &masking{from: r} }

type masking struct {
	from io.Reader
	all  io.Reader
}

func (m *masking) Read(p []byte) (int, error) {
	if m.all == nil {
		b, err := io.ReadAll(m.from)
		if err != nil {
			return 0, err
		}
		m.all = strings.NewReader(redact(string(b)))
	}
	return m.all.Read(p)
}

// bytesSecret is not valid text, but its end would be with one more byte.
const bytesSecret = "s3cr3t\xff-bytes\xc3"

// longSecret is as long as a file of credentials in a variable.
var longSecret = strings.Repeat("s3cr3t", 2_000)

// replay forgets everything that is not in the journal, like the end of a process.
func (w *world) replay() {
	s, _, err := session.Replay(slices.Clone(w.events))
	if err != nil {
		w.t.Fatalf("Replay: %v", err)
	}
	w.sess = s
}

// must runs and fails the test unless there is a result.
func (p *process) must() session.Result {
	p.w.t.Helper()
	res, crashed, err := p.run()
	if err != nil || crashed {
		p.w.t.Fatalf("Execute: %v, crashed %v\n%s", err, crashed, strings.Join(p.w.trace, "\n"))
	}
	p.w.lawful()
	return res
}

// lawful checks the invariants E1, E2 and E3 over the whole trace.
func (w *world) lawful() {
	w.t.Helper()
	durable := map[string]bool{}
	last := ""
	for i, line := range w.trace {
		words := strings.Fields(line)
		switch words[0] {
		case "commit":
			for _, d := range strings.Split(strings.TrimPrefix(line, "commit "), " + ") {
				durable[d] = true
			}
			last = line
		case "fence", "rollback":
			last = line
		case "effect":
			if !strings.Contains(words[1], "/check:") && !durable["started "+words[1]] {
				w.t.Errorf("E1: line %d, %q before its intent is durable", i, line)
			}
			if last != "fence" {
				w.t.Errorf("E3: line %d, %q follows %q and not a look at the fence", i, line, last)
			}
			last = line
		case "notice":
			if verb := map[string]string{"completed": "completed", "failed": "failed", "uncertain": "unknown", "asking": "asked"}[words[1]]; verb != "" {
				if !slices.ContainsFunc(w.trace[:i], func(l string) bool {
					return strings.HasPrefix(l, "commit") && strings.Contains(l, verb+" "+words[2])
				}) {
					w.t.Errorf("E2: line %d, %q before it is durable", i, line)
				}
			}
		case "forget":
			if !strings.Contains(words[1], "/check:") && !durable["completed "+words[1]] && !durable["failed "+words[1]] && !durable["started "+following(words[1])] {
				w.t.Errorf("E2: line %d, %q before the receipt is durable", i, line)
			}
		}
	}
}

// following returns the operation of the attempt that replaced the attempt of op.
func following(op string) string {
	i := strings.LastIndexByte(op, ':')
	n, _ := strconv.Atoi(op[i+1:])
	return fmt.Sprintf("%s:%d", op[:i], n+1)
}

// inOrder checks that the trace has these lines in this order, with any lines between.
func (w *world) inOrder(lines ...string) {
	w.t.Helper()
	at := 0
	for _, want := range lines {
		i := slices.Index(w.trace[at:], want)
		if i < 0 {
			w.t.Fatalf("trace: %q is missing after line %d of\n%s", want, at, strings.Join(w.trace, "\n"))
		}
		at += i + 1
	}
}

func (w *world) count(prefix string) int {
	n := 0
	for _, l := range w.trace {
		if strings.HasPrefix(l, prefix) {
			n++
		}
	}
	return n
}

// Constructors of plans.

func plan(tasks ...session.Task) *session.Plan {
	return &session.Plan{Version: 1, Task: "test", OnFailure: session.FailurePauses, Tasks: tasks}
}

func task(id string, steps ...session.Step) session.Task { return session.Task{ID: id, Steps: steps} }

func after(t session.Task, deps ...string) session.Task {
	t.DependsOn = deps
	return t
}

func write(id, path, content string) session.Step {
	return session.Step{ID: id, Kind: session.KindWrite, Changes: []session.Change{{Op: session.KindWrite, Path: path, Content: content}}}
}

func command(id, shell string, with ...func(*session.Run)) session.Step {
	r := &session.Run{Shell: shell}
	for _, f := range with {
		f(r)
	}
	return session.Step{ID: id, Kind: session.KindRun, Run: r}
}

func capturing(name string) func(*session.Run) { return func(r *session.Run) { r.Capture = name } }
func checking(shell string) func(*session.Run) { return func(r *session.Run) { r.Check = shell } }
func onInterrupt(o session.OnInterrupt) func(*session.Run) {
	return func(r *session.Run) { r.OnInterrupt = o }
}

func gate(id string) session.Step {
	return session.Step{ID: id, Kind: session.KindApprove, Approve: "Go on?"}
}

func read(id, path string) session.Step {
	return session.Step{ID: id, Kind: session.KindRead, Read: &session.Read{Path: path}}
}

func id(task, step string) session.StepID { return session.StepID{Task: task, Step: step} }

// payload decodes the last event of a type.
func payload[D any](w *world, kind session.EventType) D {
	w.t.Helper()
	var d D
	w.mu.Lock()
	events := slices.Clone(w.events)
	w.mu.Unlock()
	for _, e := range slices.Backward(events) {
		if e.Type == kind {
			if err := e.Decode(&d); err != nil {
				w.t.Fatalf("decode %s: %v", kind, err)
			}
			return d
		}
	}
	w.t.Fatalf("no %s in the journal", kind)
	return d
}

func wantResult(t tester, got session.Result, state session.State, reason session.Reason, code session.Code) {
	t.Helper()
	if got.State != state || got.Reason != reason || got.Code != code {
		t.Fatalf("Execute: got %s, %q, %q (%s), want %s, %q, %q", got.State, got.Reason, got.Code, got.Message, state, reason, code)
	}
}

var (
	errStore       = errors.New("input/output error")
	errFull  error = &session.Error{Code: session.ErrDiskFull, Message: "no room left"}
)

func answer(a engine.Answer) func(context.Context, string) (engine.Answer, error) {
	return func(context.Context, string) (engine.Answer, error) { return a, nil }
}

// snapshots adapts f, which needs no status, for an engine; nil stays nil.
func snapshots(f func(context.Context) (string, string, error)) func(context.Context, func(session.StepID) session.Status) (string, string, error) {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, _ func(session.StepID) session.Status) (string, string, error) {
		return f(ctx)
	}
}
