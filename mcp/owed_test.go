package mcp_test

import (
	"cmp"
	"fmt"
	"maps"
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

// fact is an entry of the log that the model reads. op is a number; list has the
// operations whose results an answer gives.
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

// seen: the connection of a fact made a request S or more later, stayed open that long,
// or ended in order.
func (m *model) seen(i int) bool {
	f := m.log[i]
	return slices.ContainsFunc(m.log[i:], func(g fact) bool {
		return g.conn == f.conn && (g.kind == "closed" || g.kind == "alive" && g.at-f.at >= settleMS)
	})
}

// passed: on a connection the client made the call later again, which it had made after
// the answer to op.
func (m *model) passed(conn, op, later int) bool {
	ended, over := m.first("ended", op)
	return over && ended.at+togetherMS <= must(m.first("began", later)).at &&
		slices.ContainsFunc(m.log, func(f fact) bool { return f.kind == "match" && f.conn == conn && f.op == later })
}

// settled: the client has seen an answer with the result, or one with the result of a
// call that passed it on the same connection.
func (m *model) settled(op int) bool {
	for i, f := range m.log {
		for _, x := range f.list {
			if (x == op || m.passed(f.conn, op, x)) && m.seen(i) {
				return true
			}
		}
	}
	return false
}

// verdict returns what to do with a call, and the operations that it is about. sent is
// the length of the log when the client sent the call.
func (m *model) verdict(conn, sent int, key string, fresh bool) (mcp.Decision, []int) {
	var equal, runs, untold []int
	told := m.told(conn, sent)
	for _, f := range m.log {
		matched := func(g fact) bool { return g.kind == "match" && g.conn == conn && g.op == f.op }
		passed := func(g fact) bool { return g.kind == "match" && m.passed(conn, f.op, g.op) }
		if f.kind != "began" || f.conn >= conn || m.settled(f.op) || slices.ContainsFunc(m.log, passed) {
			continue
		}
		_, over := m.first("ended", f.op)
		given := slices.ContainsFunc(m.log, matched)
		switch equals := f.key == key && (m.byID || told && !over); {
		case equals && !given:
			equal = append(equal, f.op)
		case equals && !over:
			runs = append(runs, f.op)
		}
		if !given {
			untold = append(untold, f.op)
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

// told: the client had a told answer of the connection when it sent a call.
func (m *model) told(conn, sent int) bool {
	return slices.ContainsFunc(m.log[:sent], func(f fact) bool { return f.kind == "told" && f.conn == conn })
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

// TestOwedModel plays random clients against the rule. Their transcripts forget the
// last two seconds; they make calls in series and in parallel, in another order and in
// other words; they wait, they want equal commands, and their servers are killed.
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
		found, all := "", tally{}
		for seed := range uint64(1500) {
			r := rand.New(rand.NewPCG(seed, 1))
			w := &world{n: r.IntN, tally: &all, plant: p, truthOnly: true}
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
	// marks are the operations that the rule reported as settled.
	marks map[int]bool
}

func opID(op int) session.StepID {
	id := session.CallsStep()
	id.Op = fmt.Sprintf("n%d", op)
	return id
}

func (w *world) play() error {
	w.heard, w.informed, w.reworded, w.marks = map[int]int{}, map[int]int{}, map[int]int{}, map[int]bool{}
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
	for range 60 {
		if err := w.agree(); err != nil {
			return err
		}
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
		if began := must(w.model.first("began", e.op)); !w.marks[e.op] {
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
	w.mark(w.rule.Alive(w.time()))
}

// mark keeps what the rule says is settled.
func (w *world) mark(ops []session.StepID) {
	for _, op := range numbers(ops) {
		w.marks[op] = w.plant != neverSettled
	}
}

// agree compares the operations that the rule has settled with those of the model.
func (w *world) agree() error {
	for _, e := range w.effects {
		if settled := w.model.settled(e.op); !w.truthOnly && settled != w.marks[e.op] {
			return fmt.Errorf("operation %d: settled %t, want %t\n%s", e.op, w.marks[e.op], settled, w.story())
		}
	}
	return nil
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

// kill ends the connection at once. The client forgets what it heard in the last
// forgets milliseconds; with -1 it forgets nothing.
func (w *world) kill(forgets int) {
	w.alive()
	w.over()
	w.resumed = forgets >= 0
	for _, id := range slices.Sorted(maps.Keys(w.heard)) {
		if !w.resumed || w.heard[id] <= w.now-forgets {
			continue
		}
		delete(w.heard, id)
		if w.lost++; w.n(5) == 0 { // A resumed client may make the call in other words.
			w.reworded[id]++
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
	w.mark(w.rule.Closed())
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
	sent := len(w.model.log)
	for _, x := range order {
		// The client sent its calls at once, and may get answers before the last one arrives.
		var killed bool
		if answers, killed = w.deliver(answers, w.now); killed {
			return nil
		}
		a, err := w.call(x, sent)
		if err != nil {
			return err
		}
		answers = append(answers, a)
		w.now += []int{0, 1, 30}[w.n(3)]
	}
	w.deliver(answers, math.MaxInt)
	return nil
}

// deliver writes the answers up to a time, or the client or its server is killed before
// one of them. It returns the others.
func (w *world) deliver(answers []answer, until int) (left []answer, killed bool) {
	slices.SortStableFunc(answers, func(a, b answer) int { return cmp.Compare(a.at, b.at) })
	for i, a := range answers {
		if a.at > until {
			return answers[i:], false
		}
		w.now = max(w.now, a.at)
		if w.n(12) == 0 {
			w.kill([]int{-1, w.n(settleMS)}[w.n(2)])
			return nil, true
		}
		w.alive()
		w.write(a)
		w.now++
	}
	return nil, false
}

// call makes the call for a wish and checks the verdict. It returns the answer to come.
func (w *world) call(x wish, sent int) (answer, error) {
	w.alive()
	w.calls++
	args := x.args
	if n := w.reworded[x.id]; n > 0 {
		args += fmt.Sprint(n)
	}
	fresh := w.n(25) == 0 && !slices.ContainsFunc(w.effects, func(e *effect) bool { return e.wish == x.id })
	v := w.rule.Call(mcp.Request{Tool: "run_command", Digest: w.digest(args), Fresh: fresh, Before: !w.model.told(w.conn, sent)})
	if w.plant == emptyTold {
		v.List = nil
	}
	want, about := w.model.verdict(w.conn, sent, args, fresh)
	var got []int
	switch v.Do {
	case mcp.Recover:
		got = []int{number(v.Op)}
	case mcp.Tell:
		got = numbers(v.List)
	}
	if !w.truthOnly && (v.Do != want || !slices.Equal(got, about)) {
		return answer{}, fmt.Errorf("connection %d, call %s: got %s %v, want %s %v\n%s", w.conn, args, v.Do, got, want, about, w.story())
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
	return answer{at: w.now + w.n(30), wish: x, op: -1, told: got}, nil
}

// run carries a call out. An owed call must not be repeated before the client was told,
// and never while it runs.
func (w *world) run(x wish, args string, fresh bool) (answer, error) {
	for _, e := range w.effects {
		if key := must(w.model.first("began", e.op)).key; e.conn < w.conn && e.ended > w.now && key == args && !fresh {
			return answer{}, fmt.Errorf("%s runs as operation %d, and was started again\n%s", key, e.op, w.story())
		}
		if _, informed := w.informed[e.op]; e.wish != x.id || informed || fresh {
			continue
		}
		if !w.model.settled(e.op) && !w.passed(e.op) {
			return answer{}, fmt.Errorf("the effect of wish %d is repeated, and the client was not told of operation %d\n%s", x.id, e.op, w.story())
		}
		w.reordered++
	}
	e := &effect{op: len(w.effects) + 1, wish: x.id, conn: w.conn, began: w.now, ended: w.now + x.ms, written: -1, closed: -1}
	w.effects = append(w.effects, e)
	w.note(fact{kind: "began", op: e.op, key: args})
	return answer{at: e.ended + 1 + w.n(20), wish: x, op: e.op}, nil
}

// passed: the client made a later call again on this connection.
func (w *world) passed(op int) bool {
	return slices.ContainsFunc(w.effects, func(e *effect) bool { return w.model.passed(w.conn, op, e.op) })
}

// record answers a call with an earlier operation, which must not be settled in truth.
func (w *world) record(x wish, args string, op int) (answer, error) {
	e := w.effects[op-1]
	if e.written >= 0 && e.closed >= 0 && e.closed-e.written >= settleMS {
		return answer{}, fmt.Errorf("operation %d was answered at %d, its connection ended at %d, and its record was given", op, e.written, e.closed)
	}
	if key := must(w.model.first("began", op)).key; key != args {
		return answer{}, fmt.Errorf("the record of %s was given for %s", key, args)
	}
	if e.wish != x.id {
		w.exchange(e, x)
	}
	return answer{at: max(w.now, e.ended) + 1 + w.n(20), wish: x, op: op, recovered: true}, nil
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
	w.note(fact{kind: "written", list: []int{a.op}})
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
