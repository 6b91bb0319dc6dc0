package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/lock"
	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/workspace"
)

// Agent identifies the conversation of an outside agent.
type Agent = session.Agent

// Calls executes the calls of one conversation of an outside agent. The conversation has
// one session, which is made with its first call. The locks of a session are held while a
// call runs, and not while the agent is connected. Calls is safe for concurrent use.
type Calls struct {
	site *Site
	of   Agent
	root *workspace.Root
	// ends with Close; commands then stay with their supervisor
	ctx context.Context
	end context.CancelFunc

	// names this process in the locks
	self lock.Holder
	// held as long as the agent is connected; nil without an id of the conversation
	only *lock.Lock

	// held while a call begins or ends; guards the next three fields
	turn sync.Mutex
	// marks the session as that of a live connection; nil until there is a session
	live *lock.Lock
	// number of calls that run
	busy int
	// the session is in the store
	stored bool

	// guards the fields below
	mu sync.Mutex
	// the session; empty until it is made. Only the holder of turn changes it.
	id session.ID
	// the execution of the session; nil until it is acquired. Only the holder of turn
	// changes it.
	at *acquired
	// calls that this process executes or executed, by their names
	known map[session.StepID]*running
	// calls whose answers the agent has seen
	settled map[session.StepID]bool
	// readings before the session was acquired
	unread []engine.ReadCall
}

// acquired is one execution of the session by this process.
type acquired struct {
	*work
	runner *command.Runner
	calls  *engine.Calls
	env    environment
	epoch  uint64
	stop   func()
}

// running is a call that this process executes.
type running struct {
	call *session.Call
	// closed when the call has its outcome
	done chan struct{}
	err  error
}

// Converse continues the conversation of an agent in the workspace of s. Without an id of
// the conversation it continues the newest session of that client that no live connection
// has. With fresh it begins another session. Nothing is made before the first call.
func (s *Site) Converse(ctx context.Context, of Agent, fresh bool) (*Calls, error) {
	root, err := workspace.Open(s.Workspace, s.Now)
	if err != nil {
		return nil, err
	}
	self, err := lock.Self(s.commandLine(), s.Now())
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	self.Turns = true
	self = self.Serving()
	root.Redact = s.Redactor
	c := &Calls{site: s, of: of, root: root, self: self, known: map[session.StepID]*running{}, settled: map[session.StepID]bool{}}
	c.ctx, c.end = context.WithCancel(context.WithoutCancel(ctx))
	if !fresh {
		if err = c.alone(ctx); err == nil {
			err = c.find(ctx)
		}
	}
	if err == nil && c.id != "" {
		err = c.readMarks()
	}
	if err == nil && c.inProgress(ctx) {
		if err = c.begin(ctx, time.Second); err == nil {
			c.finish()
		}
		if errors.Is(err, session.ErrLocked) { // the first call settles what is open
			err = nil
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// find takes the newest session of the conversation that no live connection has.
func (c *Calls) find(ctx context.Context) error {
	rows, err := c.site.rows(ctx, c.site.Workspace)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.State.Terminal() || r.Calls == 0 || r.Task != c.of.Task() {
			continue
		}
		sess, err := c.site.store.View(ctx, r.ID)
		if err != nil {
			continue // a session that cannot be read is not continued; verify reports it
		}
		p, err := c.site.store.Plan(ctx, sess)
		if err != nil || p.Agent == nil || *p.Agent != c.of {
			continue
		}
		live, err := c.takeOver(ctx, r.ID)
		if errors.Is(err, session.ErrLocked) && !c.left(r.ID) {
			continue
		}
		c.id, c.live, c.stored = r.ID, live, true
		return err
	}
	return nil
}

// A new connection may find an earlier one, whose agent was just killed. It waits for the
// end of that one, and longer if it is certain that the agent has ended or was the same.
const (
	handover     = time.Second
	longHandover = 10 * time.Second
)

// takeOver is connect, but waits for a connection that ends. It returns ErrLocked if the
// connection has not ended.
func (c *Calls) takeOver(ctx context.Context, id session.ID) (*lock.Lock, error) {
	connect := func() (*lock.Lock, error) { return c.connect(id) }
	live, err := c.persist(ctx, handover, connect)
	if errors.Is(err, session.ErrLocked) && c.left(id) {
		live, err = c.persist(ctx, longHandover, connect)
	}
	return live, occupied(err)
}

// left reports whether the agent of the connection that has a session has ended.
func (c *Calls) left(id session.ID) bool {
	h, held, err := lock.Read(c.site.agentFile(id))
	return err == nil && held && h.Left()
}

// occupied explains that another connection has not ended.
func occupied(err error) error {
	if !errors.Is(err, session.ErrLocked) {
		return err
	}
	return &session.Error{Code: session.ErrLocked, Message: "another connection has this conversation; nothing was changed", Cause: err, Retryable: true,
		Next: session.Words("end the other agent that continued the same conversation, then make the call again")}
}

// persist tries to acquire a lock for some time.
func (c *Calls) persist(ctx context.Context, most time.Duration, try func() (*lock.Lock, error)) (*lock.Lock, error) {
	for until := c.site.Now().Add(most); ; {
		l, err := try()
		if !errors.Is(err, session.ErrLocked) || !c.site.Now().Before(until) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// alone makes this the only connection of a conversation with an id. A second one would
// make a session of its own, and carry out again what the first one did.
func (c *Calls) alone(ctx context.Context) (err error) {
	if c.of.Conversation == "" {
		return nil
	}
	c.only, err = c.persist(ctx, longHandover, func() (*lock.Lock, error) { return acquire(c.site.conversationFile(c.of), c.self) })
	return occupied(err)
}

// conversationFile is the lock file of the connection that has a conversation with an id.
func (s *Setup) conversationFile(of Agent) string {
	sum := sha256.Sum256([]byte(of.Client + "\x00" + of.Conversation + "\x00" + s.Workspace))
	return filepath.Join(s.home(), "locks", "conversation-"+hex.EncodeToString(sum[:8]))
}

// connect marks a session as that of a live connection.
func (c *Calls) connect(id session.ID) (*lock.Lock, error) {
	self := c.self
	self.Session = id
	return acquire(c.site.agentFile(id), self)
}

// agentFile is the lock file of the connection that has a session.
func (s *Setup) agentFile(id session.ID) string {
	return filepath.Join(s.home(), "locks", string(id)+".agent")
}

// inProgress reports whether a call of an earlier connection has no outcome yet.
func (c *Calls) inProgress(ctx context.Context) bool {
	if c.id == "" {
		return false
	}
	sess, err := c.site.store.View(ctx, c.id)
	if err != nil {
		return false
	}
	for _, op := range sess.Ops {
		if op.Status == session.InProgress {
			return true
		}
	}
	return false
}

// begin takes the locks unless another call has them, and acquires the session unless
// this process was the last one to execute it. It waits at most limit for other agents.
func (c *Calls) begin(ctx context.Context, limit time.Duration) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	if c.ctx.Err() != nil {
		return &session.Error{Code: session.ErrCancelled, Message: "the server ends; nothing was changed", Retryable: true}
	}
	if c.busy == 0 {
		if err := c.lock(ctx, limit); err != nil {
			return err
		}
	}
	c.busy++
	if c.at != nil && (c.busy > 1 || c.at.writer.Current(ctx) == nil) {
		return nil
	}
	err := c.acquire(ctx)
	if err != nil {
		c.release()
	}
	return err
}

// finish ends a call. The last one releases the locks.
func (c *Calls) finish() {
	c.turn.Lock()
	defer c.turn.Unlock()
	c.release()
}

func (c *Calls) release() {
	if c.busy--; c.busy == 0 {
		for _, l := range c.site.locks {
			if err := l.Release(); err != nil {
				c.site.Log.Warn("a lock could not be released", "event", "lock_kept", "error", err.Error())
			}
		}
		c.site.locks = nil
	}
}

// lock takes the locks of the session and of the workspace. Agents take turns, so it
// waits for the call of another agent. It does not wait for a run.
func (c *Calls) lock(ctx context.Context, limit time.Duration) error {
	if c.id == "" {
		id, err := c.site.store.NewID()
		if err != nil {
			return err
		}
		if c.live, err = c.connect(id); err != nil {
			return err
		}
		c.mu.Lock()
		c.id = id
		c.mu.Unlock()
	}
	w := &work{Site: c.site, self: c.self}
	w.self.Since = c.site.Now()
	until := w.self.Since.Add(limit)
	for {
		locks, err := w.take(c.id)
		if err == nil {
			c.site.locks = locks
			return nil
		}
		var held *lock.HeldError
		turns := errors.As(err, &held) && (held.Holder.Turns || held.Holder.Key != "" || held.Holder.PID == 0)
		if !errors.Is(err, session.ErrLocked) || !turns || !c.site.Now().Before(until) {
			return c.site.named(err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// acquire loads the session, or makes it, and begins its next epoch. It continues the
// calls that were in progress.
func (c *Calls) acquire(ctx context.Context) error {
	c.leave()
	w := &work{Site: c.site, door: &silent{}, self: c.self, choices: Choices{Explicit: true}, tally: tally{now: c.site.Now}}
	err := c.load(ctx, w)
	if err == nil {
		err = w.askedBefore(ctx)
	}
	if err == nil && w.writer.Session().State.Terminal() {
		err = c.over(w.writer.Session())
	}
	if err != nil {
		return errors.Join(err, w.close())
	}
	at := &acquired{work: w, runner: w.runner(), env: newEnvironment(c.root, w.writer, w.plan, w.Redactor), epoch: w.writer.Session().Epoch + 1}
	if err := c.execute(ctx, at); err != nil {
		return errors.Join(err, at.runner.Close(), w.close())
	}
	at.stop = w.deliver(func(error) {})
	return nil
}

// over returns the error for a session that has ended.
func (c *Calls) over(s *session.Session) error {
	return &session.Error{Code: session.ErrTerminal, Message: fmt.Sprintf("the session %s of this conversation is %s; nothing was changed", s.Short, s.State),
		Next: session.Words("connect again: the next connection begins another session")}
}

// load loads the session of the conversation, or makes it.
func (c *Calls) load(ctx context.Context, w *work) (err error) {
	if !c.stored {
		config, err := json.Marshal(w.Settings.Keys())
		if err != nil {
			return err
		}
		w.plan, w.fresh = session.CallsPlan(c.of), true
		w.writer, err = w.store.Create(ctx, local.NewSession{ID: c.id, Task: w.plan.Task, Workspace: w.Workspace, Plan: w.plan, Config: string(config)})
		c.stored = err == nil
		return err
	}
	if err := w.notForked(ctx, c.id); err != nil {
		return err
	}
	if w.writer, err = w.store.Load(ctx, c.id); err == nil {
		w.plan, err = w.writer.Plan(ctx)
	}
	return err
}

// calls begins the next epoch of an agent's session. It returns the calls that were in
// progress. also is committed with the epoch.
func (w *work) calls(ctx context.Context, root *workspace.Root, runner *command.Runner, env environment, also ...session.Draft) (*engine.Calls, []session.Item, error) {
	r := w.resumer(env, runner, asking{w.door, Origin{}, env.view}, func(session.Notice) {})
	r.Options.Validate, r.Options.OnChanges = false, resume.ChangesContinue // the agent is told what changed
	ready, err := r.Resume(ctx)
	if err != nil {
		return nil, nil, err
	}
	open, err := r.Operations(ctx, w.writer.Work)
	if err != nil {
		return nil, nil, err
	}
	if err := w.fenceCommands(ctx, runner); err != nil {
		return nil, nil, err
	}
	if s, id := w.writer.Session(), session.CallsStep(); s.Status(id) == session.Pending {
		ready.Begin = append(ready.Begin, session.Draft{Type: session.StepStarted, Data: session.StepStartedData{
			StepID: id, Kind: session.KindCalls, Key: session.KeyOf(s.ID, id, 1).String(), Attempt: 1, Digest: w.plan.Tasks[0].Steps[0].Digest(),
		}})
	}
	e := w.engine(root, runner, env)
	e.Diff = w.diff
	calls, err := e.Calls(ctx, ready.Next, open, append(ready.Begin, also...)...)
	return calls, open, err
}

// execute begins the epoch and continues the calls that were in progress.
func (c *Calls) execute(ctx context.Context, at *acquired) (err error) {
	var open []session.Item
	if at.calls, open, err = at.work.calls(ctx, c.root, at.runner, at.env, c.site.granted()...); err != nil {
		return err
	}
	c.carryOver(at)
	c.mu.Lock()
	c.at = at
	c.mu.Unlock()
	for _, it := range open {
		c.busy++
		c.start(it, func(ctx context.Context) error { return at.calls.Do(ctx, it) })
	}
	return nil
}

// leave gives up an execution that another process has followed.
func (c *Calls) leave() {
	if c.at == nil {
		return
	}
	c.at.stop()
	c.site.logLeftovers(errors.Join(c.at.runner.Close(), c.at.close()))
	c.mu.Lock()
	c.at = nil
	c.mu.Unlock()
}

// Session returns the id and the short id of the conversation's session. Both are empty
// before the first call.
func (c *Calls) Session(ctx context.Context) (id session.ID, short string) {
	_ = c.look(ctx, func(s *session.Session) { id, short = s.ID, s.Short }) // a session that cannot be read has no name
	return id, short
}

// closing is how long Close waits for the calls that run.
const closing = 700 * time.Millisecond

// Close ends the connection. A command continues with its supervisor. A change of files
// finishes, or the next connection continues it.
func (c *Calls) Close() error {
	c.end()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.mu.Lock()
		all := make([]*running, 0, len(c.known))
		for _, r := range c.known {
			all = append(all, r)
		}
		c.mu.Unlock()
		for _, r := range all {
			<-r.done
		}
	}()
	select {
	case <-ended:
	case <-time.After(closing):
		return nil // the process ends now, and the kernel releases its locks
	}
	c.turn.Lock()
	defer c.turn.Unlock()
	c.flush()
	c.leave()
	errs := []error{c.root.Close()}
	for _, l := range []*lock.Lock{c.live, c.only} {
		if l != nil {
			errs = append(errs, l.Release())
		}
	}
	return errors.Join(errs...)
}

// flush records the readings and settled calls that wait for a commit, if no other
// process has the session. Otherwise they are lost or marked.
func (c *Calls) flush() {
	if c.at == nil || c.lock(context.Background(), 0) != nil {
		return
	}
	c.busy++
	if c.at.writer.Current(context.Background()) == nil {
		c.site.logLeftovers(c.at.calls.Flush(context.Background()))
	}
	c.release()
}
