package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
)

// trusted are the protected paths of a world.
var trusted = []string{".git/config", "AGENTS.md"}

// guarding is the access to the protected paths of a world.
type guarding struct {
	w *world
	// Place fails so often
	broken int
}

func (g *guarding) guarded(path string) session.Guarded {
	content, ok := g.w.files[path]
	if !ok {
		return session.Guarded{Path: path, Kind: session.GuardAbsent}
	}
	return session.Guarded{Path: path, Kind: session.GuardFile, Mode: 0o644, Size: int64(len(content)), Hash: hash(content)}
}

func (g *guarding) CheckProtected(context.Context, string) error { return g.w.call("check protected") }

func (g *guarding) Guarded(context.Context) (all []session.Guarded, err error) {
	for _, path := range trusted {
		if now := g.guarded(path); now.Kind == session.GuardFile {
			all = append(all, now)
		}
	}
	return all, g.w.call("guarded")
}

func (g *guarding) HeldChanges(_ context.Context, was []session.Guarded) (changes []session.HeldChange, want []session.Guarded, err error) {
	before := map[string]session.Guarded{}
	for _, f := range was {
		before[f.Path] = f
	}
	for _, path := range trusted {
		old, known := before[path]
		now := g.guarded(path)
		switch {
		case !known:
			old = session.Guarded{Path: path, Kind: session.GuardAbsent}
			fallthrough
		default:
			if old.Same(now) {
				continue
			}
		}
		change := session.FileModified
		if now.Kind == session.GuardAbsent {
			change = session.FileDeleted
		} else if !known {
			change = session.FileCreated
		}
		changes, want = append(changes, session.HeldChange{Guarded: now, Change: change}), append(want, old)
	}
	return changes, want, g.w.call("held changes")
}

func (g *guarding) GuardedContent(f session.Guarded) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(g.w.files[f.Path])), nil
}

func (g *guarding) Place(_ context.Context, want []session.Guarded, content func(session.Guarded) (io.ReadCloser, error)) error {
	if g.broken > 0 {
		g.broken--
		return errors.New("the disk is read-only")
	}
	for _, f := range want {
		if f.Kind == session.GuardAbsent {
			delete(g.w.files, f.Path)
			continue
		}
		r, err := content(f)
		if err != nil {
			return err
		}
		kept, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			return err
		}
		g.w.files[f.Path] = string(kept)
	}
	g.w.note("put back")
	return nil
}

// agent is the connection of an agent to a world.
type agent struct {
	*engine.Calls
	w     *world
	guard *guarding
}

func newAgentWorld(t *testing.T) *world {
	w := newWorld(t, session.CallsPlan(session.Agent{Client: "test"}))
	w.files["AGENTS.md"] = "be good\n"
	return w
}

// connect begins the next epoch of an agent's session.
func (w *world) connect() agent {
	w.t.Helper()
	a := agent{w: w, guard: &guarding{w: w}}
	files := newWorkspace(w)
	files.Guarding = a.guard
	r := &resume.Resumer{
		Journal: w, Plan: w.plan, Files: files, Commands: supervisor{w}, Environment: quiet{}, Person: quiet{},
		Options: resume.Options{Workspace: "/ws", OnChanges: resume.ChangesContinue}, Notify: func(session.Notice) {}, Log: slog.New(slog.DiscardHandler),
	}
	ready, err := r.Resume(context.Background())
	if err != nil {
		w.t.Fatalf("connect: %v", err)
	}
	e := &engine.Engine{
		Journal: w, Blobs: w, Files: files, Commands: supervisor{w}, Plan: w.plan, Redact: redact, Masked: masked,
		Log: slog.New(slog.DiscardHandler), Notify: func(session.Notice) {}, Captured: func(string, string) {},
	}
	e.Diff = func(before, after []byte, path string) []string {
		return []string{path + ": " + string(before) + " → " + string(after)}
	}
	begin := ready.Begin
	if at := session.CallsStep(); w.sess.Status(at) == session.Pending {
		begin = append(begin, session.Draft{Type: session.StepStarted, Data: session.StepStartedData{StepID: at, Kind: session.KindCalls, Key: session.KeyOf(w.sess.ID, at, 1).String(), Attempt: 1}})
	}
	if a.Calls, err = e.Calls(context.Background(), ready.Next, nil, begin...); err != nil {
		w.t.Fatalf("connect: %v", err)
	}
	return a
}

// item is a new call that does the work of a step.
func (a agent) item(step session.Step) session.Item {
	work, err := json.Marshal(step)
	if err != nil {
		a.w.t.Fatalf("%v", err)
	}
	return session.Item{ID: a.Number(), Kind: step.Kind, Action: session.ActionExecute, Status: session.Pending, Attempt: 1,
		Call: &session.Call{Tool: "tool", Digest: hash(string(work))}, Work: &step}
}

// do carries out a call and checks its status.
func (a agent) do(step session.Step, want session.Status) session.StepID {
	a.w.t.Helper()
	it := a.item(step)
	if err := a.Do(context.Background(), it); err != nil {
		a.w.t.Fatalf("%s: got %v", it.ID, err)
	}
	if got := a.status(it.ID); got != want {
		a.w.t.Errorf("%s: got %s, want %s", it.ID, got, want)
	}
	return it.ID
}

func (a agent) status(id session.StepID) (s session.Status) {
	a.Look(func(sess *session.Session) { s = sess.Status(id) })
	return s
}

// E1, E2: each call has its intent before its effect, and its receipt after it.
func TestCallsAreOperations(t *testing.T) {
	w := newAgentWorld(t)
	a := w.connect()
	first := a.do(write("call", "a", "one"), session.StepDone)
	a.Record(engine.ReadCall{Kind: session.KindRead, Call: session.Call{Tool: "read_file", Digest: hash("read")}})
	a.Settle([]string{first.Op})
	a.do(command("call", "ledger line"), session.StepDone)
	if w.files["a"] != "one" || len(w.sess.Ops) != 1 || w.sess.Calls != 3 {
		t.Errorf("after three calls: got %q, %d owed of %d", w.files["a"], len(w.sess.Ops), w.sess.Calls)
	}
	seqs := len(w.events)
	if a.Settle([]string{"n3"}); a.Flush(context.Background()) != nil || len(w.events) != seqs+1 || len(w.sess.Ops) != 0 {
		t.Errorf("after Flush: got %d events and %d owed, want one more and none", len(w.events), len(w.sess.Ops))
	}
	if err := a.Flush(context.Background()); err != nil || len(w.events) != seqs+1 {
		t.Errorf("Flush of nothing: got %v and %d events", err, len(w.events))
	}
}

// A call that is refused leaves no trace. What waited for its commit is committed with
// the next one, and its files are free.
func TestRefusedCallLeavesNoTrace(t *testing.T) {
	w := newAgentWorld(t)
	a := w.connect()
	first := a.do(write("call", "a", "one"), session.StepDone)
	a.Settle([]string{first.Op})
	seqs := len(w.events)
	w.fails["check protected"] = &session.Error{Code: session.ErrDenied, Message: "the path is protected"}
	if err := a.Do(context.Background(), a.item(write("call", "a", "two"))); session.CodeOf(err) != session.ErrDenied || len(w.events) != seqs {
		t.Errorf("a refused call: got %v and %d events, want %s and none", err, len(w.events)-seqs, session.ErrDenied)
	}
	a.do(write("call", "a", "three"), session.StepDone)
	if slices.Contains(slices.Collect(maps.Keys(w.sess.Ops)), first) || w.files["a"] != "three" {
		t.Errorf("after the next call: got %q, and %s is settled: %t", w.files["a"], first, w.sess.Ops[first] == nil)
	}
}

// A call waits for another one with an intent on its files, until its context ends.
func TestCallWaitsForItsFiles(t *testing.T) {
	w := newAgentWorld(t)
	a := w.connect()
	first, err := a.Admit(context.Background(), a.item(write("call", "a", "one")))
	if err != nil {
		t.Fatal(err)
	}
	late, stop := context.WithCancelCause(context.Background())
	gaveUp := errors.New("gave up")
	stop(gaveUp)
	if _, err := a.Admit(late, a.item(write("call", "a", "two"))); !errors.Is(err, gaveUp) {
		t.Errorf("a call on the same file: got %v, want the end of its context", err)
	}
	if err := first.Do(context.Background()); err != nil {
		t.Fatal(err)
	}
	a.do(write("call", "a", "three"), session.StepDone)
	if w.files["a"] != "three" {
		t.Errorf("a: got %q", w.files["a"])
	}
}

// What a command changes of the protected paths is recorded with its content, and put
// back before the receipt. A path that cannot be put back is named.
func TestHeldChanges(t *testing.T) {
	for name, broken := range map[string]int{"put_back": 0, "at_the_second_try": 1, "never": 9} {
		t.Run(name, func(t *testing.T) {
			w := newAgentWorld(t)
			a := w.connect()
			a.guard.broken = broken
			w.during = func(w *world, _ string) {
				delete(w.files, "AGENTS.md")
				w.files[".git/config"] = "evil"
			}
			op := a.do(command("call", "ledger line"), session.StepDone)
			var d session.OperationCompletedData
			if err := w.events[w.sess.At(op).LastSeq-1].Decode(&d); err != nil || len(d.Held) != 2 {
				t.Fatalf("the receipt: got %+v, %v, want two held changes", d.Held, err)
			}
			content := ""
			for _, h := range d.Held {
				if h.Stays != (broken == 9) {
					t.Errorf("%s stays: got %t", h.Path, h.Stays)
				}
				if h.Kind == session.GuardFile {
					content = w.blobs[h.Blob.Hash]
				}
			}
			if content != "evil" {
				t.Errorf("kept: got %q, want the content of the command", content)
			}
			if _, evil := w.files[".git/config"]; evil != (broken == 9) {
				t.Errorf("files: got %v", w.files)
			}
			w.during = nil
			a.guard.broken = 0
			a.do(command("call", "ledger again"), session.StepDone)
		})
	}
}
