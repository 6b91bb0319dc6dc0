package terminal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"strings"
	"testing"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
)

// many yields n events. From event 2000 on it calls look, which checks the output so far.
func many(n int, look func()) iter.Seq2[session.Event, error] {
	return func(yield func(session.Event, error) bool) {
		for seq := range n {
			if seq == 2500 {
				look()
			}
			if !yield(session.Event{Seq: uint64(seq + 1), Type: session.StepUnknown, Payload: []byte(`{"why":"it is so"}`)}, nil) {
				return
			}
		}
	}
}

// A history may not fit into memory: it is written while it is read.
func TestHistoryIsWrittenWhileItIsRead(t *testing.T) {
	for name, show := range map[string]func(io.Writer, iter.Seq2[session.Event, error]) error{
		"text": func(w io.Writer, es iter.Seq2[session.Event, error]) error { return page(w, false).History(es) },
		"json": func(w io.Writer, es iter.Seq2[session.Event, error]) error { return page(w, true).History(es) },
		"export": func(w io.Writer, es iter.Seq2[session.Event, error]) error {
			return page(w, true).Export(app.Export{Plan: []byte("{}"), Events: es})
		},
	} {
		var out bytes.Buffer
		early := 0
		if err := show(&out, many(3000, func() { early = strings.Count(out.String(), "it is so") })); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if all := strings.Count(out.String(), "it is so"); all != 3000 || early < 1000 {
			t.Errorf("%s: %d events, %d of them while they were read, want 3000 and 1000 or more", name, all, early)
		}
		if name == "text" && strings.Count(out.String(), "SEQ") != 1 {
			t.Errorf("%s: more than one head line", name)
		}
		if name == "export" && !json.Valid(out.Bytes()) {
			t.Errorf("%s: no JSON", name)
		}
	}
}

// failing yields an event, an error and another event.
func failing(err error) iter.Seq2[session.Event, error] {
	return func(yield func(session.Event, error) bool) {
		one := session.Event{Seq: 1, Payload: []byte("{}")}
		_ = yield(one, nil) && yield(session.Event{}, err) && yield(one, nil)
	}
}

// A history leaves out damaged events, and ends at any other error.
func TestHistoryGoesOnAfterDamage(t *testing.T) {
	damaged, gone := &session.Error{Code: session.ErrCorrupt}, errors.New("the disk is gone")
	for err, want := range map[error]int{damaged: 2, gone: 1} {
		var export, lines bytes.Buffer
		got := page(&export, true).Export(app.Export{Plan: []byte("{}"), Events: failing(err)})
		if n := strings.Count(export.String(), `"seq":1`); !errors.Is(got, err) || n != want || json.Valid(export.Bytes()) != (want == 2) {
			t.Errorf("Export: got %d events and %v, want %d and %v; %s", n, got, want, err, export.String())
		}
		got = page(&lines, true).History(failing(err))
		if n := strings.Count(lines.String(), "\n"); !errors.Is(got, err) || n != want {
			t.Errorf("HistoryJSON: got %d lines and %v, want %d and %v", n, got, want, err)
		}
		lines.Reset()
		got = page(&lines, false).History(failing(err))
		if n := strings.Count(lines.String(), "\n"); !errors.Is(got, err) || n != want+1 {
			t.Errorf("History: got %d lines and %v, want %d and %v", n, got, want+1, err)
		}
	}
}

// The history shows the beginnings of the messages of a conversation.
func TestHistoryShowsConversations(t *testing.T) {
	step := session.StepID{Task: "fix", Step: "code"}
	for _, tt := range []struct {
		typ  session.EventType
		data any
		want string
	}{
		{session.MessageAdded, session.MessageAddedData{StepID: step, Kind: session.MessagePrompt, Text: "Fix it\nand test it"}, "fix/code prompt: Fix it …"},
		{session.ModelAnswered, session.ModelAnsweredData{StepID: session.TurnID(step, 7), Attempt: 2, Said: session.Output{Text: strings.Repeat("ä", 40)}}, "fix/code/m7 attempt 2 " + strings.Repeat("ä", 30) + " …"},
		{session.ModelAsked, session.ModelAskedData{StepID: session.TurnID(step, 7), Attempt: 1}, "fix/code/m7"},
	} {
		raw, err := json.Marshal(tt.data)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		one := func(yield func(session.Event, error) bool) {
			yield(session.Event{Seq: 1, Type: tt.typ, Payload: raw}, nil)
		}
		if err := page(&out, false).History(one); err != nil || !strings.HasSuffix(out.String(), tt.want+"\n") {
			t.Errorf("%s: got %q, %v, want %q", tt.typ, out.String(), err, tt.want)
		}
	}
}
