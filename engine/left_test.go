package engine_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/session"
)

func chooses(wait bool) func(context.Context) (bool, error) {
	return func(context.Context) (bool, error) { return wait, nil }
}

func lasting(d time.Duration) func(*session.Run) { return func(r *session.Run) { r.Timeout = d } }

// E5: nothing is decided about a command while its processes still run, unless a person
// wants to. If acode cannot ask, it waits for the timeout of the step, then stops with
// the list.
func TestUncertainWhileSomethingRuns(t *testing.T) {
	const forever = 1 << 30
	for name, c := range map[string]struct {
		// number of looks that see processes
		looks  int
		with   []func(*session.Run)
		person person
		flag   session.OnInterrupt
		code   session.Code
		took   time.Duration
	}{
		"ends_in_time":          {10, nil, person{uncertain: says(session.InterruptDone)}, "", "", 2 * time.Second},
		"default_limit":         {forever, nil, person{uncertain: says(session.InterruptDone)}, "", session.ErrUncertain, time.Minute + requestPoll},
		"limit_of_the_step":     {forever, []func(*session.Run){lasting(5 * time.Second)}, person{}, "", session.ErrUncertain, 5*time.Second + requestPoll},
		"no_policy_before":      {forever, []func(*session.Run){onInterrupt(session.InterruptReruns)}, person{}, "", session.ErrUncertain, time.Minute + requestPoll},
		"no_check_before":       {forever, []func(*session.Run){checking("has X")}, person{}, "", session.ErrUncertain, time.Minute + requestPoll},
		"policy_after":          {10, []func(*session.Run){onInterrupt(session.InterruptDone)}, person{}, "", "", 2 * time.Second},
		"person_waits":          {1000, nil, person{linger: chooses(true), uncertain: says(session.InterruptDone)}, "", "", 200 * time.Second},
		"person_decides":        {forever, nil, person{linger: chooses(false), uncertain: says(session.InterruptDone)}, "", "", requestPoll},
		"answered_before":       {forever, nil, person{}, session.InterruptDone, "", 0},
		"just_ending":           {1, nil, person{linger: chooses(true), uncertain: says(session.InterruptDone)}, "", "", requestPoll},
		"nothing_left_no_limit": {0, nil, person{linger: chooses(true), uncertain: says(session.InterruptDone)}, "", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, plan(task("t", command("s", "torn X", c.with...))))
				w.happened = true
				if c.flag != "" { // the answer is for steps that were in progress before
					w.crashIn, w.crashNth, w.killsToo = "claimed", 1, true
					if _, crashed, err := w.process().run(); !crashed || err != nil {
						t.Fatalf("Execute: got %v, crashed %v", err, crashed)
					}
				}
				w.left = c.looks
				p := w.process()
				p.person, p.policy.Uncertain = c.person, c.flag
				began := time.Now()
				res := p.must()
				if took := time.Since(began).Truncate(requestPoll); took != c.took {
					t.Errorf("Execute took %s, want %s", took, c.took)
				}
				if res.Code != c.code || (c.code == "") != (res.State == session.Completed) {
					t.Fatalf("Execute: got %s, %s: %s", res.State, res.Code, res.Message)
				}
				if c.code != "" && (!strings.Contains(res.Message, "still run: 77 sleep [redacted]") || res.Reason != session.ReasonUncertain) {
					t.Errorf("Execute: got %q, %q, want the list", res.Reason, res.Message)
				}
				if len(w.ledger) != 1 {
					t.Errorf("ledger: %q, want that nothing ran again", w.ledger)
				}
				listed := slices.ContainsFunc(p.shown, func(n session.Notice) bool { return slices.Contains(n.Detail, "77 sleep [redacted]") })
				if want := c.looks > 1 && c.flag == ""; listed != want {
					t.Errorf("notices: listed is %v, want %v", listed, want)
				}
			})
		})
	}
}

// requestPoll is how often the engine looks.
const requestPoll = 200 * time.Millisecond

// A signal or a request to cancel ends the wait.
func TestUncertainWhileSomethingRunsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, plan(task("t", command("s", "torn X"))))
		w.left = 1 << 30
		p := w.process()
		p.person.linger = chooses(true)
		ctx, cancel := context.WithCancelCause(context.Background())
		p.ctx = ctx
		time.AfterFunc(5*time.Second, func() { cancel(engine.Interrupted{Signal: 15}) })
		res := p.must()
		wantResult(t, res, session.Paused, session.ReasonSignal, "")
		w.left = 1 << 30
		p = w.process()
		p.person.linger = chooses(true)
		time.AfterFunc(5*time.Second, func() { w.ask(session.Request{Kind: session.RequestCancel}) })
		if res := p.must(); res.State != session.Cancelled {
			t.Errorf("Execute: got %s, want cancelled", res.State)
		}
	})
}
