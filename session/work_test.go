package session_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/acode-dev/acode/internal/history"
	"github.com/acode-dev/acode/session"
)

// newState is where a StateChanged leads.
func newState(t interface{ Fatal(...any) }, e session.Event) session.State {
	if e.Type != session.StateChanged {
		return ""
	}
	var d session.StateChangedData
	if err := e.Decode(&d); err != nil {
		t.Fatal(err)
	}
	return d.To
}

// What a resume found and what it led to, whatever lies between.
func TestCountResumes(t *testing.T) {
	type event struct {
		kind session.EventType
		to   session.State
	}
	acquired, to := event{session.ExecutionAcquired, ""}, func(s session.State) event { return event{session.StateChanged, s} }
	first := []event{{session.SessionCreated, ""}, to(session.Planning), acquired, to(session.Executing)}
	none := map[session.WorkKey]uint64{}
	one := func(mode, outcome string) map[session.WorkKey]uint64 {
		return map[session.WorkKey]uint64{{Kind: session.WorkResumes, Mode: mode, Outcome: outcome}: 1}
	}
	for name, c := range map[string]struct {
		events []event
		want   map[session.WorkKey]uint64
	}{
		"first_run":           {[]event{to(session.Paused)}, none},
		"goes_on":             {[]event{to(session.Paused), acquired, to(session.Executing)}, none},
		"completed":           {[]event{to(session.Paused), acquired, to(session.Executing), to(session.Completed)}, one(session.ResumeContinue, session.ResumeCompleted)},
		"paused":              {[]event{to(session.Paused), acquired, to(session.Executing), to(session.Paused)}, one(session.ResumeContinue, session.ResumePaused)},
		"paused_is_the_end":   {[]event{to(session.Paused), acquired, to(session.Executing), to(session.Paused), to(session.Cancelled)}, one(session.ResumeContinue, session.ResumePaused)},
		"failed":              {[]event{to(session.Paused), acquired, to(session.Executing), to(session.Failed)}, one(session.ResumeContinue, session.ResumeFailed)},
		"killed_then_goes_on": {[]event{acquired}, none},
		"killed_cancelled":    {[]event{acquired, to(session.Cancelled)}, one(session.ResumeRecover, session.ResumeCancelled)},
		"killed_completed":    {[]event{acquired, to(session.Completed)}, one(session.ResumeRecover, session.ResumeCompleted)},
		"killed_twice":        {[]event{acquired, acquired}, one(session.ResumeRecover, session.ResumeInterrupted)},
		"asks":                {[]event{acquired, to(session.AwaitingApproval)}, none},
		"asks_and_is_told":    {[]event{acquired, to(session.AwaitingApproval), to(session.Executing), to(session.Completed)}, one(session.ResumeRecover, session.ResumeCompleted)},
		"asked_in_vain":       {[]event{acquired, to(session.AwaitingApproval), acquired}, one(session.ResumeRecover, session.ResumeApproval)},
		"damaged_state":       {[]event{to(session.Paused), acquired, to(session.Executing), to("")}, none},
	} {
		t.Run(name, func(t *testing.T) {
			var w session.Work
			var counted session.Counted
			var epoch uint64
			for i, e := range append(first[:len(first):len(first)], c.events...) {
				if e.kind == session.ExecutionAcquired {
					epoch++
				}
				counted.Count(&w, session.Event{Seq: uint64(i + 1), Type: e.kind, Epoch: epoch}, e.to)
			}
			locks := session.WorkKey{Kind: session.WorkLocks, Outcome: session.LockAcquired}
			if w.Counts[locks] != epoch {
				t.Errorf("acquisitions: got %d, want %d", w.Counts[locks], epoch)
			}
			delete(w.Counts, locks)
			if diff := cmp.Diff(c.want, w.Counts); diff != "" {
				t.Errorf("Count (-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever a legal history holds, each receipt counts once and each resume at most once, all of
// them but the one that is not over, under keys that are listed.
func TestCountHistories(t *testing.T) {
	listed := map[session.WorkKey]bool{}
	for _, k := range session.WorkKeys() {
		listed[k] = true
	}
	rapid.Check(t, func(t *rapid.T) {
		events := history.Draw(t)
		var w session.Work
		var counted session.Counted
		want := map[session.EventType]uint64{}
		resumes := uint64(0)
		for _, e := range events {
			counted.Count(&w, e, newState(t, e))
			want[e.Type]++
			if e.Type == session.ExecutionAcquired && e.Epoch > 1 {
				resumes++
			}
		}
		got := map[string]uint64{}
		for k, n := range w.Counts {
			if !listed[k] {
				t.Errorf("%+v is not listed", k)
			}
			got[k.Kind] += n
		}
		if counted.Resume != "" {
			resumes--
		}
		if steps := want[session.StepCompleted] + want[session.StepFailedEvent] + want[session.StepUnknown]; got[session.WorkSteps] != steps ||
			got[session.WorkLocks] != want[session.ExecutionAcquired] || got[session.WorkResumes] != resumes {
			t.Errorf("got %v, want %d steps, %d acquisitions, %d resumes", got, steps, want[session.ExecutionAcquired], resumes)
		}
		if counted.Seq != uint64(len(events)) {
			t.Errorf("Seq: got %d of %d", counted.Seq, len(events))
		}
	})
}

// A duration lies in the bucket whose bound is the first that it does not exceed.
func TestPhaseBuckets(t *testing.T) {
	last := session.PhaseBounds[len(session.PhaseBounds)-1]
	for d, want := range map[time.Duration]int{0: 0, time.Millisecond: 0, time.Millisecond + 1: 1, last: len(session.PhaseBounds) - 1, last + 1: len(session.PhaseBounds)} {
		if got := session.BucketOf(d); got != want {
			t.Errorf("BucketOf(%s): got %d, want %d", d, got, want)
		}
	}
	var w session.Work
	w.Observe(session.PhasePlan, time.Hour)
	w.Observe(session.PhasePlan, time.Millisecond)
	want := map[session.ResumePhase]map[int]session.PhaseBucket{session.PhasePlan: {0: {Count: 1, Sum: time.Millisecond}, len(session.PhaseBounds): {Count: 1, Sum: time.Hour}}}
	if diff := cmp.Diff(want, w.Phases); diff != "" {
		t.Errorf("Observe (-want +got):\n%s", diff)
	}
}
