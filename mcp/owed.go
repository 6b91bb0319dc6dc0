package mcp

import (
	"cmp"
	"slices"
	"time"

	"github.com/acode-dev/acode/session"
)

// Owed decides about the calls of one connection of one conversation.
//
// An agent that was killed makes its last calls again, because it lost their answers.
// An equal call may also be a new wish. So a call is owed to its conversation from its
// intent until the client has surely seen its answer: then it is settled. Calls that
// only read are never owed and do not come here.
//
// Owed has no clock and does no I/O. Only one goroutine may use it at a time.
type Owed struct {
	settle time.Duration
	byID   bool
	// earlier are the owed calls of earlier connections, oldest first.
	earlier []*earlier
	// written has the time at which the result of a call was first written.
	written map[session.StepID]time.Time
	names   map[string]string
	told    bool
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
	o := &Owed{settle: settle, byID: byID, written: map[session.StepID]time.Time{}, names: map[string]string{}}
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
		if e := o.match(r); e != nil {
			e.matched = true
			return Verdict{Do: Recover, Op: e.Op}
		}
	}
	if list := o.untold(); !told && len(list) > 0 {
		return Verdict{Do: Tell, List: list}
	}
	return Verdict{Do: Run}
}

// match returns the newest earlier call that equals r and has not been given, or else
// the newest one that still runs. It returns nil if there is none.
func (o *Owed) match(r Request) (found *earlier) {
	for _, e := range slices.Backward(o.earlier) {
		switch {
		case e.Tool != r.Tool || e.Digest != r.Digest || !o.byID && !e.Runs || o.passed(e):
		case !e.matched:
			return e
		case e.Runs && found == nil:
			found = e
		}
	}
	return found
}

// together is the time within which the calls of one message arrive.
const together = 100 * time.Millisecond

// before reports whether the client had the answer to e when it made the call m. Calls
// of one message say nothing about each other's answers.
func (e *earlier) before(m *earlier) bool {
	return !e.Runs && e.EndedUS+together.Microseconds() <= m.StartedUS
}

// passed reports whether the client made a call again that it had made after the answer
// to e. Then e is not given any more. It is settled together with that call and not
// earlier: until then the client can lose the answers that it got again on this
// connection.
func (o *Owed) passed(e *earlier) bool {
	return slices.ContainsFunc(o.earlier, func(m *earlier) bool { return m.matched && e.before(m) })
}

func (o *Owed) untold() []session.StepID {
	var out []session.StepID
	for _, e := range o.earlier {
		if !e.matched && !o.passed(e) {
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

// Told records that the answer to a Tell is written. Answered gets the calls of its
// list whose results it has.
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
			out = append(out, op)
		}
	}
	out = append(out, o.behind(out)...)
	slices.SortFunc(out, func(a, b session.StepID) int {
		return cmp.Or(cmp.Compare(len(a.Op), len(b.Op)), cmp.Compare(a.Op, b.Op))
	})
	o.earlier = slices.DeleteFunc(o.earlier, func(e *earlier) bool { return slices.Contains(out, e.Op) })
	for _, op := range out {
		delete(o.written, op)
	}
	return slices.Compact(out)
}

// behind returns the calls that the given ones passed.
func (o *Owed) behind(ops []session.StepID) []session.StepID {
	var out []session.StepID
	for _, m := range o.earlier {
		for _, e := range o.earlier {
			if m.matched && slices.Contains(ops, m.Op) && e.before(m) {
				out = append(out, e.Op)
			}
		}
	}
	return out
}
