package resume_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
)

// FR-019 to FR-028: the action of a continuation for a step in each state.
func TestPlanActions(t *testing.T) {
	file := func(p session.Progress) resume.Seen { return resume.Seen{Progress: p} }
	cmd := func(s session.CommandState) resume.Seen {
		return resume.Seen{Record: session.CommandRecord{State: s, Why: "because"}}
	}
	for _, c := range []struct {
		name    string
		kind    session.Kind
		status  session.Status
		seen    resume.Seen
		choices resume.Choices
		action  session.Action
		attempt int
		why     string
	}{
		{"pending", session.KindRun, "", resume.Seen{}, resume.Choices{}, session.ActionExecute, 1, "not started"},
		{"asked_only", session.KindApprove, session.Pending, resume.Seen{}, resume.Choices{}, session.ActionExecute, 1, "not started"},
		{"completed", session.KindRun, session.StepDone, resume.Seen{}, resume.Choices{}, session.ActionSkip, 0, "completed before"},
		{"failed", session.KindRun, session.StepFailed, resume.Seen{}, resume.Choices{}, session.ActionRetry, 4, "a new attempt"},
		{"uncertain", session.KindRun, session.StepUncertain, resume.Seen{}, resume.Choices{}, session.ActionDecide, 3, "its message"},
		{"read", session.KindRead, session.InProgress, file(session.NotApplied), resume.Choices{}, session.ActionRetry, 3, "repeated"},
		{"search", session.KindSearch, session.InProgress, file(session.NotApplied), resume.Choices{}, session.ActionRetry, 3, "repeated"},
		{"approve", session.KindApprove, session.InProgress, resume.Seen{}, resume.Choices{}, session.ActionProceed, 3, "gate"},
		{"run_unclaimed", session.KindRun, session.InProgress, cmd(session.CommandUnclaimed), resume.Choices{}, session.ActionProceed, 3, "never started"},
		{"run_void", session.KindRun, session.InProgress, cmd(session.CommandVoid), resume.Choices{}, session.ActionRetry, 4, "never started, so it starts as a new attempt: because"},
		{"run_cancelled", session.KindRun, session.InProgress, resume.Seen{Record: session.CommandRecord{State: session.CommandFinished, Cancelled: true, Exit: -1}}, resume.Choices{}, session.ActionRetry, 4, "ended on request"},
		{"run_cancelled_done", session.KindRun, session.InProgress, resume.Seen{Record: session.CommandRecord{State: session.CommandFinished, Cancelled: true}}, resume.Choices{}, session.ActionAttach, 3, "finished"},
		{"run_cancelled_left", session.KindRun, session.InProgress, resume.Seen{Record: session.CommandRecord{State: session.CommandFinished, Cancelled: true, Exit: -1, Left: []string{"77 sudo"}}}, resume.Choices{}, session.ActionAttach, 3, "finished"},
		{"run_running", session.KindRun, session.InProgress, cmd(session.CommandRunning), resume.Choices{}, session.ActionAttach, 3, "still runs"},
		{"run_unattended", session.KindRun, session.InProgress, cmd(session.CommandUnattended), resume.Choices{}, session.ActionAttach, 3, "still runs"},
		{"run_finished", session.KindRun, session.InProgress, cmd(session.CommandFinished), resume.Choices{}, session.ActionAttach, 3, "finished"},
		{"run_unknown", session.KindRun, session.InProgress, cmd(session.CommandUnknown), resume.Choices{}, session.ActionDecide, 3, "because"},
		{"run_lingering", session.KindRun, session.InProgress, cmd(session.CommandLingering), resume.Choices{}, session.ActionDecide, 3, "because"},
		{"not_applied", session.KindWrite, session.InProgress, file(session.NotApplied), resume.Choices{}, session.ActionProceed, 3, "no part of it"},
		{"applied", session.KindEdit, session.InProgress, file(session.Applied), resume.Choices{}, session.ActionApplied, 3, "already applied"},
		{"applied_restart", session.KindEdit, session.InProgress, file(session.Applied), resume.Choices{RestartStep: true}, session.ActionRollBack, 3, "as requested"},
		{"partial", session.KindChanges, session.InProgress, file(session.Partial), resume.Choices{InProgress: resume.StrategyRetry}, session.ActionRollBack, 3, "partially written"},
		{"foreign_default", session.KindMove, session.InProgress, file(session.Foreign), resume.Choices{}, session.ActionRollBack, 3, "rolled back"},
		{"foreign_rollback", session.KindMove, session.InProgress, file(session.Foreign), resume.Choices{InProgress: resume.StrategyRollBack}, session.ActionRollBack, 3, "rolled back"},
		{"foreign_retry", session.KindDelete, session.InProgress, file(session.Foreign), resume.Choices{InProgress: resume.StrategyRetry}, session.ActionRetry, 4, "on top"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := plan(session.Task{ID: "t", Steps: []session.Step{{ID: "s", Name: "label", Kind: c.kind}}})
			s := &session.Session{Steps: map[session.StepID]*session.StepState{}}
			if c.status != "" {
				s.Steps[id("t", "s")] = &session.StepState{StepID: id("t", "s"), Status: c.status, Attempt: 3, StartedUS: 10, EndedUS: 35, Message: "its message"}
				if c.status == session.Pending {
					s.Steps[id("t", "s")].Attempt = 0
				}
			}
			next, err := resume.Plan(p, s, map[session.StepID]resume.Seen{id("t", "s"): c.seen}, c.choices)
			if err != nil {
				t.Fatal(err)
			}
			it := next.Items[0]
			if it.Action != c.action || it.Attempt != c.attempt || !strings.Contains(it.Why, c.why) {
				t.Errorf("Plan: got %s, attempt %d, %q, want %s, %d, %q", it.Action, it.Attempt, it.Why, c.action, c.attempt, c.why)
			}
			var inProgress []int
			if c.status == session.InProgress || c.status == session.StepUncertain {
				inProgress = []int{0}
			}
			if !slices.Equal(next.InProgress, inProgress) {
				t.Errorf("Plan: in progress %d, want %d", next.InProgress, inProgress)
			}
			if skipped := c.action == session.ActionSkip; skipped && (next.TasksDone != 1 || next.Skipped != 1 || next.Saved != it.Took || it.Took.Microseconds() != 25) {
				t.Errorf("Plan: got %+v of a completed step", next)
			}
		})
	}
}

var statuses = []session.Status{"", session.Pending, session.InProgress, session.StepDone, session.StepFailed, session.StepUncertain}

var kinds = []session.Kind{session.KindRead, session.KindSearch, session.KindWrite, session.KindEdit, session.KindDelete, session.KindMove, session.KindChanges, session.KindRun, session.KindApprove}

// drawn returns a plan and a state of it.
func drawn(t *rapid.T) (*session.Plan, *session.Session, map[session.StepID]resume.Seen, resume.Choices) {
	p := plan()
	s := &session.Session{Steps: map[session.StepID]*session.StepState{}}
	seen := map[session.StepID]resume.Seen{}
	for i := range rapid.IntRange(0, 5).Draw(t, "tasks") {
		tk := session.Task{ID: string(rune('a' + i))}
		for d := range i {
			if rapid.Bool().Draw(t, "depends") {
				tk.DependsOn = append(tk.DependsOn, string(rune('a'+d)))
			}
		}
		for j := range rapid.IntRange(1, 4).Draw(t, "steps") {
			step := session.Step{ID: string(rune('p' + j)), Name: "n", Kind: rapid.SampledFrom(kinds).Draw(t, "kind")}
			tk.Steps = append(tk.Steps, step)
			sid := id(tk.ID, step.ID)
			if status := rapid.SampledFrom(statuses).Draw(t, "status"); status != "" {
				s.Steps[sid] = &session.StepState{StepID: sid, Status: status, Attempt: rapid.IntRange(1, 3).Draw(t, "attempt"), StartedUS: 1, EndedUS: rapid.Int64Range(1, 99).Draw(t, "ended")}
			}
			seen[sid] = resume.Seen{
				Progress: rapid.SampledFrom([]session.Progress{session.NotApplied, session.Applied, session.Partial, session.Foreign}).Draw(t, "progress"),
				Record:   session.CommandRecord{State: rapid.SampledFrom([]session.CommandState{session.CommandUnclaimed, session.CommandVoid, session.CommandRunning, session.CommandFinished, session.CommandUnknown}).Draw(t, "record")},
			}
		}
		p.Tasks = append(p.Tasks, tk)
	}
	if rapid.Bool().Draw(t, "reversed") {
		slices.Reverse(p.Tasks) // Dependencies then come after the tasks that need them.
	}
	c := resume.Choices{InProgress: rapid.SampledFrom([]resume.Strategy{"", resume.StrategyRollBack, resume.StrategyRetry, resume.StrategyPrompt}).Draw(t, "strategy"), RestartStep: rapid.Bool().Draw(t, "restart")}
	return p, s, seen, c
}

// R1, FR-019 to FR-022: a continuation contains each step of the plan exactly once. It
// skips exactly the completed steps, and its order respects the DAG.
func TestPlanPartitionsTheSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, s, seen, c := drawn(t)
		next, err := resume.Plan(p, s, seen, c)
		if err != nil {
			t.Fatal(err)
		}
		count, at := map[session.StepID]int{}, map[session.StepID]int{}
		skipped, remaining, tasksDone := 0, 0, 0
		for i, it := range next.Items {
			count[it.ID]++
			at[it.ID] = i
			if done := s.Status(it.ID) == session.StepDone; done != (it.Action == session.ActionSkip) {
				t.Errorf("%s is %s and its action is %s", it.ID, s.Status(it.ID), it.Action)
			}
			if it.Action == session.ActionSkip {
				skipped++
			} else {
				remaining++
			}
			if step := p.Tasks[it.Task-1].Steps[it.Step-1]; p.Tasks[it.Task-1].ID != it.ID.Task || step.ID != it.ID.Step || step.Kind != it.Kind {
				t.Errorf("%s does not stand at %d, %d of the plan", it.ID, it.Task, it.Step)
			}
		}
		for _, tk := range p.Tasks {
			done := 0
			for j, step := range tk.Steps {
				sid := id(tk.ID, step.ID)
				if count[sid] != 1 {
					t.Errorf("%s is in the continuation %d times", sid, count[sid])
				}
				if j > 0 && at[sid] != at[id(tk.ID, tk.Steps[j-1].ID)]+1 {
					t.Errorf("%s does not follow the step before it", sid)
				}
				if s.Status(sid) == session.StepDone {
					done++
				}
			}
			if done == len(tk.Steps) {
				tasksDone++
			}
			for _, d := range tk.DependsOn {
				if at[id(d, "p")] > at[id(tk.ID, "p")] {
					t.Errorf("task %s comes before %s, which it depends on", tk.ID, d)
				}
			}
		}
		var inProgress []int
		for i, it := range next.Items {
			if it.WasInProgress() {
				inProgress = append(inProgress, i)
			}
		}
		slices.SortStableFunc(inProgress, func(a, b int) int {
			return int(s.Steps[next.Items[a].ID].StartSeq) - int(s.Steps[next.Items[b].ID].StartSeq)
		})
		if !slices.Equal(next.InProgress, inProgress) {
			t.Errorf("Plan: in progress %d, want %d, in the order of their intents", next.InProgress, inProgress)
		}
		if len(next.Items) != p.Steps() || next.Skipped != skipped || next.Remaining != remaining || next.TasksDone != tasksDone || next.Tasks != len(p.Tasks) {
			t.Errorf("Plan: counts %+v of %d items, want skipped %d, remaining %d, tasks done %d", next, len(next.Items), skipped, remaining, tasksDone)
		}
	})
}

// FR-036: equal arguments give equal continuations, and Plan does not change its
// arguments.
func TestPlanIsPure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, s, seen, c := drawn(t)
		image := func() string {
			pb, perr := json.Marshal(p)
			if perr != nil {
				t.Fatal(perr)
			}
			out := string(pb)
			for _, tk := range p.Tasks {
				for _, step := range tk.Steps {
					b, err := json.Marshal(s.Steps[id(tk.ID, step.ID)])
					if err != nil {
						t.Fatal(err)
					}
					out += string(b)
				}
			}
			return out
		}
		before := image()
		one, err1 := resume.Plan(p, s, seen, c)
		two, err2 := resume.Plan(p, s, seen, c)
		if d := cmp.Diff(one, two); d != "" || err1 != nil || err2 != nil {
			t.Errorf("Plan twice: %v, %v (-first +second): %s", err1, err2, oneLine(d))
		}
		if image() != before {
			t.Errorf("Plan changed its arguments")
		}
	})
}

// Plan refuses a plan and a session that do not belong together.
func TestPlanRefuses(t *testing.T) {
	cycle := plan(session.Task{ID: "a", DependsOn: []string{"b"}}, session.Task{ID: "b", DependsOn: []string{"a"}})
	if _, err := resume.Plan(cycle, &session.Session{}, nil, resume.Choices{}); !errors.Is(err, session.ErrPlanning) {
		t.Errorf("Plan of a cycle: got %v, want ErrPlanning", err)
	}
	b := paused(t)
	b.r.Plan = plan(session.Task{ID: "t", Steps: []session.Step{write("other", "f")}})
	_, err := b.resume()
	if !errors.Is(err, session.ErrPlanning) || !strings.Contains(err.Error(), "t/make") {
		t.Errorf("Resume with another plan: got %v, want ErrPlanning that names t/make", err)
	}
}

// NFR-013: titles and labels pass the redactor.
func TestPlanRedacts(t *testing.T) {
	p := plan(session.Task{ID: "t", Title: "use hunter2", Steps: []session.Step{{ID: "s", Name: "say hunter2", Kind: session.KindRun}}}, session.Task{ID: "bare", Steps: []session.Step{{ID: "s", Name: "n"}}})
	next, err := resume.Plan(p, &session.Session{}, nil, resume.Choices{Redact: func(s string) string { return strings.ReplaceAll(s, "hunter2", "***") }})
	if err != nil || next.Items[0].Title != "use ***" || next.Items[0].Label != "say ***" || next.Items[1].Title != "bare" {
		t.Errorf("Plan: got %+v, %v", next.Items, err)
	}
}

// oneLine joins the lines of a difference, so that a search in a log finds all of it.
func oneLine(d string) string { return strings.Join(strings.Fields(d), " ") }

// The end of a command decides the next action of its step. After a signal that acode did
// not send the outcome is unknown. After a signal from acode the check runs first.
func TestPlanAfterAnEndByForce(t *testing.T) {
	ended := func(rec session.CommandRecord) session.CommandRecord {
		rec.State = session.CommandFinished
		return rec
	}
	for _, c := range []struct {
		name   string
		status session.Status
		// code is that of a failure.
		code    session.Code
		check   string
		rec     session.CommandRecord
		action  session.Action
		attempt int
	}{
		{"by_sigterm", session.InProgress, "", "", ended(session.CommandRecord{Exit: -1, Signal: "SIGTERM"}), session.ActionDecide, 3},
		{"status_137", session.InProgress, "", "", ended(session.CommandRecord{Exit: 137}), session.ActionDecide, 3},
		{"crashed", session.InProgress, "", "", ended(session.CommandRecord{Exit: -1, Signal: "SIGSEGV"}), session.ActionAttach, 3},
		{"timed_out", session.InProgress, "", "", ended(session.CommandRecord{Exit: -1, Signal: "SIGKILL", TimedOut: true}), session.ActionAttach, 3},
		{"failed", session.StepFailed, session.ErrCommand, "test -e done", session.CommandRecord{}, session.ActionRetry, 4},
		{"timed_out_unchecked", session.StepFailed, session.ErrTimeout, "", session.CommandRecord{}, session.ActionRetry, 4},
		{"timed_out_checked", session.StepFailed, session.ErrTimeout, "test -e done", session.CommandRecord{}, session.ActionDecide, 3},
		{"stopped_checked", session.StepFailed, session.ErrStopped, "test -e done", session.CommandRecord{}, session.ActionDecide, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := plan(session.Task{ID: "t", Steps: []session.Step{{ID: "s", Kind: session.KindRun, Run: &session.Run{Shell: "make", Check: c.check}}}})
			s := &session.Session{Steps: map[session.StepID]*session.StepState{id("t", "s"): {StepID: id("t", "s"), Status: c.status, Code: c.code, Attempt: 3}}}
			next, err := resume.Plan(p, s, map[session.StepID]resume.Seen{id("t", "s"): {Record: c.rec}}, resume.Choices{})
			if err != nil {
				t.Fatal(err)
			}
			if it := next.Items[0]; it.Action != c.action || it.Attempt != c.attempt {
				t.Errorf("Plan: got %s, attempt %d, %q, want %s, %d", it.Action, it.Attempt, it.Why, c.action, c.attempt)
			}
		})
	}
}
