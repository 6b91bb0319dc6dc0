package resume

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/acode-dev/acode/session"
)

// OnChanges is the policy for significant changes of the environment (FR-045).
type OnChanges string

// The policies. ChangesPrompt acts as ChangesAbort if no one can be asked.
const (
	ChangesPrompt   OnChanges = "prompt"
	ChangesContinue OnChanges = "continue"
	ChangesAbort    OnChanges = "abort"
)

// Snapshot is the state of the workspace. This package does not interpret it.
type Snapshot struct {
	// Manifest is the hash of a staged blob, which becomes durable with the next commit.
	Manifest string
	// Git is JSON. It is empty outside a repository and if git reports nothing.
	Git string

	// GitSilent says why git reports nothing about a directory that looks like a
	// repository.
	GitSilent string
}

// Environment gives validation access to the workspace. Package app implements it.
type Environment interface {
	// Changes compares files with their present state. It compares the given files of the
	// session, the files that match the patterns in planned, and the tracked files of
	// manifest (a blob hash; empty for none). unchecked lists the files that were not
	// checked when ctx ended.
	Changes(ctx context.Context, files []session.FileState, planned []string, manifest string) (changed []session.ChangedFile, unchecked []string, err error)

	// GitChanges describes in words how git differs from the Git of a Snapshot.
	GitChanges(ctx context.Context, git string) ([]string, error)

	// Suspicious returns the lines that were added since the session stopped and look
	// like an attack.
	Suspicious(ctx context.Context, changed []session.ChangedFile) []string

	// Snapshot records the present state and keeps its manifest. The manifest has content
	// hashes for the files that match the patterns in planned.
	Snapshot(ctx context.Context, planned []string) (Snapshot, error)

	// Keep saves content that is about to be accepted, before a step can overwrite it,
	// and returns its state.
	Keep(ctx context.Context, changed []session.ChangedFile) ([]session.FileState, error)
}

// Person answers questions that no policy may decide. A door implements it.
type Person interface {
	// Changed asks whether to continue although files changed. It returns ErrEnvironment
	// if no one can be asked.
	Changed(ctx context.Context, changed []session.ChangedFile) (bool, error)

	// InProgress asks how to handle foreign content under a step. It returns "" if no one
	// can be asked.
	InProgress(ctx context.Context, id session.StepID, foreign []session.FileState) (Strategy, error)
}

// verdict is the result of validation.
type verdict struct {
	changed  []session.ChangedFile
	accepted []session.FileState
	by       string
	// open says that a dry run found a significant change and left it undecided.
	open bool
}

// validate compares the environment with the state that the session left (FR-039 to
// FR-045).
func (r *Resumer) validate(ctx context.Context, seen map[session.StepID]Seen) (verdict, error) {
	r.Notify(session.Notice{Kind: session.NoticeCheck, Text: "Validating environment..."})
	r.ok("Working directory exists") // The caller has opened its root.
	s := r.Journal.Session()
	var changed []session.ChangedFile
	if r.Options.Validate {
		limited, cancel := ctx, context.CancelFunc(func() {})
		if r.Options.Timeout > 0 {
			limited, cancel = context.WithTimeout(ctx, r.Options.Timeout)
		}
		defer cancel()
		var err error
		if changed, err = r.compare(limited, s); err != nil {
			return verdict{}, cmp.Or(context.Cause(ctx), err)
		}
		r.ok("Required files accessible")
		if err = r.git(limited, s); err != nil {
			return verdict{}, cmp.Or(context.Cause(ctx), err)
		}
	} else {
		r.Notify(session.Notice{Kind: session.NoticeWarning, Text: "validate_environment is false: files and git are not compared"})
	}
	r.config(s)
	if err := r.inputs(s); err != nil {
		return verdict{}, err
	}
	open, err := r.openCommands(ctx, s, seen)
	if err != nil {
		return verdict{}, err
	}
	return r.decide(ctx, own(s, changed, seen, open))
}

func (r *Resumer) ok(text string) {
	r.Notify(session.Notice{Kind: session.NoticeCheck, Text: text})
}

// compare compares the files. If limited ends first, the error names the files that were
// not checked.
func (r *Resumer) compare(limited context.Context, s *session.Session) ([]session.ChangedFile, error) {
	files := make([]session.FileState, 0, len(s.Files))
	for _, f := range s.Files {
		files = append(files, *f)
	}
	slices.SortFunc(files, func(a, b session.FileState) int { return strings.Compare(a.Path, b.Path) })
	changed, unchecked, err := r.Environment.Changes(limited, files, Planned(r.Plan, s.Status), s.Manifest)
	switch {
	case err != nil && !errors.Is(err, context.DeadlineExceeded):
		return nil, err
	case limited.Err() != nil:
		return nil, r.late(some(unchecked))
	case len(unchecked) > 0:
		return nil, &session.Error{Code: session.ErrEnvironment, Retryable: true,
			Message: fmt.Sprintf("these files cannot be read, so acode cannot tell whether they changed: %s; the session is unchanged", some(unchecked)),
			Next:    r.again(s, "make them readable, then")}
	}
	return changed, nil
}

// late returns the error for a validation that took too long.
func (r *Resumer) late(unchecked string) error {
	return &session.Error{Code: session.ErrEnvironment, Retryable: true,
		Message: fmt.Sprintf("validation did not end within %s; not checked: %s; the session is unchanged", r.Options.Timeout, unchecked),
		Next:    session.Words("raise resume.validation_timeout_seconds, or resume again")}
}

// some joins the first few names of list.
func some(list []string) string {
	return cmp.Or(session.Few(list, 5), "the rest")
}

// Planned returns the sorted patterns of the paths that uncompleted steps name. A path of
// a change is escaped, so its pattern matches exactly one file.
func Planned(p *session.Plan, status func(session.StepID) session.Status) []string {
	literally := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)
	var paths []string
	for id, step := range p.All() {
		if status(id) == session.StepDone {
			continue
		}
		for _, c := range step.Changes {
			paths = append(paths, literally.Replace(c.Path), literally.Replace(c.From), literally.Replace(c.To))
		}
		if step.Read != nil {
			paths = append(paths, step.Read.Path)
		}
		if step.Search != nil {
			paths = append(paths, step.Search.Path)
		}
	}
	slices.Sort(paths)
	return slices.DeleteFunc(slices.Compact(paths), func(s string) bool { return s == "" })
}

// own marks changes that a command without a receipt may have made. Such a change does
// not ask, unless it affects a file whose changes receipts record. Content that is
// neither pre-image nor post-image of a step in progress always asks.
func own(s *session.Session, changed []session.ChangedFile, seen map[session.StepID]Seen, open []span) []session.ChangedFile {
	expected := map[string]bool{}
	foreign := map[string]session.ChangedFile{}
	for _, found := range seen {
		before := map[string]string{}
		for _, t := range found.Files {
			expected[t.Path] = true
			before[t.Path] = cmp.Or(t.Pre.Hash, t.Post.Hash)
		}
		for _, f := range found.Foreign {
			foreign[f.Path] = foreignChange(f, before[f.Path])
		}
	}
	out := changed[:0]
	for _, c := range changed {
		switch {
		case expected[c.Path]: // The step handles it, or it is foreign and added below.
			continue
		case s.Files[c.Path] == nil && slices.ContainsFunc(open, func(o span) bool { return o.holds(c) }):
			c.Asks, c.Session = false, session.FileBeside
		}
		out = append(out, c)
	}
	for _, c := range foreign {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b session.ChangedFile) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// foreignChange describes foreign content under a step in progress. before is the hash
// before the step, or the hash that the step makes if there was no file.
func foreignChange(f session.FileState, before string) session.ChangedFile {
	c := session.ChangedFile{Path: f.Path, Kind: session.FileModified, Old: before, New: f.Hash, Size: f.Size, MTimeNS: f.MTimeNS, Session: session.FileInProgress, Asks: true}
	if f.Hash == "" {
		c.Kind = session.FileDeleted
	}
	return c
}

// span is the time in which a command ran, in µs. A to of 0 means that it still runs.
type span struct{ from, to int64 }

// openCommands returns the spans of the commands without a receipt. The last comparison
// of the workspace was at the last receipt or earlier, so no other command can have
// caused a difference. If the end of a command is unknown, its last sign of life counts
// as its end.
func (r *Resumer) openCommands(ctx context.Context, s *session.Session, seen map[session.StepID]Seen) (open []span, err error) {
	for id, st := range r.attempts(s) {
		rec := seen[id].Record
		switch st.Status {
		case session.InProgress:
		case session.StepUncertain:
			if rec, err = r.Commands.Look(ctx, st.Key); err != nil {
				return nil, err
			}
		default:
			continue
		}
		switch rec.State {
		case session.CommandRunning, session.CommandUnattended, session.CommandLingering:
			open = append(open, span{st.StartedUS, 0})
		case session.CommandFinished:
			open = append(open, span{st.StartedUS, rec.EndedUS})
		case session.CommandUnknown:
			open = append(open, span{st.StartedUS, max(st.StartedUS, cmp.Or(rec.EndedUS, rec.AliveUS))})
		}
	}
	return open, nil
}

// leftAt returns the seq of the event that holds the state of the workspace at an orderly
// stop. It returns 0 if there is none.
func (r *Resumer) leftAt(ctx context.Context, s *session.Session) (uint64, error) {
	if s.State != session.Paused && s.State != session.AwaitingApproval {
		return 0, nil
	}
	for seq := s.LastSeq; seq > 0; seq-- {
		e, err := r.Journal.Event(ctx, seq)
		if err != nil {
			return 0, err
		}
		if e.Type != session.StateChanged {
			continue // The event is an answer, or the end of a command that was still running.
		}
		var d session.StateChangedData
		if err := e.Decode(&d); err != nil {
			return 0, err
		}
		switch {
		case d.Manifest != "":
			return seq, nil
		case d.From != session.AwaitingApproval: // A denial changes the state once more.
			return 0, nil
		}
	}
	return 0, nil
}

// The clock of files may be behind the clock of the journal by this much. The kernel
// updates it at least 100 times a second. ext4 with small inodes stores whole seconds.
const (
	tick  = 10 * time.Millisecond
	whole = time.Second
)

// holds reports whether c happened in the span, by the time of its last status change. A
// move sets this time, and so does a change of the modification time. An end before the
// start comes from a clock that was set back and is ignored.
func (o span) holds(c session.ChangedFile) bool {
	ns := cmp.Or(c.CTimeNS, c.MTimeNS)
	behind := tick
	if ns%int64(time.Second) == 0 {
		behind = whole
	}
	return ns > 0 && ns >= o.from*1000-behind.Nanoseconds() && (o.to < o.from || ns <= o.to*1000)
}

func (r *Resumer) git(limited context.Context, s *session.Session) error {
	if s.Git == "" {
		return nil
	}
	lines, err := r.Environment.GitChanges(limited, s.Git)
	if limited.Err() != nil {
		return r.late("the state of git")
	}
	if err != nil {
		lines = []string{"git failed: " + err.Error()}
	}
	own := ""
	if len(lines) > 0 && err == nil && len(s.Steps) > 0 {
		left, err := r.leftAt(limited, s)
		if err != nil {
			return err
		}
		if left == 0 {
			own = " (the session was interrupted: one of its steps may have caused this)"
		}
	}
	for _, l := range lines {
		l += own
		r.Notify(session.Notice{Kind: session.NoticeWarning, Text: l})
		r.Log.Info("environment changed", "event", "environment_change", "session_id", s.Short, "git", l)
	}
	return nil
}

// config warns about each configuration key that has changed since the session ran
// (ASM-018).
func (r *Resumer) config(s *session.Session) {
	r.ok("Configuration valid") // The caller has loaded it.
	var old map[string]string
	if s.Config == "" || json.Unmarshal([]byte(s.Config), &old) != nil {
		return
	}
	keys := slices.AppendSeq(slices.Collect(maps.Keys(old)), maps.Keys(r.Options.Config))
	slices.Sort(keys)
	for _, k := range slices.Compact(keys) {
		if was, now := old[k], r.Options.Config[k]; was != now {
			r.Notify(session.Notice{Kind: session.NoticeWarning, Text: fmt.Sprintf("configuration changed: %s was %q, is %q", k, was, now)})
			r.Log.Info("environment changed", "event", "environment_change", "session_id", s.Short, "config", k)
		}
	}
}

func configText(keys map[string]string) string {
	b, err := json.Marshal(keys)
	if err != nil {
		panic("resume: a map of strings must encode: " + err.Error())
	}
	return string(b)
}

// decide reports the changes. If some are significant, the policy or a person decides.
func (r *Resumer) decide(ctx context.Context, changed []session.ChangedFile) (verdict, error) {
	v := verdict{changed: changed}
	var asking []session.ChangedFile
	for _, c := range changed {
		r.Notify(session.Notice{Kind: session.NoticeChanged, Changed: &c})
		r.Log.Info("environment changed", "event", "environment_change", "session_id", r.Journal.Session().Short, "path", c.Path, "kind", c.Kind, "asks", c.Asks, "session", c.Session)
		if c.Asks {
			asking = append(asking, c)
		}
	}
	for _, line := range r.Environment.Suspicious(ctx, changed) {
		r.Notify(session.Notice{Kind: session.NoticeWarning, Text: "suspicious: " + line})
		r.Log.Warn("suspicious line", "event", "suspicious_line", "session_id", r.Journal.Session().Short, "line", line)
	}
	if len(asking) == 0 {
		r.ok("Environment ready. Resuming...")
		return v, nil
	}
	if r.Options.DryRun {
		v.open = true
		return v, nil
	}
	goOn, err := r.permitted(ctx, asking)
	if err != nil {
		return v, err
	}
	if !goOn {
		return v, r.aborted(asking)
	}
	v.by = r.Options.DecidedBy
	if r.Options.OnChanges != ChangesContinue {
		v.by = "person"
	}
	r.Notify(session.Notice{Kind: session.NoticeInfo, Text: "Continuing with changed files..."})
	v.accepted, err = r.Environment.Keep(ctx, asking)
	return v, err
}

func (r *Resumer) permitted(ctx context.Context, asking []session.ChangedFile) (bool, error) {
	switch r.Options.OnChanges {
	case ChangesContinue:
		return true, nil
	case ChangesAbort:
		return false, nil
	}
	goOn, err := r.Person.Changed(ctx, asking)
	if errors.Is(err, session.ErrEnvironment) {
		return false, nil
	}
	return goOn, err
}

func (r *Resumer) aborted(asking []session.ChangedFile) error {
	paths := make([]string, len(asking))
	for i, c := range asking {
		paths[i] = c.Path + " (" + c.Kind + ")"
	}
	again := r.again(r.Journal.Session(), "look at them, then")
	again.Do = session.MoveDecideChanges
	return &session.Error{Code: session.ErrEnvironment, Message: "files that the session works on changed: " + some(paths) + "; the session is unchanged",
		Next: again}
}

func upper(s session.State) string { return strings.ToUpper(string(s)) }
