package mcp

import (
	"context"
	"sync"
	"time"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
)

// talk is an open conversation on this connection.
type talk struct {
	Conversation
	options   *Options
	workspace string
	// ctx ends with the connection.
	ctx context.Context

	// held while the person at the client is asked about a call
	asking sync.Mutex

	mu   sync.Mutex
	owed *Owed
	// named has the calls with a name, for those who make the same call.
	named map[string]*flight
	// telling is the first told answer; nil before it is made.
	telling *telling
	// tick settles the answers of a connection that stays open.
	tick *time.Timer
	// gone reports whether the client is gone. The server may not have noticed.
	gone func() bool
}

// flight is a call with a name.
type flight struct {
	done chan struct{}
	// op and err are set before done is closed.
	op  session.StepID
	err error
}

// telling is a told answer.
type telling struct {
	made    time.Time
	written chan struct{}
}

func newTalk(ctx context.Context, c Conversation, o *Options, workspace string, byID bool) (*talk, error) {
	owed, err := c.Owed(ctx)
	if err != nil {
		return nil, err
	}
	var calls []OwedCall
	for _, a := range owed {
		calls = append(calls, OwedCall{Op: a.Op, Tool: a.Tool, Digest: a.Digest, Runs: a.Outcome == app.CallRuns, StartedUS: a.StartedUS, EndedUS: a.EndedUS})
	}
	t := &talk{Conversation: c, options: o, workspace: workspace, ctx: ctx, owed: NewOwed(o.Settle, byID, calls), named: map[string]*flight{}}
	t.tick = time.AfterFunc(time.Hour, t.stayed)
	t.tick.Stop()
	return t, nil
}

// alive settles answers, because the client made a request.
func (t *talk) alive() {
	t.mu.Lock()
	ops := t.owed.Alive(t.options.Now())
	t.mu.Unlock()
	t.Settle(ops...)
}

// stayed settles answers, because the connection stayed open.
func (t *talk) stayed() {
	if t.ctx.Err() == nil && !t.gone() {
		t.alive()
	}
}

// close settles the calls that an end in order settles, and closes the conversation.
func (t *talk) close(inOrder bool) error {
	t.tick.Stop()
	if inOrder {
		t.mu.Lock()
		ops := t.owed.Closed()
		t.mu.Unlock()
		t.Settle(ops...)
	}
	return t.Close()
}

// decide asks the rule about a call, after it heard which earlier calls ended meanwhile.
func (t *talk) decide(r Request) (v Verdict, f *flight, err error) {
	t.mu.Lock()
	running, telling := t.owed.Running(), t.telling
	t.mu.Unlock()
	if r.Before = telling == nil || t.options.Now().Sub(telling.made) < t.options.Message; !r.Before {
		select {
		case <-telling.written:
		case <-t.ctx.Done():
			return v, nil, t.ctx.Err()
		}
	}
	ended := map[session.StepID]int64{}
	for _, op := range running {
		a, err := t.Answered(t.ctx, op)
		if err != nil {
			return v, nil, err
		}
		if a.Outcome != app.CallRuns {
			ended[op] = a.EndedUS
		}
	}
	t.mu.Lock()
	for op, at := range ended {
		t.owed.Ended(op, at)
	}
	v = t.owed.Call(r)
	switch {
	case r.Name == "":
	case v.Do == Same:
		f = t.named[r.Name]
	case v.Do == Run || v.Do == Recover:
		f = &flight{done: make(chan struct{})}
		t.named[r.Name] = f
	}
	t.mu.Unlock()
	return v, f, nil
}

// land ends a call with a name. One that was refused may be made again under its name.
func (t *talk) land(name string, f *flight, op session.StepID, err error) {
	if f == nil {
		return
	}
	f.op, f.err = op, err
	if err != nil {
		t.mu.Lock()
		t.owed.Forget(name)
		delete(t.named, name)
		t.mu.Unlock()
	}
	close(f.done)
}

// gives returns the function to call when an answer with the results of ops is written.
func (t *talk) gives(ops []session.StepID) func() {
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.owed.Answered(t.options.Now(), ops...)
		t.tick.Reset(t.options.Settle + 10*time.Millisecond)
	}
}

// tells is gives for a told answer that is to be written now.
func (t *talk) tells(ops []session.StepID) func() {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := t.telling == nil
	if first {
		t.telling = &telling{made: t.options.Now(), written: make(chan struct{})}
	}
	telling, written := t.telling, t.gives(ops)
	return func() {
		t.mu.Lock()
		t.owed.Told()
		t.mu.Unlock()
		written()
		if first {
			close(telling.written)
		}
	}
}
