// Package resume prepares a stored session for execution by the engine. It checks the
// state of the session, compares the environment, inspects the steps in progress, plans
// the remaining steps and reports the plan. A fresh run is a resume that skips no step.
// Resume changes nothing before it hands the session over. If it fails, the session is
// exactly as before (FR-061). A dry run ends before the hand-over.
//
// The tests cite these invariants:
//
//	R1  The continuation contains each step of the plan exactly once (FR-019 to FR-022).
//	R2  The plan is logged and shown before anything is executed (FR-023).
//	R3  Nothing durable changes before the hand-over.
package resume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"time"

	"github.com/acode-dev/acode/session"
)

// Files inspects the files of a step in progress. *workspace.Root implements it.
type Files interface {
	Inspect(ctx context.Context, key string, ts []session.Transition) (session.Progress, []session.FileState, error)
}

// Commands reads the records of commands. *command.Runner implements it.
type Commands interface {
	// Look returns the record of key.
	Look(ctx context.Context, key string) (session.CommandRecord, error)

	// Trace is Look, but if there is no record it also looks for other traces of the
	// command.
	Trace(ctx context.Context, key string) (session.CommandRecord, error)
}

// Journal provides the session. *local.Writer implements it.
type Journal interface {
	Session() *session.Session
	Event(ctx context.Context, seq uint64) (session.Event, error)
}

// Resumer holds the dependencies of a resume. Every field is required unless its comment
// says otherwise.
type Resumer struct {
	Journal     Journal
	Plan        *session.Plan
	Files       Files
	Commands    Commands
	Environment Environment
	Person      Person
	Options     Options
	Notify      func(session.Notice)
	Log         *slog.Logger
	// Mark is called at the end of each phase. It may be nil.
	Mark func(session.ResumePhase)
}

// Options come from the configuration and the command line.
type Options struct {
	Choices
	// Validate compares files and git.
	Validate bool
	// Timeout limits validation; 0 means no limit.
	Timeout time.Duration
	// An empty OnChanges means ChangesPrompt.
	OnChanges OnChanges
	// DecidedBy is "flag" or "policy": the source of OnChanges.
	DecidedBy string
	Config    map[string]string
	Inputs    Inputs
	Device    string
	Host      string
	PID       int
	// Workspace is absolute. It may differ from the workspace of the session.
	Workspace string
	DryRun    bool
	// Checkpoint names the checkpoint in use, for the log.
	Checkpoint string
	// Sync is the state of delivery, for the log. Empty means off.
	Sync  string
	Order session.ReplayOrder
}

// Ready describes a session that is ready for execution. Begin holds the events that take
// the session over. The engine commits them with the first intent.
type Ready struct {
	Next    session.Continuation
	Begin   []session.Draft
	Changed []session.ChangedFile
}

// Resume prepares the session for execution. It returns ErrTerminal, ErrEnvironment,
// ErrPlanning or an error of a port. After an error the session is unchanged.
func (r *Resumer) Resume(ctx context.Context) (Ready, error) {
	s := r.Journal.Session()
	r.Log.Info("resuming session", "event", "session_resume_started", "session_id", s.Short, "session", string(s.ID), "state", string(s.State),
		"replay_first", fmt.Sprintf("%x", r.Options.Order.First), "replay_last", fmt.Sprintf("%x", r.Options.Order.Last),
		"replay_count", r.Options.Order.Count, "replay_digest", r.Options.Order.Digest)
	if err := Allowed(s); err != nil {
		return Ready{}, err
	}
	r.Notify(session.Notice{Kind: session.NoticeSession, Session: s, Text: s.Task})
	seen, err := r.observe(ctx, s)
	if err != nil {
		return Ready{}, err
	}
	var env verdict
	if s.Epoch > 0 { // The first run has nothing to compare with.
		env, err = r.validate(ctx, seen)
	} else {
		err = r.inputs(s)
	}
	if err != nil {
		r.Log.Warn("environment validation failed", "event", "session_resume", "session_id", s.Short, "environment_valid", false, "code", string(session.CodeOf(err)))
		return Ready{}, err
	}
	choices, err := r.choose(ctx, seen)
	if err != nil {
		return Ready{}, err
	}
	r.mark(session.PhaseEnvironment)
	next, err := Plan(r.Plan, s, seen, choices)
	if err == nil {
		err = choices.unwanted(r.Plan, next)
	}
	if err != nil {
		return Ready{}, err
	}
	r.mark(session.PhasePlan)
	r.log(s, next, env)
	r.Notify(session.Notice{Kind: session.NoticeHeader, Session: s, Next: &next, Text: r.Options.Checkpoint})
	ready := Ready{Next: next, Changed: env.changed}
	if !r.Options.DryRun {
		ready.Begin, err = r.begin(ctx, s, env)
	}
	return ready, err
}

func (r *Resumer) mark(ended session.ResumePhase) {
	if r.Mark != nil {
		r.Mark(ended)
	}
}

// Allowed returns ErrTerminal if the session is over and cannot continue (FR-003,
// FR-004).
func Allowed(s *session.Session) error {
	if s.Resumable() {
		return nil
	}
	return &session.Error{Code: session.ErrTerminal, Message: fmt.Sprintf("Cannot resume %s session %s; nothing was changed", upper(s.State), s.Short),
		Next: session.Then("start a new session", session.MoveRun, "")}
}

// observe inspects the steps in progress, and the calls of a model in progress. It
// changes nothing.
func (r *Resumer) observe(ctx context.Context, s *session.Session) (map[session.StepID]Seen, error) {
	seen := map[session.StepID]Seen{}
	for id, st := range r.attempts(s) {
		if st.Status != session.InProgress {
			continue
		}
		ev, err := r.Journal.Event(ctx, st.StartSeq)
		if err != nil {
			return nil, err
		}
		var d session.StepStartedData
		if err := ev.Decode(&d); err != nil {
			return nil, err
		}
		if seen[id], err = r.observed(ctx, s, d); err != nil {
			return nil, fmt.Errorf("look at %s, which was in progress: %w", id, err)
		}
	}
	return seen, nil
}

// attempts returns the steps of s, and the calls of a model. An outside agent is told
// about its own calls.
func (r *Resumer) attempts(s *session.Session) iter.Seq2[session.StepID, *session.StepState] {
	return func(yield func(session.StepID, *session.StepState) bool) {
		for id, st := range s.Steps {
			if !yield(id, st) {
				return
			}
		}
		if r.Plan.Agent != nil {
			return
		}
		for id, st := range s.Ops {
			if !yield(id, st) {
				return
			}
		}
	}
}

// observed inspects the attempt that d began.
func (r *Resumer) observed(ctx context.Context, s *session.Session, d session.StepStartedData) (found Seen, err error) {
	switch {
	case d.Kind == session.KindRun && r.Files == nil:
		found.Record, err = r.lookOnly(ctx, s, d.Key)
	case d.Kind == session.KindRun:
		found.Record, err = r.look(ctx, s, d.Key)
	case len(d.Files) > 0 && r.Files != nil:
		found.Progress, found.Foreign, err = r.Files.Inspect(ctx, d.Key, d.Files)
		err = r.inTheWay(s, err)
		found.Files = d.Files
	default:
		found.Progress = session.NotApplied
	}
	return found, err
}

// LookAtCommands reads the records of the commands in progress, for a caller that
// executes nothing. It needs only Journal, Plan and Commands.
func (r *Resumer) LookAtCommands(ctx context.Context) (map[session.StepID]Seen, error) {
	s, seen := r.Journal.Session(), map[session.StepID]Seen{}
	for id, step := range r.Plan.All() {
		if st := s.Steps[id]; step.Kind == session.KindRun && st != nil && st.Status == session.InProgress {
			rec, err := r.lookOnly(ctx, s, st.Key)
			if err != nil {
				return nil, err
			}
			seen[id] = Seen{Record: rec}
		}
	}
	return seen, nil
}

// lookOnly is look for a caller that executes nothing. A record that cannot be read is an
// unknown outcome.
func (r *Resumer) lookOnly(ctx context.Context, s *session.Session, key string) (session.CommandRecord, error) {
	rec, err := r.look(ctx, s, key)
	switch {
	case errors.Is(err, session.ErrCorrupt):
		rec, err = session.CommandRecord{State: session.CommandUnknown, Why: "its record is damaged"}, nil
	case errors.Is(err, session.ErrLocked): // The supervisor has the record.
		rec, err = session.CommandRecord{State: session.CommandUnknown, Why: "its supervisor does not answer"}, nil
	}
	return rec, err
}

// inTheWay converts an error of Inspect to ErrEnvironment if a directory, a link or a
// special file stands at the path of the step. Someone has put it there since the session
// wrote the file, so no step has failed.
func (r *Resumer) inTheWay(s *session.Session, err error) error {
	if code := session.CodeOf(err); err == nil || code != session.ErrEscape && code != session.ErrFileStep {
		return err
	}
	return &session.Error{Code: session.ErrEnvironment, Message: err.Error() + "; the session is unchanged",
		Next: r.again(s, "move it away, then")}
}

// Again returns the hint to repeat a resume of s in workspace after the resume changed
// nothing. The hint names workspace if the session has another one.
func Again(s *session.Session, workspace string) session.Hint {
	next := session.Do(session.MoveResume, s.Short)
	if workspace != s.Workspace {
		next.Path = workspace
	}
	return next
}

func (r *Resumer) again(s *session.Session, words string) session.Hint {
	return Again(s, r.Options.Workspace).After(words)
}

// look reads the record of a command in progress. Without a record or another trace the
// command was never started, unless records are missing. The records of completed
// commands are kept forever. If one is missing, for example after the restore of a
// partial backup, the outcome is unknown.
func (r *Resumer) look(ctx context.Context, s *session.Session, key string) (session.CommandRecord, error) {
	rec, err := r.Commands.Trace(ctx, key)
	if err != nil || rec.State != session.CommandUnclaimed {
		return rec, err
	}
	lost, err := r.recordsLost(ctx, s)
	if lost && err == nil {
		rec.State, rec.Why = session.CommandUnknown, session.RecordLost
	}
	return rec, err
}

func (r *Resumer) recordsLost(ctx context.Context, s *session.Session) (bool, error) {
	first, err := r.Journal.Event(ctx, 1)
	if err != nil {
		return false, err
	}
	var made session.SessionCreatedData
	if err := first.Decode(&made); err != nil || made.ForkedFrom != nil { // The session before the fork has the records.
		return false, err
	}
	// last is the newest step that must have a record.
	var last *session.StepState
	for id, step := range r.Plan.All() {
		st := s.Steps[id]
		if step.Kind == session.KindRun && st != nil && st.Status == session.StepDone && (last == nil || st.LastSeq > last.LastSeq) {
			last = st
		}
	}
	if last == nil {
		return false, nil
	}
	rec, err := r.Commands.Look(ctx, last.Key)
	return rec.State == session.CommandUnclaimed, err
}

// choose asks a person about foreign content if the strategy is StrategyPrompt.
func (r *Resumer) choose(ctx context.Context, seen map[session.StepID]Seen) (Choices, error) {
	c := r.Options.Choices
	if c.InProgress != StrategyPrompt || r.Options.DryRun {
		return c, nil
	}
	for id, found := range seen {
		if found.Progress != session.Foreign {
			continue
		}
		chosen, err := r.Person.InProgress(ctx, id, found.Foreign)
		if err != nil {
			return c, err
		}
		c.InProgress = chosen
		if chosen == "" || chosen == StrategyPrompt {
			c.InProgress = StrategyRollBack
			r.Notify(session.Notice{Kind: session.NoticeWarning, Text: "in_progress_strategy is prompt and no one can be asked: rolling back"})
		}
	}
	return c, nil
}

// log writes the continuation to the log before any step of it is executed (FR-023,
// NFR-014, NFR-015).
func (r *Resumer) log(s *session.Session, next session.Continuation, env verdict) {
	var actions []string
	for _, i := range next.InProgress {
		actions = append(actions, string(next.Items[i].Action))
	}
	r.Log.Info("session resume", "event", "session_resume", "session_id", s.Short, "checkpoint_id", r.Options.Checkpoint,
		"skipped_tasks", next.TasksDone, "skipped_steps", next.Skipped, "remaining_steps", next.Remaining,
		"in_progress_action", cmp.Or(strings.Join(actions, ","), "none"), "sync_status", cmp.Or(r.Options.Sync, "off"), "environment_valid", !env.open,
		"changed_files", len(env.changed), "skipped", skipped(next.Items))
	for _, it := range next.Items {
		level := slog.LevelInfo
		switch {
		case it.Status == session.Pending:
			continue // Only their number is logged, because a plan may have 100,000 of them.
		case it.Action == session.ActionSkip:
			level = slog.LevelDebug // The line above lists it.
		}
		r.Log.Log(context.Background(), level, "step decision", "event", "step_decision", "session_id", s.Short, "step", it.ID.String(),
			"action", string(it.Action), "attempt", it.Attempt, "why", it.Why)
	}
}

// skipped names the skipped steps. It shortens a row of them to the first and the last
// one.
func skipped(items []session.Item) []string {
	rows := []string{}
	for i := 0; i < len(items); i++ {
		if items[i].Action != session.ActionSkip {
			continue
		}
		first := i
		for i+1 < len(items) && items[i+1].Action == session.ActionSkip {
			i++
		}
		row := items[first].ID.String()
		if i > first {
			row += " to " + items[i].ID.String()
		}
		rows = append(rows, row)
	}
	return rows
}

// begin drafts the events that take the session over.
func (r *Resumer) begin(ctx context.Context, s *session.Session, env verdict) ([]session.Draft, error) {
	o := r.Options
	shot, err := r.Environment.Snapshot(ctx, Planned(r.Plan, s.Status))
	if err != nil {
		return nil, err
	}
	if shot.GitSilent != "" && (s.Git == "" || !o.Validate) { // Otherwise GitChanges has already reported it.
		r.Notify(session.Notice{Kind: session.NoticeWarning, Text: "git reports nothing about this workspace: " + shot.GitSilent +
			"; HEAD, branch and uncommitted changes are not compared, and ignored files count like all others"})
	}
	drafts := []session.Draft{{Type: session.ExecutionAcquired, Data: session.ExecutionAcquiredData{
		Device: o.Device, Host: o.Host, PID: o.PID, Workspace: o.Workspace,
		Manifest: shot.Manifest, Git: shot.Git, Config: configText(o.Config)}}}
	if len(env.accepted) > 0 {
		drafts = append(drafts, session.Draft{Type: session.ChangesAccepted, Actor: "user",
			Data: session.ChangesAcceptedData{By: env.by, Files: env.accepted}})
	}
	to := session.Executing
	if r.Plan.Planning(s) {
		to = session.Planning
	}
	if s.State != to {
		drafts = append(drafts, path(s.State, to)...)
	}
	return drafts, nil
}

// path drafts the changes from a resumable state to Executing or Planning.
func path(from, to session.State) []session.Draft {
	var out []session.Draft
	if from == session.Created && to != session.Planning {
		out = append(out, change(from, session.Planning))
		from = session.Planning
	}
	return append(out, change(from, to))
}

func change(from, to session.State) session.Draft {
	return session.Draft{Type: session.StateChanged, Data: session.StateChangedData{From: from, To: to}}
}
