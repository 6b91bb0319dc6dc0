package engine_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/session"
)

// away is a model that fails a number of times before it answers.
type away struct {
	asking
	left *int
	err  error
	// part of a reply arrives before each failure
	part string
}

func (m away) Ask(ctx context.Context, r session.ModelRequest, into io.Writer) error {
	if *m.left > 0 {
		*m.left--
		m.w.asked = append(m.w.asked, r)
		if _, err := io.WriteString(into, m.part); err != nil {
			return err
		}
		return m.err
	}
	return m.asking.Ask(ctx, r, into)
}

// absent executes a prompt whose model fails so often, in the time of a bubble.
func absent(t *testing.T, times int, err error, part string) (w *prompted, res session.Result, took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		w = newPrompted(t, session.Prompt{}, isDone)
		p := w.process()
		p.prompting.Models = func(string) (engine.Model, error) { return away{asking{w.model, w}, &times, err, part}, nil }
		begin := time.Now()
		res = p.must()
		took = time.Since(begin)
	})
	return w, res, took
}

// A request whose failure may pass is repeated after a wait, and each attempt is an
// event.
func TestRequestIsRepeated(t *testing.T) {
	passing := &session.Error{Code: session.ErrModel, Message: "busy", Retryable: true}
	w, res, took := absent(t, 2, passing, `{"text":"I beg"}`+"\n")
	wantResult(t, res, session.Completed, "", "")
	if len(w.asked) != 3 || took > 3*time.Second {
		t.Errorf("%d requests in %s", len(w.asked), took)
	}
	if said := strings.Join(w.said(), "\n"); !strings.Contains(said, "The connection broke while your answer arrived") {
		t.Errorf("the model was told %q", said)
	}
	if requests, used := w.sess.Spent(); requests != 3 || !used.Estimated {
		t.Errorf("spent: %d requests, %+v", requests, used)
	}
	w.lawful()
}

// A provider that is away for an hour pauses the session after a few tries.
func TestProviderIsAway(t *testing.T) {
	w, res, took := absent(t, 1000, &session.Error{Code: session.ErrModel, Message: "away", Retryable: true}, "")
	wantResult(t, res, session.Paused, session.ReasonProvider, session.ErrModel)
	if len(w.asked) != 5 || took > 15*time.Second {
		t.Errorf("%d requests in %s, want 5 in at most 15s", len(w.asked), took)
	}
}

// acode waits as long as the provider asks, but not longer than for a while.
func TestProviderAsksToWait(t *testing.T) {
	w, res, took := absent(t, 1, &session.Error{Code: session.ErrModel, Message: "busy", Retryable: true, Wait: 30 * time.Second}, "")
	wantResult(t, res, session.Completed, "", "")
	if took < 30*time.Second || took > 31*time.Second || len(w.asked) != 2 {
		t.Errorf("%d requests in %s", len(w.asked), took)
	}
	w, res, took = absent(t, 1, &session.Error{Code: session.ErrModel, Message: "busy", Retryable: true, Wait: 2 * time.Hour}, "")
	wantResult(t, res, session.Paused, session.ReasonProvider, session.ErrModel)
	if took > time.Second || len(w.asked) != 1 || !strings.Contains(res.Message, "it asks to wait 2h0m0s") {
		t.Errorf("%d requests in %s: %s", len(w.asked), took, res.Message)
	}
}

// A failure that does not pass is not tried again, and keeps its code.
func TestFailureThatStays(t *testing.T) {
	for _, code := range []session.Code{session.ErrModel, session.ErrConfig, session.ErrLimit} {
		w, res, _ := absent(t, 1000, &session.Error{Code: code, Message: "no"}, "")
		wantResult(t, res, session.Paused, session.ReasonProvider, code)
		if len(w.asked) != 1 {
			t.Errorf("%s: %d requests", code, len(w.asked))
		}
	}
}

// The cost is that of the tokens by the price; a request that would exceed the limit is
// not sent.
func TestLimitOfTheCost(t *testing.T) {
	build := func() (*prompted, *process) {
		w := newPrompted(t, session.Prompt{}, `{"calls": [{"id": "1", "tool": "run_command", "arguments": {"command": "ledger first"}}], "usage": {"input": 600, "output": 100}}`, isDone)
		p := w.process()
		p.prompting.Price = func(string) engine.Price { return engine.Price{Input: 1_000_000, Output: 3_000_000} }
		return w, p
	}
	w, p := build()
	p.prompting.Limits.Cost = 1500
	res := p.must()
	wantResult(t, res, session.Paused, session.ReasonBudget, session.ErrLimit)
	if _, used := w.sess.Spent(); used.Cost != 900 || len(w.asked) != 1 || !strings.Contains(res.Message, "0.0009 of 0.0015 of its budget") {
		t.Errorf("%d requests cost %d: %s", len(w.asked), used.Cost, res.Message)
	}
	w, p = build()
	p.prompting.Limits.Cost = 1_000_000
	wantResult(t, p.must(), session.Completed, "", "")
	if len(w.asked) != 2 {
		t.Errorf("%d requests", len(w.asked))
	}
}
