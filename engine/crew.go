package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/acode-dev/acode/session"
)

// crew holds the branches of one execution: the jobs, their order, and how the execution
// ends. A branch that stopped keeps its place. With only one place, the session therefore
// stops there.
type crew struct {
	e *Engine
	// how many steps may run at once
	limit int

	// guards the fields below
	mu sync.Mutex
	// signalled when a waiting branch may be able to continue
	change sync.Cond

	// in the order of execution
	tasks []task
	// number of tasks that have not ended
	undone int
	// items whose commands may still run; acode attaches to them before it begins
	// anything
	attach []int
	// other items that were in progress, in the order of their intents
	open []int
	// tasks that may begin, in the order of execution
	ready []int

	branches []*branch
	// number of branches that have not ended
	workers int
	// number of branches with a job
	working int
	// number of branches whose jobs end once their receipts are durable
	landing int
	// number of places that stopped branches keep
	held int
	// number of commands that ran before and that no branch waits for yet
	attaching int
	// commands that their branches leave to the supervisor
	leaving []*leaving
	// one of those branches is pausing the session
	pausing bool
	// the session is paused
	paused   bool
	pauseErr error

	// nothing new begins
	draining bool
	stops    []placed
	fatal    error
	cancel   *cancelling
	// gates that another process denied during this execution
	denied map[session.StepID]bool

	paths pathClaims
}

// task is the rest of a task of the plan.
type task struct {
	// range of its items
	first, end int
	// number of unfinished tasks that it depends on, plus its unfinished items in
	// progress
	waits int
	// tasks that depend on it
	needed []int
	// one of its steps, or a task that it depends on, failed
	failed bool
}

// job is the work of a branch: a step that was in progress, or the rest of a task.
type job struct {
	task  int
	items []session.Item
	// it is a step that was in progress
	again bool
}

// placed is a stop with the place of its step in the order of execution.
type placed struct {
	at int
	*stop
}

func newCrew(e *Engine) *crew {
	c := &crew{e: e, limit: max(1, e.MaxParallel), denied: map[session.StepID]bool{}, paths: newPathClaims()}
	c.change.L = &c.mu
	c.plan()
	return c
}

// plan finds the order of the work and its dependencies.
func (c *crew) plan() {
	items := c.e.next.Items
	place := make(map[string]int, len(c.e.Plan.Tasks))
	for i := 0; i < len(items); {
		t := task{first: i}
		for ; i < len(items) && items[i].Task == items[t.first].Task; i++ {
		}
		t.end = i
		place[items[t.first].ID.Task] = len(c.tasks)
		c.tasks = append(c.tasks, t)
	}
	c.undone = len(c.tasks)
	for at := range c.tasks {
		t := &c.tasks[at]
		for _, d := range c.e.Plan.Tasks[items[t.first].Task-1].DependsOn {
			if on, ok := place[d]; ok {
				c.tasks[on].needed = append(c.tasks[on].needed, at)
				t.waits++
			}
		}
	}
	for _, i := range c.e.next.InProgress {
		it := &items[i]
		c.tasks[place[it.ID.Task]].waits++
		if it.Action == session.ActionAttach {
			c.attach = append(c.attach, i)
		} else {
			c.open = append(c.open, i)
		}
		if it.Status == session.InProgress {
			c.paths.claim(it.ID, c.e.named(it))
		}
	}
	c.attaching = len(c.attach)
	for at := range c.tasks {
		if c.tasks[at].waits == 0 {
			c.ready = append(c.ready, at)
		}
	}
}

// run executes the rest of the session, with b on the goroutine of the caller. It returns
// the stop of the session, or nil if nothing stopped it.
func (c *crew) run(ctx context.Context, b *branch) (*stop, error) {
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(work, c.wake)
	defer stop()
	n := min(max(c.limit, len(c.attach)), len(c.tasks)+len(c.attach))
	c.branches = []*branch{b}
	for len(c.branches) < n {
		c.branches = append(c.branches, c.e.newBranch())
	}
	c.workers = len(c.branches)
	var others sync.WaitGroup
	for _, o := range c.branches[1:] {
		others.Go(func() { c.work(work, cancel, o) })
	}
	c.work(work, cancel, b)
	others.Wait()
	switch {
	case c.fatal != nil:
		return nil, c.fatal
	case c.cancel != nil:
		return b.cancelled(ctx, c.cancel.request)
	case len(c.stops) > 0:
		return c.verdict(), nil
	case c.undone > 0: // the context has ended
		return nil, cmp.Or(context.Cause(ctx), errUndone)
	}
	return nil, nil
}

var errUndone error = &session.Error{Code: session.ErrInternal, Message: "tasks are left although nothing prevents their execution"}

func (c *crew) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.change.Broadcast()
}

// work lets b execute one job after another until none is left.
func (c *crew) work(ctx context.Context, cancel context.CancelCauseFunc, b *branch) {
	for {
		j, ok, err := c.take(ctx, b)
		if ok {
			var at int
			at, err = c.carryOut(ctx, b, j)
			if err == nil || errors.Is(err, errFailed) {
				c.did(b, j, err != nil)
				continue
			}
			if c.others(b) && !c.keeps(err) { // the last branch leaves its receipts to the commit of the end
				err = errors.Join(err, b.commit(ctx))
			}
			c.ended(ctx, cancel, b, at, err)
			return
		}
		c.idle(ctx, cancel, err)
		return
	}
}

// keeps reports whether the receipt of a branch is committed with the end of the session.
func (c *crew) keeps(err error) bool {
	var halt *stop
	return errors.As(err, &halt) && halt.to == session.Failed
}

// others reports whether another branch has a job, or may get one once the receipts of b
// are durable.
func (c *crew) others(b *branch) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.working > 1 || len(b.over) > 0
}

// take waits for the next job of b and returns it. It returns false when no job is left.
// It commits pending drafts before it waits.
func (c *crew) take(ctx context.Context, b *branch) (job, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		j, ok := c.next()
		switch {
		case ok:
			c.working++
			b.attaching = c.isAttached(j)
			return j, true, nil
		case c.working == 0 && c.landing == 0 || c.draining && (c.working == 0 || len(b.pending) == 0):
			return job{}, false, nil
		case len(b.pending) > 0 && (c.working > 0 || len(b.over) > 0):
			if err := c.commits(ctx, b); err != nil {
				return job{}, false, err
			}
		case ctx.Err() != nil:
			return job{}, false, nil
		default:
			c.change.Wait()
		}
	}
}

// commits lets b commit its pending drafts without holding the lock.
func (c *crew) commits(ctx context.Context, b *branch) error {
	c.mu.Unlock()
	defer c.mu.Lock()
	return b.commit(ctx)
}

func (c *crew) isAttached(j job) bool { return j.again && j.items[0].Action == session.ActionAttach }

// next returns the next job. Commands that may still run come first, then other items in
// progress.
func (c *crew) next() (job, bool) {
	items := c.e.next.Items
	switch {
	case c.draining:
	case len(c.attach) > 0:
		i := c.attach[0]
		c.attach = c.attach[1:]
		return job{c.taskOf(i), items[i : i+1], true}, true
	case c.attaching > 0 || c.working+c.held >= c.limit:
	case len(c.open) > 0:
		i := c.open[0]
		c.open = c.open[1:]
		return job{c.taskOf(i), items[i : i+1], true}, true
	case len(c.ready) > 0:
		at := c.ready[0]
		c.ready = c.ready[1:]
		return job{at, items[c.tasks[at].first:c.tasks[at].end], false}, true
	}
	return job{}, false
}

// taskOf returns the task of item i.
func (c *crew) taskOf(i int) int {
	at, _ := slices.BinarySearchFunc(c.tasks, i, func(t task, i int) int {
		switch {
		case t.end <= i:
			return -1
		case t.first > i:
			return 1
		}
		return 0
	})
	return at
}

// carryOut executes the items of a job. Items in progress were done before their task
// becomes a job.
func (c *crew) carryOut(ctx context.Context, b *branch, j job) (at int, err error) {
	for i := range j.items {
		it := j.items[i]
		if it.Action == session.ActionSkip || !j.again && it.WasInProgress() {
			continue
		}
		if err := b.item(ctx, it); err != nil {
			return c.tasks[j.task].first + it.Step - 1, err
		}
	}
	return 0, nil
}

// did ends a job and lets waiting jobs begin. A job with pending receipts ends when they
// are durable. With only one branch it ends at once.
func (c *crew) did(b *branch, j job, failed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.working--
	c.reattached(b)
	t := &c.tasks[j.task]
	t.failed = t.failed || failed
	j.again = j.again && !failed
	if c.workers > 1 && len(b.pending) > 0 {
		if len(b.over) == 0 {
			c.landing++
		}
		b.over = append(b.over, j)
	} else {
		c.over(j)
	}
	c.change.Broadcast()
}

// over lets the work begin that waits for an ended job: the rest of its task, or
// dependent tasks.
func (c *crew) over(j job) {
	if t := &c.tasks[j.task]; !j.again {
		c.endTask(j.task)
	} else if t.waits--; t.waits == 0 {
		c.begins(j.task)
	}
}

// landed ends the jobs of b whose last receipt is now durable.
func (c *crew) landed(b *branch) {
	if len(b.over) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range b.over {
		c.over(j)
	}
	b.over = nil
	c.landing--
	c.change.Broadcast()
}

// endTask ends a task and lets dependent tasks begin. A task that depends on a failed one
// ends too, unless Force is set.
func (c *crew) endTask(at int) {
	for over := []int{at}; len(over) > 0; {
		t := &c.tasks[over[0]]
		over = over[1:]
		c.undone--
		for _, n := range t.needed {
			d := &c.tasks[n]
			d.failed = d.failed || t.failed && !c.e.Policy.Force
			if d.waits--; d.waits > 0 {
				continue
			}
			if d.failed {
				over = append(over, n)
			} else {
				c.begins(n)
			}
		}
	}
}

func (c *crew) begins(at int) {
	i, _ := slices.BinarySearch(c.ready, at)
	c.ready = slices.Insert(c.ready, i, at)
}

// attached records that b now waits for the command that it was to attach to.
func (c *crew) attached(b *branch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reattached(b)
	c.change.Broadcast()
}

func (c *crew) reattached(b *branch) {
	if b.attaching {
		b.attaching = false
		c.attaching--
	}
}

// idle ends a branch that has no work left.
func (c *crew) idle(ctx context.Context, cancel context.CancelCauseFunc, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.workers--
	if err != nil {
		c.note(ctx, cancel, 0, err)
	}
	c.change.Broadcast()
}

// ended ends b with err at the item at.
func (c *crew) ended(ctx context.Context, cancel context.CancelCauseFunc, b *branch, at int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.workers--
	c.working--
	c.held++
	c.reattached(b)
	c.note(ctx, cancel, at, err)
	c.change.Broadcast()
}

// note applies the error of one branch to the others.
func (c *crew) note(ctx context.Context, cancel context.CancelCauseFunc, at int, err error) {
	var asked *cancelling
	switch halt := pause(ctx, err); {
	case errors.Is(err, errDrained):
	case errors.As(err, &asked):
		c.draining, c.cancel = true, asked
	case halt != nil:
		c.stops = append(c.stops, placed{at, halt})
		c.draining = c.draining || halt.drains()
	case c.fatal == nil: // an error of the store, which the others meet too
		c.draining, c.fatal = true, err
		cancel(err)
	}
}

// drains reports whether nothing new begins because a branch ended the session.
func (c *crew) drains() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.draining
}

func (c *crew) refuse(id session.StepID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.denied[id] = true
}

func (c *crew) refused(id session.StepID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.denied[id]
}

// collect gives b all pending drafts of the other branches, which have ended.
func (c *crew) collect(b *branch) {
	for _, o := range c.branches {
		c.disown(o, o.pending)
		o.meanwhile = nil
		if o == b {
			continue
		}
		b.pending, b.onCommit, b.spent = append(b.pending, o.pending...), append(b.onCommit, o.onCommit...), append(b.spent, o.spent...)
		b.received = append(b.received, o.received...)
		o.pending, o.onCommit, o.spent, o.received = nil, nil, nil, nil
	}
}

// leave waits until every branch is at a boundary or leaves its command, and until one of
// them has paused the session for all.
func (c *crew) leave(l *leaving, pause func(all []*leaving) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaving = append(c.leaving, l)
	c.change.Broadcast()
	for c.pausing || len(c.leaving) < c.working {
		if c.paused {
			return c.pauseErr
		}
		c.change.Wait()
	}
	c.pausing = true
	all := slices.Clone(c.leaving)
	func() {
		c.mu.Unlock()
		defer c.mu.Lock()
		c.pauseErr = pause(all)
	}()
	c.paused = true
	c.change.Broadcast()
	return c.pauseErr
}
