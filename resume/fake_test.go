package resume_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const sessionID session.ID = "01890000-0000-7000-8000-000000000001"

var errPort = errors.New("input/output error")

type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

// bench is a session with fake ports.
type bench struct {
	t      tester
	sess   *session.Session
	events []session.Event
	// trace lists the calls of ports and the notices in order.
	trace   []string
	notices []session.Notice
	log     bytes.Buffer

	progress session.Progress
	foreign  []session.FileState
	record   session.CommandRecord
	// kept holds records by key. Other keys have record.
	kept      map[string]session.CommandRecord
	changed   []session.ChangedFile
	unchecked []string
	git       []string
	// lines is the result of Suspicious.
	lines []string
	fails map[string]error
	// changesFn replaces the result of Changes.
	changesFn func(ctx context.Context) error
	// gitFn replaces the result of GitChanges.
	gitFn func(ctx context.Context) error

	goOn     bool
	strategy resume.Strategy

	// planned is the last argument of Changes.
	planned []string
	// hashed is the last argument of Snapshot.
	hashed   []string
	compared []session.FileState
	r        *resume.Resumer
}

func newBench(t tester, p *session.Plan) *bench {
	b := &bench{t: t, sess: &session.Session{}, fails: map[string]error{}}
	b.add(session.Draft{Type: session.SessionCreated, Data: session.SessionCreatedData{V: 1, Short: "abc123", Task: "test", Workspace: "/ws", Tasks: len(p.Tasks), Steps: p.Steps()}})
	b.r = &resume.Resumer{
		Journal: b, Plan: p, Files: b, Commands: b, Environment: b, Person: b,
		Options: resume.Options{Validate: true, Device: "dev", Host: "host", PID: 42, Workspace: "/moved", Checkpoint: "seq 7", DecidedBy: "flag", Config: map[string]string{}},
		Notify: func(n session.Notice) {
			b.notices = append(b.notices, n)
			b.trace = append(b.trace, "notice "+string(n.Kind))
		},
		Log: slog.New(&tracing{slog.NewJSONHandler(&b.log, &slog.HandlerOptions{Level: slog.LevelDebug}), b}),
	}
	return b
}

// tracing adds the event of each log record to the trace.
type tracing struct {
	slog.Handler
	b *bench
}

func (h *tracing) Handle(ctx context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "event" {
			h.b.trace = append(h.b.trace, "log "+a.Value.String())
		}
		return true
	})
	return h.Handler.Handle(ctx, r)
}

func (b *bench) add(d session.Draft) {
	b.t.Helper()
	payload, err := json.Marshal(d.Data)
	if err != nil {
		b.t.Fatalf("encode %s: %v", d.Type, err)
	}
	n := len(b.events) + 1
	e := session.Event{Session: sessionID, Seq: uint64(n), TimeUS: int64(1e9 + n*1000), Type: d.Type, Actor: "acode", Epoch: b.sess.Epoch, Payload: payload}
	e.ID[15] = byte(n)
	if d.Type == session.ExecutionAcquired {
		e.Epoch++
	}
	e.Hash = e.ChainHash(b.sess.Head)
	if _, err := b.sess.Apply(e); err != nil {
		b.t.Fatalf("Apply %s %s: %v", d.Type, payload, err)
	}
	b.events = append(b.events, e)
}

// acquired begins an epoch and changes the state to executing.
func (b *bench) acquired(config string) {
	b.t.Helper()
	b.add(session.Draft{Type: session.ExecutionAcquired, Data: session.ExecutionAcquiredData{Workspace: "/ws", Git: `{"head":"1"}`, Manifest: "m1", Config: config}})
	b.to(session.Planning)
	b.to(session.Executing)
}

func (b *bench) to(s session.State) {
	b.t.Helper()
	b.add(session.Draft{Type: session.StateChanged, Data: session.StateChangedData{From: b.sess.State, To: s}})
}

func key(id session.StepID, attempt int) string {
	return session.Key{Session: sessionID, Step: id, Operation: session.OpMain, Attempt: attempt}.String()
}

func (b *bench) started(id session.StepID, kind session.Kind, files ...session.Transition) {
	b.t.Helper()
	n := 1
	if st := b.sess.Steps[id]; st != nil {
		n = st.Attempt + 1
	}
	b.add(session.Draft{Type: session.StepStarted, Data: session.StepStartedData{StepID: id, Kind: kind, Key: key(id, n), Attempt: n, Files: files}})
}

func (b *bench) completed(id session.StepID, files ...session.FileState) {
	b.t.Helper()
	b.add(session.Draft{Type: session.StepCompleted, Data: session.StepCompletedData{StepID: id, Key: key(id, b.sess.Steps[id].Attempt), Attempt: b.sess.Steps[id].Attempt, Files: files}})
}

func (b *bench) call(name string) error {
	b.trace = append(b.trace, name)
	return b.fails[name]
}

func (b *bench) Session() *session.Session { return b.sess }

func (b *bench) Event(_ context.Context, seq uint64) (session.Event, error) {
	return b.events[seq-1], b.call("event")
}

func (b *bench) Inspect(context.Context, string, []session.Transition) (session.Progress, []session.FileState, error) {
	return b.progress, b.foreign, b.call("inspect")
}

func (b *bench) Look(_ context.Context, key string) (session.CommandRecord, error) {
	if rec, ok := b.kept[key]; ok {
		return rec, b.call("look")
	}
	return b.record, b.call("look")
}

func (b *bench) Trace(ctx context.Context, key string) (session.CommandRecord, error) {
	return b.Look(ctx, key)
}

func (b *bench) Changes(ctx context.Context, files []session.FileState, planned []string, _ string) ([]session.ChangedFile, []string, error) {
	b.compared, b.planned = files, planned
	if b.changesFn != nil {
		return nil, b.unchecked, b.changesFn(ctx)
	}
	return b.changed, b.unchecked, b.call("changes")
}

func (b *bench) GitChanges(ctx context.Context, _ string) ([]string, error) {
	if b.gitFn != nil {
		return nil, b.gitFn(ctx)
	}
	return b.git, b.call("git")
}

func (b *bench) Suspicious(context.Context, []session.ChangedFile) []string { return b.lines }

func (b *bench) Snapshot(_ context.Context, planned []string) (resume.Snapshot, error) {
	b.hashed = planned
	return resume.Snapshot{Manifest: "m2", Git: `{"head":"2"}`}, b.call("snapshot")
}

func (b *bench) Keep(_ context.Context, changed []session.ChangedFile) ([]session.FileState, error) {
	out := []session.FileState{}
	for _, c := range changed {
		out = append(out, session.FileState{Path: c.Path, Hash: c.New})
	}
	return out, b.call("keep")
}

func (b *bench) Changed(context.Context, []session.ChangedFile) (bool, error) {
	return b.goOn, b.call("person changed")
}

func (b *bench) InProgress(context.Context, session.StepID, []session.FileState) (resume.Strategy, error) {
	return b.strategy, b.call("person in progress")
}

// resume runs Resume and checks R3: the journal is unchanged.
func (b *bench) resume() (resume.Ready, error) {
	b.t.Helper()
	seq, head := b.sess.LastSeq, b.sess.Head
	before, err := json.Marshal(b.sess.State)
	if err != nil {
		b.t.Fatalf("encode: %v", err)
	}
	ready, err := b.r.Resume(context.Background())
	if after, _ := json.Marshal(b.sess.State); b.sess.LastSeq != seq || b.sess.Head != head || !bytes.Equal(before, after) {
		b.t.Fatalf("R3: Resume changed the session")
	}
	return ready, err
}

// logged returns the log records of an event.
func (b *bench) logged(event string) []map[string]any {
	b.t.Helper()
	var out []map[string]any
	for _, line := range bytes.Split(bytes.TrimSpace(b.log.Bytes()), []byte("\n")) {
		var m map[string]any
		if len(line) == 0 {
			continue
		}
		if err := json.Unmarshal(line, &m); err != nil {
			b.t.Fatalf("log line %s: %v", line, err)
		}
		if m["event"] == event {
			out = append(out, m)
		}
	}
	return out
}

func (b *bench) texts(kind session.NoticeKind) []string {
	var out []string
	for _, n := range b.notices {
		if n.Kind == kind {
			out = append(out, n.Text)
		}
	}
	return out
}

func id(task, step string) session.StepID { return session.StepID{Task: task, Step: step} }

func plan(tasks ...session.Task) *session.Plan {
	return &session.Plan{Version: 1, Task: "test", Tasks: tasks}
}

func write(id, path string) session.Step {
	return session.Step{ID: id, Kind: session.KindWrite, Changes: []session.Change{{Op: session.KindWrite, Path: path, Content: "x"}}}
}

func command(id string) session.Step {
	return session.Step{ID: id, Kind: session.KindRun, Run: &session.Run{Shell: "make"}}
}

// usual returns a plan with a command, a write, a read and a move.
func usual() *session.Plan {
	return plan(session.Task{ID: "t", Title: "Task", Steps: []session.Step{
		command("make"), write("w", "w.txt"),
		{ID: "r", Kind: session.KindRead, Read: &session.Read{Path: "src/*.go"}},
		{ID: "m", Kind: session.KindMove, Changes: []session.Change{{Op: session.KindMove, From: "from", To: "to"}}},
	}})
}

// paused returns a session of the usual plan that was paused after its command.
func paused(t tester) *bench {
	b := newBench(t, usual())
	b.acquired("{}")
	b.started(id("t", "make"), session.KindRun)
	b.completed(id("t", "make"), session.FileState{Path: "z", Hash: "1"}, session.FileState{Path: "out", Hash: "1"})
	b.to(session.Paused)
	return b
}
