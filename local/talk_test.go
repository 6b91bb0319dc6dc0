package local_test

import (
	"errors"
	"testing"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
	"github.com/google/go-cmp/cmp"
)

// talked makes a session with a conversation: its second request has no reply yet.
func talked(t testing.TB, s *local.Store) *local.Writer {
	t.Helper()
	w := create(t, s, 3)
	id := stepID(0)
	request := func(turn int) (session.StepID, string) {
		op := session.TurnID(id, turn)
		return op, session.KeyOf(w.Session().ID, op, 1).String()
	}
	begin := started(w, 0, 1)
	d := begin.Data.(session.StepStartedData)
	d.Kind = session.KindPrompt
	begin.Data = d
	appendAll(t, w, begin, session.Draft{Type: session.MessageAdded, Data: session.MessageAddedData{StepID: id, Kind: session.MessagePrompt, Text: "fix it"}})
	op, key := request(1)
	appendAll(t, w, session.Draft{Type: session.ModelAsked, Data: session.ModelAskedData{StepID: op, Key: key, Attempt: 1, Model: session.ModelSetup{Name: "m", Provider: "script"}, Render: 1}})
	appendAll(t, w, session.Draft{Type: session.ModelAnswered, Data: session.ModelAnsweredData{StepID: op, Key: key, Attempt: 1, Request: w.Session().Steps[id].Talk.Digest, Calls: 1,
		Usage: session.Usage{Input: 7, Output: 3}}})
	call := session.TurnCallID(id, 1, 1)
	callKey := session.KeyOf(w.Session().ID, call, 1).String()
	appendAll(t, w, session.Draft{Type: session.OperationStarted, Data: session.OperationStartedData{StepID: call, Kind: session.KindRun, Key: callKey, Attempt: 1, Digest: "d",
		Call: &session.Call{Tool: "run_command", Digest: "d", Label: "Run make"}}})
	op, key = request(2)
	appendAll(t, w, session.Draft{Type: session.OperationCompleted, Data: session.OperationCompletedData{StepID: call, Key: callKey, Attempt: 1}},
		session.Draft{Type: session.ModelAsked, Data: session.ModelAskedData{StepID: op, Key: key, Attempt: 1, Model: session.ModelSetup{Name: "m", Provider: "script"}, Render: 1}})
	return w
}

// A conversation is loaded as it was left, with a checkpoint for each reply, and verify
// replays it. Its head and its messages are signed: a load refuses an edited one.
func TestConversationIsStored(t *testing.T) {
	for name, edit := range map[string]string{
		"":          "",
		"turn":      `UPDATE steps SET talk = replace(talk, '"turn":2', '"turn":3')`,
		"digest":    `UPDATE steps SET talk = replace(talk, '"digest":"', '"digest":"0')`,
		"usage":     `UPDATE steps SET talk = replace(talk, '"input":7', '"input":8')`,
		"no_talk":   `UPDATE steps SET talk = NULL`,
		"operation": `INSERT INTO operations SELECT session_no, task, step, 'c1.1', '', '', 'completed', 1, 1, 1, 1, 1, '', '' FROM steps LIMIT 1`,
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			s := open(t, o)
			w := talked(t, s)
			want := w.Session()
			if k := want.Steps[stepID(0)].Talk; k.Turn != 2 || k.Asked != want.LastSeq || len(want.Ops) != 0 {
				t.Fatalf("got the head %+v and %d operations", *k, len(want.Ops))
			}
			if edit != "" {
				must(t, s.Exec(t.Context(), edit))
			}
			if err := errors.Join(w.Close(), s.Close()); err != nil {
				t.Fatal(err)
			}
			got, err := loadOnce(t, o, want.ID)
			if edit != "" {
				if !errors.Is(err, session.ErrTampered) && !errors.Is(err, session.ErrCorrupt) || !problems(t, o) {
					t.Errorf("Load: got %v, want an error that names the edit, and that verify finds it", err)
				}
				return
			}
			if d := cmp.Diff(want, got); err != nil || d != "" {
				t.Errorf("Load: %v (-left +loaded)\n%s", err, d)
			}
			if problems(t, o) {
				t.Error("Verify: found a problem")
			}
		})
	}
}

// A fork continues the conversation: the key of a request names the new session, and the
// digest stays.
func TestConversationIsForked(t *testing.T) {
	s := open(t, options(t))
	w := talked(t, s)
	id, err := s.NewID()
	must(t, err)
	was := *w.Session().Steps[stepID(0)].Talk
	must(t, w.Close())
	forked, err := s.ForkOff(t.Context(), local.Fork{From: w.Session().ID, ID: id, Shared: 3})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(was, *forked.Steps[stepID(0)].Talk); d != "" {
		t.Errorf("the head (-before +forked):\n%s", d)
	}
}
