package app

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/lock"
	"github.com/acode-dev/acode/session"
)

// ThisRun makes Follow begin where the process began that executes the session, or executed it last.
const ThisRun = math.MaxUint64

// How often Follow looks whether something was committed, and after how many looks it reads in any case.
const (
	followEvery = 100 * time.Millisecond
	readAnyway  = 50
)

// Follow tells what happens in a session that another process executes, from its events above seq after, until no
// process executes it any more, and gives how it stands then. What it tells of an event is what that process tells of
// it, and carries its seq: with the last of these, another Follow neither misses nor repeats anything. It takes no lock
// and writes nothing. ref is as in Status.
func (s *Site) Follow(ctx context.Context, ref string, after uint64, tell func(session.Notice)) (session.Result, error) {
	id, err := s.subject(ctx, ref)
	if err != nil {
		return session.Result{}, err
	}
	sess, p, next, err := s.outlook(ctx, id)
	if err != nil {
		return session.Result{}, err
	}
	f := &follower{Site: s, facts: s.facts(ctx, p, next), sess: sess, after: after, tell: tell}
	if err := f.watch(ctx); err != nil {
		return session.Result{}, err
	}
	result := f.facts.Result()
	if f.last.Kind != session.NoticeResult {
		tell(session.Notice{Kind: session.NoticeResult, Session: sess, Result: &result})
	}
	return result, nil
}

// facts folds the events of a session of which next is left.
func (s *Site) facts(ctx context.Context, p *session.Plan, next session.Continuation) session.Facts {
	return session.Facts{Plan: p, Items: next.Items, Redact: s.Redactor.String, Wrote: func(c *session.CommandResult) []string {
		return s.ends(ctx, []session.Output{c.Stderr, c.Stdout}, false)
	}}
}

// follower reads the events of a session as they come.
type follower struct {
	*Site
	facts session.Facts
	sess  *session.Session
	after uint64
	tell  func(session.Notice)
	seq   uint64         // of the last event that was read
	last  session.Notice // that was told
	held  []session.Notice
}

// watch reads until the session is over, or no process executes it.
func (f *follower) watch(ctx context.Context) error {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	seen := uint64(math.MaxUint64)
	for look := 0; ; look++ {
		// In this order: what its process committed before it ended is read below.
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
		if seen = now; !running || f.facts.State().Terminal() {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// read tells the events that have come.
func (f *follower) read(ctx context.Context) error {
	for e, err := range f.events(ctx, f.sess.ID, f.seq) {
		if err != nil {
			return err
		}
		n, told, err := f.facts.Of(e, nil)
		if err != nil {
			return err
		}
		if f.seq = e.Seq; e.Type == session.ExecutionAcquired && f.after == ThisRun {
			f.held = nil
		}
		if n.Session = f.sess; told && (f.after == ThisRun || e.Seq > f.after) {
			f.held = append(f.held, n)
		}
		if f.after != ThisRun {
			f.release()
		}
	}
	if f.after == ThisRun {
		f.after = f.seq
	}
	f.release()
	return nil
}

func (f *follower) release() {
	for _, n := range f.held {
		f.last = n
		f.tell(n)
	}
	f.held = nil
}

// teller is the journal of a session that this process executes, and has what its door is told of an event made from
// that event.
type teller struct {
	*local.Writer
	door func(session.Notice)

	mu    sync.Mutex
	facts session.Facts
	seq   uint64                       // of the last event that facts has
	made  map[telling][]session.Notice // and not told yet
	last  session.Notice               // how the session came to rest
}

// telling is what a notice is about.
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
	for e, err := range s.events(ctx, w.Session().ID, 0) { // what was asked is only there
		if err == nil {
			_, _, _ = t.facts.Of(e, nil) // the writer has verified it
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
		if e.Seq <= t.seq { // a receipt that was there already
			continue
		}
		t.seq = e.Seq
		var data any
		if len(drafts) == len(events) { // it need not be decoded
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

// notice tells n, in the words of its event where one says it.
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
