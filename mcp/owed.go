package mcp

import (
	"cmp"
	"slices"
	"time"

	"github.com/acode-dev/acode/session"
)

// Owed decides about the calls of one connection of one conversation.
//
// An agent that was killed makes its last calls again, because it lost their answers. An
// equal call may also be a new wish. So a call is owed to its conversation from its
// intent until the client has surely seen its answer: then it is settled. Calls that only
// read are never owed and do not come here.
//
// Owed has no clock and does no I/O. Only one goroutine may use it at a time.
type Owed struct {
	settle time.Duration
	byID   bool
	// earlier are the owed calls of earlier connections, oldest first.
	earlier []*earlier
	// written has the time at which the result of a call was first written.
	written map[session.StepID]time.Time
	// behind names the calls that are settled together with a call.
	behind map[session.StepID][]session.StepID
	names  map[string]string
	told   bool
}

// OwedCall is a call of an earlier connection that is not settled.
type OwedCall struct {
	Op           session.StepID
	Tool, Digest string
	// Runs says that the call has no result yet.
	Runs bool
	// StartedUS and EndedUS are the times of the call; EndedUS is 0 while it runs.
	StartedUS, EndedUS int64
}

type earlier struct {
	OwedCall
	// matched says that an equal call of this connection got the call.
	matched bool
}

// Request is a call that changes something.
type Request struct {
	Tool, Digest string
	// Name is the name that the client gave the call; empty for none.
	Name string
	// Fresh says that the call is a new wish.
	Fresh bool
	// Before says that the client sent the call before it had the answer to a Tell.
	Before bool
}

// Decision is the decision about a call.
type Decision string

// The decisions.
const (
	// carry the call out
	Run Decision = "run"
	// answer with the record of an earlier call, or wait for it
	Recover Decision = "recover"
	// list the owed calls instead of carrying the call out
	Tell Decision = "tell"
	// answer as the call with the same name on this connection
	Same Decision = "same"
	// refuse the call: another one on this connection has its name
	Conflict Decision = "conflict"
)

// Verdict is the decision about a call.
type Verdict struct {
	Do Decision
	// Op is the earlier call, for Recover.
	Op session.StepID
	// List names the owed calls, oldest first, for Tell.
	List []session.StepID
}

// NewOwed returns the rule for a new connection. calls are the owed calls of its
// conversation, oldest first. byID says that the client named the conversation, so that
// an equal call may be answered with a record.
func NewOwed(settle time.Duration, byID bool, calls []OwedCall) *Owed {
	o := &Owed{settle: settle, byID: byID, written: map[session.StepID]time.Time{}, behind: map[session.StepID][]session.StepID{}, names: map[string]string{}}
	for _, c := range calls {
		o.earlier = append(o.earlier, &earlier{OwedCall: c})
	}
	return o
}

// Call decides about r.
func (o *Owed) Call(r Request) Verdict {
	payload := r.Tool + " " + r.Digest
	if known, ok := o.names[r.Name]; ok && r.Name != "" {
		if known != payload {
			return Verdict{Do: Conflict}
		}
		return Verdict{Do: Same}
	}
	v := o.decide(r)
	// A call that was not carried out may be made again under its name.
	if r.Name != "" && v.Do != Tell {
		o.names[r.Name] = payload
	}
	return v
}

// Forget frees the name of a call that was not carried out.
func (o *Owed) Forget(name string) { delete(o.names, name) }

func (o *Owed) decide(r Request) Verdict {
	if r.Fresh {
		return Verdict{Do: Run}
	}
	told := o.told && !r.Before
	// A conversation without an id may belong to another client by now. It is told first,
	// and after that an equal call runs, unless the earlier one still does.
	if o.byID || told {
		if i := o.match(r); i >= 0 {
			return o.recovers(i)
		}
	}
	if list := o.untold(); !told && len(list) > 0 {
		return Verdict{Do: Tell, List: list}
	}
	return Verdict{Do: Run}
}

// match returns the index of the newest earlier call that equals r and has not been
// given, or else of the newest one that still runs. It returns -1 if there is none.
func (o *Owed) match(r Request) int {
	found := -1
	for i, e := range slices.Backward(o.earlier) {
		switch {
		case e.Tool != r.Tool || e.Digest != r.Digest || !o.byID && !e.Runs:
		case !e.matched:
			return i
		case e.Runs && found < 0:
			found = i
		}
	}
	return found
}

// together is the time within which the calls of one message arrive.
const together = 100 * time.Millisecond

// recovers gives the call at i. The client made that call after it had the answers of
// those that ended before, so these are not given any more. They are settled together
// with the call at i and not earlier: until then the client can lose the answers that it
// got again on this connection. Calls of one message say nothing about each other's
// answers.
func (o *Owed) recovers(i int) Verdict {
	e := o.earlier[i]
	e.matched = true
	var older []session.StepID
	for _, x := range o.earlier[:i] {
		if !x.Runs && x.EndedUS+together.Microseconds() <= e.StartedUS {
			older = append(older, x.Op)
		}
	}
	o.drop(older)
	o.behind[e.Op] = append(o.behind[e.Op], older...)
	return Verdict{Do: Recover, Op: e.Op}
}

func (o *Owed) untold() []session.StepID {
	var out []session.StepID
	for _, e := range o.earlier {
		if !e.matched {
			out = append(out, e.Op)
		}
	}
	return out
}

// Running returns the earlier calls that had no result when last heard of.
func (o *Owed) Running() []session.StepID {
	var out []session.StepID
	for _, e := range o.earlier {
		if e.Runs {
			out = append(out, e.Op)
		}
	}
	return out
}

// Ended records that an earlier call has a result now.
func (o *Owed) Ended(op session.StepID, endedUS int64) {
	for _, e := range o.earlier {
		if e.Op == op && e.Runs {
			e.Runs, e.EndedUS = false, endedUS
		}
	}
}

// Answered records that the results of calls are written. It must not be called for an
// answer that only says that a call still runs.
func (o *Owed) Answered(now time.Time, ops ...session.StepID) {
	for _, op := range ops {
		if _, ok := o.written[op]; !ok {
			o.written[op] = now
		}
	}
}

// Told records that the answer to a Tell is written. Answered gets the calls of its list
// whose results it has.
func (o *Owed) Told() { o.told = true }

// Alive settles the calls whose answers were written long enough ago, and returns them.
// The connection makes a request at now, or is open at now.
func (o *Owed) Alive(now time.Time) []session.StepID {
	return o.settled(func(at time.Time) bool { return now.Sub(at) >= o.settle })
}

// Closed settles all answered calls when the client ended the connection in order, and
// returns them.
func (o *Owed) Closed() []session.StepID {
	return o.settled(func(time.Time) bool { return true })
}

func (o *Owed) settled(is func(written time.Time) bool) []session.StepID {
	var out []session.StepID
	for op, at := range o.written {
		if is(at) {
			out = append(append(out, op), o.after(op)...)
		}
	}
	slices.SortFunc(out, func(a, b session.StepID) int {
		return cmp.Or(cmp.Compare(len(a.Op), len(b.Op)), cmp.Compare(a.Op, b.Op))
	})
	o.drop(out)
	return out
}

// after removes and returns the calls that are settled after op.
func (o *Owed) after(op session.StepID) []session.StepID {
	out := o.behind[op]
	delete(o.behind, op)
	for _, older := range out {
		out = append(out, o.after(older)...)
	}
	return out
}

func (o *Owed) drop(ops []session.StepID) {
	o.earlier = slices.DeleteFunc(o.earlier, func(e *earlier) bool { return slices.Contains(ops, e.Op) })
	for _, op := range ops {
		delete(o.written, op)
	}
}
