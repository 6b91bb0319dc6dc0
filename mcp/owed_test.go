package mcp_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/acode-dev/acode/mcp"
	"github.com/acode-dev/acode/session"
)

// settleMS is how long an answer must be out; the client forgets less than this.
const settleMS = 2000

// togetherMS is the time within which calls of one message arrive.
const togetherMS = 100

// fact is an entry of the log that the model reads. op is a number, list those of a told
// answer that it gives results of.
type fact struct {
	kind     string // began, ended, written, told, match, alive, closed
	at, conn int
	op       int
	key      string
	list     []int
}

// model is the rule, written from its words and without state: each answer is computed
// from the log of everything that happened.
type model struct {
	log  []fact
	byID bool
}

func (m *model) first(kind string, op int) (fact, bool) {
	for _, f := range m.log {
		if f.kind == kind && f.op == op {
			return f, true
		}
	}
	return fact{}, false
}

// settled: the connection that wrote the answer made a request S or more later, stayed
// open that long or ended in order, or the client asked again for a later call.
func (m *model) settled(op int) bool {
	ended, over := m.first("ended", op)
	for i, f := range m.log {
		if f.kind == "match" && over && f.op > op && ended.at+togetherMS <= must(m.first("began", f.op)).at {
			return true
		}
		if !(f.kind == "written" && f.op == op || f.kind == "told" && slices.Contains(f.list, op)) {
			continue
		}
		for _, later := range m.log[i+1:] {
			if later.conn == f.conn && (later.kind == "closed" || later.kind == "alive" && later.at-f.at >= settleMS) {
				return true
			}
		}
	}
	return false
}

// verdict returns what to do with a call, and the operations that it is about.
func (m *model) verdict(conn int, key string, fresh bool) (mcp.Decision, []int) {
	var owed, equal, runs, untold []int
	told := slices.ContainsFunc(m.log, func(f fact) bool { return f.kind == "told" && f.conn == conn })
	for _, f := range m.log {
		if f.kind == "began" && f.conn < conn && !m.settled(f.op) {
			owed = append(owed, f.op)
		}
	}
	for _, op := range owed {
		_, over := m.first("ended", op)
		given := slices.ContainsFunc(m.log, func(f fact) bool { return f.kind == "match" && f.conn == conn && f.op == op })
		if must(m.first("began", op)).key == key && (m.byID || told && !over) {
			if !given {
				equal = append(equal, op)
			} else if !over {
				runs = append(runs, op)
			}
		}
		if !given {
			untold = append(untold, op)
		}
	}
	switch {
	case fresh:
		return mcp.Run, nil
	case len(equal) > 0:
		return mcp.Recover, equal[len(equal)-1:]
	case len(runs) > 0:
		return mcp.Recover, runs[len(runs)-1:]
	case !told && len(untold) > 0:
		return mcp.Tell, untold
	}
	return mcp.Run, nil
}

func must(f fact, _ bool) fact { return f }

// tally counts what the random clients met.
type tally struct{ calls, lost, recovered, told, ambiguous, reordered int }

// plant is a fault to plant in the rule.
type plant string

const (
	sound        plant = ""
	neverSettled plant = "owed calls never settled"
	noArguments  plant = "equality without the arguments"
	emptyTold    plant = "told without listing"
)

// TestOwedModel plays random clients against the rule. Their transcripts forget the last
// two seconds; they make calls in series and in parallel, in another order and in other
// words; they wait, they want equal commands, and their servers are killed.
func TestOwedModel(t *testing.T) {
	var all tally
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{n: func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "n") }, tally: &all}
		if err := w.play(); err != nil {
			rt.Fatal(err)
		}
	})
	share := func(n, of int) float64 { return 100 * float64(n) / float64(max(of, 1)) }
	t.Logf("%d calls, %d lost answers: %d recovered, %d told; ambiguous %.1f%% of recovered; settled by a later equal call, then made again %.1f%% of lost",
		all.calls, all.lost, all.recovered, all.told, share(all.ambiguous, all.recovered), share(all.reordered, all.lost))
	if all.lost < 100 || all.recovered < 20 || all.told < 20 {
		t.Errorf("the clients met too little: %+v", all)
	}
}

// TestOwedFaults shows that the truth alone, without comparing verdicts with the model,
// notices each planted fault and nothing in the sound rule.
func TestOwedFaults(t *testing.T) {
	for _, p := range []plant{sound, neverSettled, noArguments, emptyTold} {
		found := ""
		for seed := range uint64(3000) {
			r := rand.New(rand.NewPCG(seed, 1))
			w := &world{n: r.IntN, tally: &tally{}, plant: p, truthOnly: true}
			if err := w.play(); err != nil {
				found = fmt.Sprintf("seed %d: %v", seed, err)
				break
			}
		}
		if (p == sound) == (found != "") {
			t.Errorf("the rule with %q: found %q", p, found)
		}
		t.Logf("%q: %s", p, found)
	}
}

// wish is something that the client wants once.
type wish struct {
	id   int
	args string
	ms   int // how long its effect takes
}

// effect is an operation that was carried out for a wish.
type effect struct {
	op, wish, conn  int
	began, ended    int
	written, closed int // of the first answer with the result, and the end of its connection; -1 for none
}

// world is a client, its connections and the truth about the effects.
type world struct {
	n         func(int) int
	plant     plant
	truthOnly bool
	*tally

	now, conn int
	resumed   bool
	rule      *mcp.Owed
	model     model
	effects   []*effect
	// heard has when the client got the result of a wish.
	heard map[int]int
	// informed has when the client got a told or recovered answer about an operation.
	informed map[int]int
	reworded map[int]int
}

func opID(op int) session.StepID {
	id := session.CallsStep()
	id.Op = fmt.Sprintf("n%d", op)
	return id
}

func (w *world) play() error {
	w.heard, w.informed, w.reworded = map[int]int{}, map[int]int{}, map[int]int{}
	w.model.byID = w.n(3) > 0
	var batches [][]wish
	for id := 0; id < 12; {
		var batch []wish
		for range 1 + w.n(4)/2*w.n(3) {
			ms := []int{0, 5, 40, 700, 2500}[w.n(5)]
			batch = append(batch, wish{id, string(rune('a' + w.n(3))), ms})
			id++
		}
		batches = append(batches, batch)
	}
	w.connect()
	for tries := 0; tries < 60; tries++ {
		// The first batch whose results the client does not have.
		next := slices.IndexFunc(batches, func(b []wish) bool { return len(w.left(b)) > 0 })
		if next < 0 {
			break
		}
		// A resumed client may continue in another order.
		if other := next + 1; w.resumed && other < len(batches) && w.n(10) == 0 {
			next = other
		}
		if err := w.make(w.left(batches[next])); err != nil {
			return err
		}
		w.now += []int{1, 30, 300, 1900, 2100, 9000}[w.n(6)]
		switch w.n(8) {
		case 0, 1:
			w.kill(w.n(settleMS))
		case 2: // The server alone: the client forgets nothing.
			w.kill(-1)
		case 3:
			w.end()
		}
	}
	return nil
}

func (w *world) left(batch []wish) []wish {
	return slices.DeleteFunc(slices.Clone(batch), func(x wish) bool { _, ok := w.heard[x.id]; return ok })
}

func (w *world) note(f fact) {
	f.at, f.conn = w.now, w.conn
	w.model.log = append(w.model.log, f)
}

// connect makes a connection of the same conversation.
func (w *world) connect() {
	w.conn++
	var calls []mcp.OwedCall
	for _, e := range w.effects {
		if began := must(w.model.first("began", e.op)); w.plant == neverSettled || !w.model.settled(e.op) {
			calls = append(calls, mcp.OwedCall{Op: opID(e.op), Tool: "run_command", Digest: w.digest(began.key),
				Runs: e.ended > w.now, StartedUS: int64(e.began) * 1000, EndedUS: int64(e.ended) * 1000})
		}
	}
	w.rule = mcp.NewOwed(settleMS*time.Millisecond, w.model.byID, calls)
}

func (w *world) digest(key string) string {
	if w.plant == noArguments {
		return ""
	}
	return key
}

func (w *world) time() time.Time { return time.UnixMilli(int64(w.now)) }

// alive is the present moment on an open connection.
func (w *world) alive() {
	w.ended()
	w.note(fact{kind: "alive"})
	if w.plant != neverSettled {
		w.rule.Alive(w.time())
	}
}

// ended notes the effects that are over by now.
func (w *world) ended() {
	for _, e := range w.effects {
		if _, known := w.model.first("ended", e.op); !known && e.ended <= w.now {
			w.model.log = append(w.model.log, fact{kind: "ended", at: e.ended, op: e.op})
		}
		if e.ended <= w.now {
			w.rule.Ended(opID(e.op), int64(e.ended)*1000)
		}
	}
}

// kill ends the connection at once. The client forgets what it heard in the last forgets
// milliseconds; with -1 it forgets nothing.
func (w *world) kill(forgets int) {
	w.alive()
	w.over()
	w.resumed = forgets >= 0
	for id, at := range w.heard {
		if w.resumed && at > w.now-forgets {
			delete(w.heard, id)
			w.lost++
		}
	}
	for op, at := range w.informed {
		if w.resumed && at > w.now-forgets {
			delete(w.informed, op)
		}
	}
	w.now += []int{0, 100, 3000, 40000}[w.n(4)]
	w.connect()
}

// end ends the connection in order: the client keeps everything for good.
func (w *world) end() {
	w.alive()
	for _, all := range []map[int]int{w.heard, w.informed} {
		for k := range all {
			all[k] = math.MinInt32
		}
	}
	w.note(fact{kind: "closed"})
	w.rule.Closed()
	w.over()
	w.connect()
}

func (w *world) over() {
	for _, e := range w.effects {
		if e.conn == w.conn && e.closed < 0 {
			e.closed = w.now
		}
	}
}

// answer is an answer that will be written.
type answer struct {
	at   int
	wish wish
	op   int
	told []int
	// recovered says that the operation is an earlier one.
	recovered bool
}

// make sends calls for wishes at once and handles the answers, or is killed in between.
func (w *world) make(wishes []wish) error {
	order := slices.Clone(wishes)
	if w.n(3) == 0 {
		slices.Reverse(order)
	}
	var answers []answer
	for _, x := range order {
		a, err := w.call(x)
		if err != nil {
			return err
		}
		if a != nil {
			answers = append(answers, *a)
		}
		w.now += w.n(3)
	}
	slices.SortStableFunc(answers, func(a, b answer) int { return cmp.Compare(a.at, b.at) })
	for _, a := range answers {
		if w.n(12) == 0 { // Killed before this answer.
			w.now = max(w.now, a.at-1)
			w.kill([]int{-1, w.n(settleMS)}[w.n(2)])
			return nil
		}
		w.now = max(w.now, a.at)
		w.alive()
		w.write(a)
		w.now += 1
	}
	return nil
}

// call makes the call for a wish and checks the verdict. It returns the answer to come.
func (w *world) call(x wish) (*answer, error) {
	w.alive()
	w.calls++
	args := x.args
	if n := w.reworded[x.id]; n > 0 {
		args += fmt.Sprint(n)
	}
	fresh := w.n(25) == 0 && !slices.ContainsFunc(w.effects, func(e *effect) bool { return e.wish == x.id })
	v := w.rule.Call(mcp.Request{Tool: "run_command", Digest: w.digest(args), Fresh: fresh})
	if w.plant == emptyTold {
		v.List = nil
	}
	want, about := w.model.verdict(w.conn, args, fresh)
	var got []int
	switch v.Do {
	case mcp.Recover:
		got = []int{number(v.Op)}
	case mcp.Tell:
		got = numbers(v.List)
	}
	if !w.truthOnly && (v.Do != want || !slices.Equal(got, about)) {
		return nil, fmt.Errorf("connection %d, call %s: got %s %v, want %s %v\n%v", w.conn, args, v.Do, got, want, about, w.model.log)
	}
	switch v.Do {
	case mcp.Run:
		return w.run(x, args, fresh)
	case mcp.Recover:
		w.note(fact{kind: "match", op: got[0]})
		w.recovered++
		return w.record(x, args, got[0])
	}
	w.told++
	return &answer{at: w.now + w.n(30), wish: x, op: -1, told: got}, nil
}

// run carries a call out. An owed call must not be repeated before the client was told.
func (w *world) run(x wish, args string, fresh bool) (*answer, error) {
	for _, e := range w.effects {
		if _, informed := w.informed[e.op]; e.wish != x.id || informed || fresh {
			continue
		}
		if !w.model.settled(e.op) {
			return nil, fmt.Errorf("the effect of wish %d is repeated, and the client was not told of operation %d\n%s", x.id, e.op, w.story())
		}
		w.reordered++
	}
	e := &effect{op: len(w.effects) + 1, wish: x.id, conn: w.conn, began: w.now, ended: w.now + x.ms, written: -1, closed: -1}
	w.effects = append(w.effects, e)
	w.note(fact{kind: "began", op: e.op, key: args})
	return &answer{at: e.ended + 1 + w.n(20), wish: x, op: e.op}, nil
}

// record answers a call with an earlier operation, which must not be settled in truth.
func (w *world) record(x wish, args string, op int) (*answer, error) {
	e := w.effects[op-1]
	if e.written >= 0 && e.closed >= 0 && e.closed-e.written >= settleMS {
		return nil, fmt.Errorf("operation %d was answered at %d, its connection ended at %d, and its record was given", op, e.written, e.closed)
	}
	if key := must(w.model.first("began", op)).key; key != args {
		return nil, fmt.Errorf("the record of %s was given for %s", key, args)
	}
	if e.wish != x.id {
		w.exchange(e, x)
	}
	return &answer{at: max(w.now, e.ended) + 1 + w.n(20), wish: x, op: op, recovered: true}, nil
}

// exchange lets the wish x have the effect of a wish for an equal command. The rule
// cannot tell them apart, and need not while each has one effect. It was wrong if the
// client has the answer of the other one: such a case is ambiguous.
func (w *world) exchange(e *effect, x wish) {
	if _, kept := w.heard[e.wish]; kept {
		w.ambiguous++
	}
	for _, own := range w.effects {
		if own.wish == x.id {
			own.wish = e.wish
		}
	}
	e.wish = x.id
}

// write gives an answer to the client.
func (w *world) write(a answer) {
	if a.op < 0 {
		var over []session.StepID
		f := fact{kind: "told"}
		for _, op := range a.told {
			w.informed[op] = w.now
			if w.effects[op-1].ended <= w.now {
				over, f.list = append(over, opID(op)), append(f.list, op)
			}
		}
		w.note(f)
		w.rule.Told()
		w.rule.Answered(w.time(), over...)
		w.decideAfterTold(a)
		return
	}
	e := w.effects[a.op-1]
	if e.written < 0 || e.conn != w.conn {
		e.written, e.closed, e.conn = w.now, -1, w.conn
	}
	w.note(fact{kind: "written", op: a.op})
	w.rule.Answered(w.time(), opID(a.op))
	if a.recovered {
		w.informed[a.op] = w.now
	}
	w.heard[a.wish.id] = w.now
}

// decideAfterTold lets the client take the listed result for its wish, or make the call
// again, sometimes in other words.
func (w *world) decideAfterTold(a answer) {
	for _, op := range a.told {
		if e := w.effects[op-1]; e.wish == a.wish.id && e.ended <= w.now && w.n(2) == 0 {
			w.heard[a.wish.id] = w.now
			return
		}
	}
	if w.n(2) == 0 {
		w.reworded[a.wish.id]++
	}
}

func number(id session.StepID) (n int) {
	fmt.Sscanf(id.Op, "n%d", &n)
	return n
}

func numbers(ids []session.StepID) []int {
	var out []int
	for _, id := range ids {
		out = append(out, number(id))
	}
	return out
}

// story returns the log, a line for each fact.
func (w *world) story() string {
	var out strings.Builder
	for _, f := range w.model.log {
		if f.kind != "alive" {
			fmt.Fprintf(&out, "%d: connection %d: %s n%d %s %v\n", f.at, f.conn, f.kind, f.op, f.key, f.list)
		}
	}
	return out.String()
}
