package app

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/lock"
	"github.com/acode-dev/acode/session"
)

// ThisRun as Following.After makes Follow begin where the latest executing process began.
const ThisRun = math.MaxUint64

// How often Follow checks for a commit, and after how many checks it reads in any case.
const (
	followEvery = 100 * time.Millisecond
	readAnyway  = 50
)

// Following selects the parts of a session that Follow tells.
type Following struct {
	// Ref is as in Status.
	Ref string
	// After is the seq after which Follow begins, or ThisRun.
	After uint64
	Lines Lines
}

// Lines says which lines of commands are told beside events.
type Lines int

// The choices of lines.
const (
	NoLines Lines = iota
	// LiveLines are lines that commands write from now on.
	LiveLines
	// AllLines also includes the stored lines from before.
	AllLines
)

// Follow passes the events of a session above seq After to tell, until no process
// executes the session. It returns the last state of the session. A notice of an event is
// the same as in the executing process and carries the event's seq. A second Follow from
// the last seq neither misses nor repeats an event. Lines of output have no seq, and come
// before the end of their command. Follow takes no lock and writes nothing.
func (s *Site) Follow(ctx context.Context, o Following, tell func(session.Notice)) (session.Result, error) {
	id, err := s.subject(ctx, o.Ref)
	if err != nil {
		return session.Result{}, err
	}
	sess, p, next, err := s.outlook(ctx, id)
	if err != nil {
		return session.Result{}, err
	}
	// lines and events come from different goroutines
	var mu sync.Mutex
	f := &follower{
		Site: s, lines: o.Lines, facts: s.facts(ctx, p, next), sess: sess, after: o.After, split: split(p), open: map[session.StepID]*attended{},
		tell: func(n session.Notice) {
			mu.Lock()
			defer mu.Unlock()
			tell(n)
		},
	}
	f.out = s.liveOutputs(id, f.tell)
	err = f.watch(ctx)
	f.out.close()
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) { // any call may have met the end of ctx
		err = context.Cause(ctx)
	}
	if err != nil {
		return session.Result{}, err
	}
	result := f.facts.Result()
	if f.last.Kind != session.NoticeResult {
		tell(session.Notice{Kind: session.NoticeResult, Session: sess, Result: &result})
	}
	return result, nil
}

// facts returns a fold over the events of a session. next is its remaining work.
func (s *Site) facts(ctx context.Context, p *session.Plan, next session.Continuation) session.Facts {
	return session.Facts{
		Plan: p, Items: next.Items, Redact: s.Redactor.String,
		Wrote: func(c *session.CommandResult) []string {
			return s.ends(ctx, []session.Output{c.Stderr, c.Stdout}, false)
		},
		Value: func(c *session.Capture) string {
			value, _ := s.content(ctx, session.Output{Blob: c.Blob}) // a capture that cannot be read is shown without its value
			return value
		},
	}
}

// follower reads the events of a session as they come.
type follower struct {
	*Site
	lines Lines
	facts session.Facts
	sess  *session.Session
	after uint64
	split map[session.StepID]bool
	tell  func(session.Notice)
	// seq of the last event that was read
	seq uint64
	// the last notice that was told
	last session.Notice
	held []held
	out  *outputs
	// commands that were started and have no receipt
	open map[session.StepID]*attended
}

// held is a notice that waits to be told.
type held struct {
	session.Notice
	// the key of the command that this notice ends
	key string
	// the result of that command, if it has one
	result *session.CommandResult
}

// attended is a command that runs according to the events.
type attended struct {
	key  string
	item session.Item
	// time of its start
	atUS int64
	told bool
}

// watch reads until the session is over, or no process executes it.
func (f *follower) watch(ctx context.Context) error {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	seen := uint64(math.MaxUint64)
	for look := 0; ; look++ {
		// Read the lock before the store, so that the last commits of a process that ends
		// are read too.
		_, running, _ := lock.Read(f.lockFile(f.sess.ID)) // an unreadable lock file has no holder
		now, err := f.store.Version(ctx)
		if err != nil {
			return err
		}
		if now != seen || !running || look%readAnyway == 0 {
			if err := f.read(ctx); err != nil {
				return err
			}
		}
		waits := f.facts.Plan.Agent != nil // its agent may call again
		if seen = now; !running && !waits || f.facts.State().Terminal() {
			return nil
		}
		if err := f.attend(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// read tells the new events.
func (f *follower) read(ctx context.Context) error {
	for e, err := range f.events(ctx, f.sess.ID, f.seq) {
		if err != nil {
			return err
		}
		n, told, err := f.facts.Of(e, nil)
		if err != nil {
			return err
		}
		h := held{Notice: n}
		if err := f.commands(e, &h); err != nil {
			return err
		}
		if f.seq = e.Seq; e.Type == session.ExecutionAcquired && f.after == ThisRun {
			f.held = nil
		}
		if h.Session = f.sess; told && (f.after == ThisRun || e.Seq > f.after) {
			f.held = append(f.held, h)
		}
		if f.after != ThisRun {
			if err := f.release(ctx); err != nil {
				return err
			}
		}
	}
	if f.after == ThisRun {
		f.after = f.seq
	}
	return f.release(ctx)
}

// commands notes a command that e starts or ends. h is the notice of e.
func (f *follower) commands(e session.Event, h *held) error {
	if f.lines == NoLines {
		return nil
	}
	switch e.Type {
	case session.StepStarted, session.OperationStarted:
		var d session.StepStartedData
		if err := e.Decode(&d); err != nil || d.Kind != session.KindRun || h.Item == nil {
			return err
		}
		f.open[d.StepID] = &attended{key: d.Key, item: *h.Item, atUS: e.TimeUS}
	case session.StepCompleted, session.StepFailedEvent, session.StepUnknown, session.OperationCompleted, session.OperationFailed, session.OperationUnknown:
		var d struct {
			session.StepID
			Key     string                 `json:"key"`
			Command *session.CommandResult `json:"command"`
		}
		if err := e.Decode(&d); err != nil {
			return err
		}
		h.key, h.result = d.Key, d.Command
		delete(f.open, d.StepID)
	}
	return nil
}

func (f *follower) release(ctx context.Context) error {
	for _, h := range f.held {
		if err := f.wrote(ctx, h); err != nil {
			return err
		}
		if a := f.open[h.step()]; h.Kind == session.NoticeStarted && a != nil {
			a.told = true
		}
		if h.Kind == session.NoticeSession {
			for _, a := range f.open {
				a.told = false // the process that begins here has not told it
			}
		}
		f.last = h.Notice
		f.tell(h.Notice)
	}
	f.held = nil
	return nil
}

func (h held) step() session.StepID {
	if h.Item == nil {
		return session.StepID{}
	}
	return h.Item.ID
}

// wrote tells the remaining output of the command that h ends.
func (f *follower) wrote(ctx context.Context, h held) error {
	if h.key == "" {
		return nil
	}
	told := f.out.end(h.key)
	if f.lines != AllLines || h.result == nil {
		return nil
	}
	it := *h.Item
	it.Status = session.InProgress // the end of the command is told next
	stdout, stderr := f.out.lines(it, session.BothStreams), f.out.lines(it, session.Stderr)
	if f.split[h.Item.ID] {
		stdout.stream = session.Stdout
	}
	stdout.known, stdout.unwatched, stderr.unwatched = told, math.MaxInt64, math.MaxInt64
	return errors.Join(f.kept(ctx, h.result, stdout, stderr), stdout.close(), stderr.close())
}

// attend tells the output of the running commands. If this follower has not told the
// start of a command, attend tells that the command runs.
func (f *follower) attend(ctx context.Context) error {
	if f.lines == NoLines || len(f.open) == 0 {
		return nil
	}
	if _, err := f.store.View(ctx, f.sess.ID); err != nil { // reading the session teaches the redactor new secrets
		return err
	}
	open := slices.SortedFunc(maps.Values(f.open), func(a, b *attended) int { return cmp.Compare(a.atUS, b.atUS) })
	for _, a := range open {
		it := a.item
		if !a.told {
			rec, err := f.records(f.sess.ID).Look(ctx, a.key)
			if err != nil || rec.State != session.CommandRunning && rec.State != session.CommandUnattended {
				continue
			}
			a.told, it.Action = true, session.ActionAttach
			f.tell(session.Notice{Kind: session.NoticeStarted, TimeUS: a.atUS, Session: f.sess, Item: &it})
		}
		if !f.split[it.ID] {
			f.out.begin(a.item, a.key)
		}
	}
	return nil
}

// teller is the journal of a session that this process executes. It makes the door's
// notices from the committed events.
type teller struct {
	*local.Writer
	door func(session.Notice)

	mu    sync.Mutex
	facts session.Facts
	// seq of the last event in facts
	seq uint64
	// notices that are made but not told yet
	made map[telling][]session.Notice
	// the notice of the session's end
	last session.Notice
}

// telling identifies the subject of a notice.
type telling struct {
	kind session.NoticeKind
	step session.StepID
}

func (s *Site) teller(ctx context.Context, w *local.Writer, p *session.Plan, next session.Continuation, door func(session.Notice)) *teller {
	t := &teller{Writer: w, door: door, facts: s.facts(ctx, p, next), seq: w.Session().LastSeq, made: map[telling][]session.Notice{}}
	if !asksStill(w.Session()) {
		t.facts.Begin(w.Session())
		return t
	}
	for e, err := range s.events(ctx, w.Session().ID, 0) { // only the events have the open question
		if err == nil {
			_, _, _ = t.facts.Of(e, nil) // the writer has verified the event
		}
	}
	return t
}

// Append implements engine.Journal.
func (t *teller) Append(ctx context.Context, drafts ...session.Draft) ([]session.Event, error) {
	events, err := t.Writer.Append(ctx, drafts...)
	return t.committed(drafts, events, err)
}

// AppendAnswering implements engine.Journal.
func (t *teller) AppendAnswering(ctx context.Context, request int64, drafts ...session.Draft) ([]session.Event, error) {
	events, err := t.Writer.AppendAnswering(ctx, request, drafts...)
	return t.committed(drafts, events, err)
}

func (t *teller) committed(drafts []session.Draft, events []session.Event, err error) ([]session.Event, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, e := range events {
		if e.Seq <= t.seq { // a receipt from an earlier commit
			continue
		}
		t.seq = e.Seq
		var data any
		if len(drafts) == len(events) { // saves decoding the event
			data = drafts[i].Data
		}
		n, told, ferr := t.facts.Of(e, data)
		if ferr != nil {
			return events, ferr
		}
		switch {
		case told && n.Kind == session.NoticeResult:
			t.last = n
		case told && n.Item != nil:
			about := telling{n.Kind, n.Item.ID}
			t.made[about] = append(t.made[about], n)
		}
	}
	return events, err
}

// notice passes n to the door. If an event was committed for n, it passes the notice of
// that event.
func (t *teller) notice(n session.Notice) {
	if n.Item != nil {
		t.mu.Lock()
		about := telling{n.Kind, n.Item.ID}
		if made := t.made[about]; len(made) > 0 {
			n, t.made[about] = made[0], made[1:]
		}
		t.mu.Unlock()
	}
	t.door(n)
}
