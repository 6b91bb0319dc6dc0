package session_test

import (
	"testing"

	"github.com/acode-dev/acode/session"
)

// A signal that acode did not send makes the outcome of a command unknown. A signal that
// acode sent, and a crash of the command itself, are results.
func TestInterruption(t *testing.T) {
	for _, c := range []struct {
		rec  session.CommandRecord
		want string
	}{
		{session.CommandRecord{Exit: -1, Signal: "SIGTERM"}, "SIGTERM"},
		{session.CommandRecord{Exit: -1, Signal: "SIGINT"}, "SIGINT"},
		{session.CommandRecord{Exit: -1, Signal: "SIGHUP"}, "SIGHUP"},
		{session.CommandRecord{Exit: -1, Signal: "SIGQUIT"}, "SIGQUIT"},
		{session.CommandRecord{Exit: -1, Signal: "SIGKILL"}, "SIGKILL"},
		{session.CommandRecord{Exit: 129}, "SIGHUP (status 129)"},
		{session.CommandRecord{Exit: 130}, "SIGINT (status 130)"},
		{session.CommandRecord{Exit: 131}, "SIGQUIT (status 131)"},
		{session.CommandRecord{Exit: 137}, "SIGKILL (status 137)"},
		{session.CommandRecord{Exit: 143}, "SIGTERM (status 143)"},
		{session.CommandRecord{Exit: -1, Signal: "SIGTERM", TimedOut: true}, ""},
		{session.CommandRecord{Exit: -1, Signal: "SIGTERM", Cancelled: true}, ""},
		{session.CommandRecord{Exit: -1, Signal: "SIGSEGV"}, ""},
		{session.CommandRecord{Exit: -1, Signal: "SIGABRT"}, ""},
		{session.CommandRecord{Exit: -1, Signal: "SIGPIPE"}, ""},
		{session.CommandRecord{Exit: 128}, ""},
		{session.CommandRecord{Exit: 139}, ""},
		{session.CommandRecord{}, ""},
	} {
		if got := c.rec.Interruption(); got != c.want {
			t.Errorf("Interruption of %+v: got %q, want %q", c.rec, got, c.want)
		}
	}
}

// A command that acode ended by its timeout, a cancel or a second signal may have done
// its work.
func TestOrdered(t *testing.T) {
	for code, want := range map[session.Code]bool{session.ErrTimeout: true, session.ErrStopped: true, session.ErrCommand: false, session.ErrUncertain: false} {
		if got := code.Ordered(); got != want {
			t.Errorf("%s.Ordered: got %v, want %v", code, got, want)
		}
	}
}

// A yes is valid for the epoch for which it was given.
func TestLapsed(t *testing.T) {
	for answer, at := range map[string]map[uint64]bool{
		"granted": {2: false, 3: false, 4: true},
		"denied":  {4: false},
		"":        {4: false},
	} {
		for epoch, want := range at {
			if got := (session.Approval{Answer: answer, For: 3}).Lapsed(epoch); got != want {
				t.Errorf("Lapsed of %q for epoch 3 in epoch %d: got %v, want %v", answer, epoch, got, want)
			}
		}
	}
}
