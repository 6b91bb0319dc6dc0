// Package history generates legal histories of sessions for property tests: whole
// journals of every type of event, with the hash chain, the ids and the hybrid clock of a
// real store.
//
// It computes its own expected state, so a test can compare a replay with a result that
// the tested code did not compute.
package history

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/acode-dev/acode/session"
)

// maxEvents limits a history, so that a property stays fast.
const maxEvents = 60

// Draw returns a legal history: events 1 to n of one session in seq order, with n of at
// least 1.
func Draw(t *rapid.T) []session.Event {
	events, _ := DrawModel(t)
	return events
}

// Model is the state after a history, as the generator computes it.
type Model struct {
	Session session.ID
	Short   string
	State   session.State
	// Left is the state before Paused.
	Left   session.State
	Reason session.Reason
	Epoch  uint64
	// Inputs is a hash.
	Inputs string
	Done   int
	// Steps holds the steps that started or that have a question.
	Steps   map[session.StepID]session.Status
	Attempt map[session.StepID]int
	// Calls counts the operations. Ops holds those that are not settled.
	Calls int
	Ops   map[session.StepID]session.Status
	// Talks has the conversations of prompt steps that have started.
	Talks map[session.StepID]*Talk
	// Held has the step of each event ChangesHeld that waits for a person.
	Held map[uint64]session.StepID
	// Files holds hashes by path; an empty hash means that the file is absent.
	Files map[string]string
	// Wrote is by path.
	Wrote map[string]bool
}

// DrawModel is Draw with the resulting state.
func DrawModel(t *rapid.T) ([]session.Event, Model) {
	g := newGenerator(t)
	g.create()
	for n := rapid.IntRange(0, maxEvents-1).Draw(t, "events"); n > 0; n-- {
		legal := g.legal()
		if len(legal) == 0 {
			break
		}
		rapid.SampledFrom(legal).Draw(t, "action").do()
	}
	return g.events, g.m
}

// idAt makes a UUIDv7 with the given time in microseconds.
func idAt(us int64, random [10]byte) (id [16]byte) {
	ms := uint64(us / 1000)
	for i := range 6 {
		id[i] = byte(ms >> (8 * (5 - i)))
	}
	copy(id[6:], random[:])
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}

func uuid(id [16]byte) session.ID {
	s := hex.EncodeToString(id[:])
	return session.ID(fmt.Sprintf("%s-%s-%s-%s-%s", s[:8], s[8:12], s[12:16], s[16:20], s[20:]))
}

// generator is a session that grows by legal events.
type generator struct {
	t      *rapid.T
	events []session.Event
	m      Model
	steps  []step
	// wall is in microseconds and may step back.
	wall int64
	// last is the time of the last event.
	last  int64
	files map[session.StepID][]session.Transition
	// asked holds the digests of open questions.
	asked map[session.StepID]string
}

type step struct {
	id   session.StepID
	kind session.Kind
}

// action is a possible next event.
type action struct {
	name string
	do   func()
}

// String returns the name of the action for the report of a failed property.
func (a action) String() string { return a.name }

func newGenerator(t *rapid.T) *generator {
	g := &generator{
		t:     t,
		wall:  time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro(),
		files: map[session.StepID][]session.Transition{},
		asked: map[session.StepID]string{},
	}
	kinds := []session.Kind{session.KindRead, session.KindSearch, session.KindWrite, session.KindRun, session.KindApprove, session.KindPrompt, session.KindPrompt}
	for task := range rapid.IntRange(1, 3).Draw(t, "tasks") {
		for s := range rapid.IntRange(1, 3).Draw(t, "steps") {
			id := session.StepID{Task: fmt.Sprintf("task-%d", task+1), Step: fmt.Sprintf("step-%d", s+1)}
			g.steps = append(g.steps, step{id, rapid.SampledFrom(kinds).Draw(t, "kind")})
		}
	}
	return g
}

// random draws the random bits of an id.
func (g *generator) random() (b [10]byte) {
	copy(b[:], rapid.SliceOfN(rapid.Byte(), 10, 10).Draw(g.t, "random"))
	return b
}

// add appends an event. The wall clock moves by up to an hour, forward or back; the time
// of the event still increases strictly.
func (g *generator) add(kind session.EventType, actor string, data any) {
	g.wall += rapid.Int64Range(-time.Hour.Microseconds(), time.Hour.Microseconds()).Draw(g.t, "clock step")
	g.last = max(g.wall, g.last+1)
	payload, err := json.Marshal(data)
	if err != nil {
		panic("history: a payload must encode: " + err.Error())
	}
	e := session.Event{
		ID: idAt(g.last, g.random()), Session: g.m.Session, Seq: uint64(len(g.events) + 1), TimeUS: g.last,
		Type: kind, Actor: actor, Epoch: g.m.Epoch, Payload: payload,
	}
	var head session.Hash
	if n := len(g.events); n > 0 {
		head = g.events[n-1].Hash
	}
	e.Hash = e.ChainHash(head)
	g.events = append(g.events, e)
}

func (g *generator) create() {
	id := idAt(g.wall, g.random())
	tasks := map[string]bool{}
	for _, s := range g.steps {
		tasks[s.id.Task] = true
	}
	g.m = Model{
		Session: uuid(id), Short: "s" + hex.EncodeToString(id[13:]), State: session.Created,
		Steps: map[session.StepID]session.Status{}, Attempt: map[session.StepID]int{}, Ops: map[session.StepID]session.Status{}, Talks: map[session.StepID]*Talk{}, Held: map[uint64]session.StepID{},
		Files: map[string]string{}, Wrote: map[string]bool{},
	}
	g.add(session.SessionCreated, "user", session.SessionCreatedData{
		V: 1, Short: g.m.Short, Task: "Property", Workspace: "/workspace", Plan: session.BlobRef{Hash: hash("plan"), Bytes: 4},
		Tasks: len(tasks), Steps: len(g.steps), OnFailure: session.FailurePauses, Config: hash("config"), Program: "test",
	})
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// follows lists the states that may come after s. It repeats the rules of the program on
// purpose.
func follows(s session.State) []session.State {
	switch s {
	case session.Created:
		return []session.State{session.Planning, session.Paused, session.Failed, session.Cancelled}
	case session.Planning:
		return []session.State{session.AwaitingApproval, session.Executing, session.Paused, session.Failed, session.Cancelled}
	case session.AwaitingApproval:
		return []session.State{session.Executing, session.Planning, session.Paused, session.Failed, session.Cancelled}
	case session.Executing:
		return []session.State{session.AwaitingApproval, session.Paused, session.Completed, session.Failed, session.Cancelled}
	case session.Paused:
		return []session.State{session.Planning, session.AwaitingApproval, session.Executing, session.Failed, session.Cancelled}
	}
	return nil
}

func terminal(s session.State) bool { return len(follows(s)) == 0 }

// legal lists the possible next actions. There are none once the session is over.
func (g *generator) legal() []action {
	if terminal(g.m.State) {
		return nil
	}
	as := []action{{"change state", g.changeState}, {"acquire", g.acquire}}
	if g.m.Epoch == 0 {
		return as
	}
	as = append(as, action{"accept changes", g.acceptChanges}, action{"change inputs", g.changeInputs}, action{"grant powers", g.grantPowers}, action{"checkpoint", g.checkpoint})
	for _, s := range g.steps {
		as = append(as, g.legalFor(s)...)
	}
	done := slices.Contains(slices.Collect(maps.Values(g.m.Steps)), session.StepDone)
	for _, s := range g.steps {
		if !done && g.m.Steps[s.id] == session.InProgress {
			as = append(as, action{"adopt", func() { g.adopt(s.id) }})
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(g.m.Ops), func(a, b session.StepID) int { return strings.Compare(a.String(), b.String()) }) {
		as = append(as, g.legalForOperation(id)...)
	}
	for _, seq := range slices.Sorted(maps.Keys(g.m.Held)) {
		decide := action{"decide held", func() { g.decideHeld(seq) }}
		as = append(as, decide, decide, decide)
	}
	return as
}

func (g *generator) adopt(id session.StepID) {
	g.add(session.PlanAdopted, "acode", session.PlanAdoptedData{StepID: id, Plan: session.BlobRef{Hash: hash("adopted"), Bytes: 7}, Tasks: 4, Steps: len(g.steps) + 1})
}

// set records the status of a step or an operation.
func (g *generator) set(id session.StepID, status session.Status) {
	if id.Op != "" {
		g.m.Ops[id] = status
	} else {
		g.m.Steps[id] = status
	}
}

func (g *generator) legalForOperation(id session.StepID) []action {
	s := step{id: id, kind: session.KindRun}
	switch g.m.Ops[id] {
	case session.InProgress:
		if g.m.Steps[id.Of()] == session.StepUncertain && g.m.Talks[id.Of()] != nil {
			return nil // its conversation has no outcome yet
		}
		as := []action{{"complete " + id.String(), func() { g.complete(s) }}, {"fail " + id.String(), func() { g.fail(s) }}, {"lose " + id.String(), func() { g.lose(s) }}}
		if g.m.Steps[id.Of()] == session.InProgress {
			hold := action{"hold " + id.String(), func() { g.hold(id) }}
			as = append(as, hold, hold, hold)
		}
		return as
	case session.StepUncertain:
		if g.m.Talks[id.Of()] != nil {
			return nil
		}
		return []action{{"complete " + id.String(), func() { g.complete(s) }}, {"settle " + id.String(), func() { g.settle(id) }}}
	}
	if g.m.Talks[id.Of()] != nil {
		return nil // the next request removes it
	}
	return []action{{"settle " + id.String(), func() { g.settle(id) }}}
}

// call starts the next operation of a step in progress.
func (g *generator) call(s step) {
	g.m.Calls++
	id := s.id
	id.Op = fmt.Sprintf("n%d", g.m.Calls)
	g.start(step{id: id, kind: session.KindRun})
}

func (g *generator) settle(id session.StepID) {
	g.add(session.OperationsSettled, "acode", session.OperationsSettledData{StepID: id.Of(), Ops: []string{id.Op}})
	delete(g.m.Ops, id)
	delete(g.m.Attempt, id)
}

// hold records a change of a protected path that is put back.
func (g *generator) hold(id session.StepID) {
	g.add(session.ChangesHeld, "acode", session.ChangesHeldData{StepID: id, Held: []session.HeldChange{
		{Guarded: session.Guarded{Path: ".git/config", Kind: session.GuardFile, Hash: hash("evil")}, Change: session.FileModified}}})
	g.m.Held[uint64(len(g.events))] = id.Of()
}

func (g *generator) decideHeld(seq uint64) {
	g.add(session.HeldDecided, "user", session.HeldDecidedData{StepID: g.m.Held[seq], Seqs: []uint64{seq}, Answer: "dropped", By: "anna"})
	delete(g.m.Held, seq)
}

func (g *generator) legalFor(s step) []action {
	name := func(what string) string { return what + " " + s.id.String() }
	var as []action
	switch g.m.Steps[s.id] {
	case session.InProgress, session.StepUncertain:
		if s.kind == session.KindPrompt {
			if g.m.Steps[s.id] == session.InProgress {
				as = g.legalTalk(s)
			}
			if !g.busy(s.id) && !g.m.Talks[s.id].Asked {
				as = append(as, action{name("complete"), func() { g.complete(s) }}, action{name("fail"), func() { g.fail(s) }})
			}
			return as
		}
		as = append(as, action{name("complete"), func() { g.complete(s) }}, action{name("complete"), func() { g.complete(s) }},
			action{name("fail"), func() { g.fail(s) }}, action{name("lose"), func() { g.lose(s) }})
		if g.m.Steps[s.id] == session.InProgress {
			call := action{name("call"), func() { g.call(s) }}
			as = append(as, call, call, call)
		}
	case session.StepDone:
		return nil
	default:
		if g.m.State == session.Executing {
			as = append(as, action{name("start"), func() { g.start(s) }}, action{name("start"), func() { g.start(s) }})
		}
	}
	if s.kind == session.KindApprove {
		as = append(as, action{name("ask"), func() { g.ask(s) }})
		if g.asked[s.id] != "" {
			as = append(as, action{name("grant"), func() { g.grant(s) }}, action{name("deny"), func() { g.deny(s) }})
		}
	}
	return as
}

// changeState changes the state, rarely to an end, because a short history tests little.
func (g *generator) changeState() {
	all := follows(g.m.State)
	open := slices.DeleteFunc(slices.Clone(all), terminal)
	to := rapid.SampledFrom(open).Draw(g.t, "state")
	inProgress := slices.Contains(slices.AppendSeq(slices.Collect(maps.Values(g.m.Steps)), maps.Values(g.m.Ops)), session.InProgress)
	if rapid.IntRange(0, 9).Draw(g.t, "end") == 0 && !inProgress {
		to = rapid.SampledFrom(all).Draw(g.t, "any state")
	}
	d := session.StateChangedData{From: g.m.State, To: to}
	g.m.Left = ""
	if to == session.Paused {
		d.Reason, d.Detail, g.m.Left = session.ReasonUser, "drawn", g.m.State
	}
	g.add(session.StateChanged, "acode", d)
	g.m.State, g.m.Reason = to, d.Reason
}

func (g *generator) acquire() {
	g.m.Epoch++
	g.add(session.ExecutionAcquired, "acode", session.ExecutionAcquiredData{
		Device: "device", Host: "host", PID: 1 + int(g.m.Epoch), Workspace: "/workspace", Config: hash("config"),
	})
}

func (g *generator) acceptChanges() {
	g.add(session.ChangesAccepted, "user", session.ChangesAcceptedData{By: "person", Files: g.drawFiles(false)})
}

func (g *generator) changeInputs() {
	g.m.Inputs = hash(rapid.SampledFrom([]string{"inputs", "others"}).Draw(g.t, "inputs"))
	g.add(session.InputsChanged, "user", session.InputsChangedData{Inputs: session.BlobRef{Hash: g.m.Inputs, Bytes: 6}, Names: []string{"A"}})
}

func (g *generator) grantPowers() {
	g.add(session.PowersGranted, "user", session.PowersGrantedData{Sandbox: session.Unconfined, By: "flag"})
}

func (g *generator) checkpoint() {
	g.add(session.CheckpointCreated, "acode", session.CheckpointCreatedData{Why: "drawn"})
}

// key returns the idempotency key of the open attempt of s.
func (g *generator) key(s step) string {
	return session.KeyOf(g.m.Session, s.id, g.m.Attempt[s.id]).String()
}

func (g *generator) start(s step) {
	g.m.Attempt[s.id]++
	d := session.StepStartedData{StepID: s.id, Kind: s.kind, Key: g.key(s), Attempt: g.m.Attempt[s.id], Digest: hash(s.id.String())}
	if d.Attempt > 1 {
		d.By = "resume"
	}
	if s.kind == session.KindWrite {
		d.Files = g.drawTransitions()
		g.files[s.id] = d.Files
	}
	if s.id.Op != "" {
		d.Call = &session.Call{Tool: "run_command", Digest: d.Digest, Label: "Run make"}
	}
	g.add(s.id.Event(session.StepStarted), "acode", d)
	g.set(s.id, session.InProgress)
	if s.kind == session.KindPrompt {
		g.begin(s.id)
	}
}

func (g *generator) complete(s step) {
	d := session.StepCompletedData{StepID: s.id, Key: g.key(s), Attempt: g.m.Attempt[s.id]}
	switch s.kind {
	case session.KindRead:
		d.Files = g.drawFiles(false)
	case session.KindSearch:
		d.Matches = &session.Output{Text: "a:1: b", Bytes: 6}
	case session.KindWrite:
		d.Files = g.written(g.files[s.id])
	case session.KindRun:
		d.Command = &session.CommandResult{DurationUS: 7, Stdout: session.Output{Text: "v1\n", Bytes: 3}}
		d.Capture = &session.Capture{Name: "VERSION", Value: "v1"}
		d.Files = g.drawFiles(true)
	case session.KindApprove:
		d.By = "person"
	}
	g.add(s.id.Event(session.StepCompleted), "acode", d)
	g.set(s.id, session.StepDone)
	d.Key = ""
	g.over(s, session.StepCompleted, d)
	if s.id.Op == "" {
		g.m.Done++
	}
	delete(g.asked, s.id)
}

func (g *generator) fail(s step) {
	d := session.StepFailedData{StepID: s.id, Key: g.key(s), Attempt: g.m.Attempt[s.id], Code: session.ErrCommand, Message: "drawn"}
	if s.kind == session.KindRun {
		d.Command = &session.CommandResult{Exit: 1}
		d.Files = g.drawFiles(true)
	}
	g.add(s.id.Event(session.StepFailedEvent), "acode", d)
	g.set(s.id, session.StepFailed)
	d.Key = ""
	g.over(s, session.StepFailedEvent, d)
}

// over ends a conversation, or adds the outcome of a call to one.
func (g *generator) over(s step, typ session.EventType, data any) {
	if s.id.Op != "" {
		g.heard(s.id, s.id.Event(typ), data)
	} else if s.kind == session.KindPrompt {
		g.told(s.id)
	}
}

func (g *generator) lose(s step) {
	d := session.StepUnknownData{StepID: s.id, Key: g.key(s), Attempt: g.m.Attempt[s.id], Why: "drawn"}
	g.add(s.id.Event(session.StepUnknown), "acode", d)
	g.set(s.id, session.StepUncertain)
	d.Key = ""
	g.over(s, session.StepUnknown, d)
}

func (g *generator) ask(s step) {
	digest := hash(fmt.Sprint(s.id, len(g.events)))
	g.add(session.ApprovalRequested, "acode", session.ApprovalRequestedData{StepID: s.id, Question: "Go on?", Digest: digest})
	g.asked[s.id] = digest
	if g.m.Steps[s.id] == "" {
		g.m.Steps[s.id] = session.Pending
	}
}

func (g *generator) grant(s step) {
	g.add(session.ApprovalGranted, "user", session.ApprovalGrantedData{StepID: s.id, Digest: g.asked[s.id], By: "person", For: g.m.Epoch + 1})
	delete(g.asked, s.id)
}

func (g *generator) deny(s step) {
	g.add(session.ApprovalDenied, "user", session.ApprovalDeniedData{StepID: s.id, Digest: g.asked[s.id], By: "person", Reason: "no"})
	delete(g.asked, s.id)
}

// drawPaths draws different paths from a small set, so that steps share paths.
func (g *generator) drawPaths() []string {
	return rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "dir/c", "dir/ü"}), 1, 3, rapid.ID[string]).Draw(g.t, "paths")
}

func (g *generator) drawFiles(wrote bool) []session.FileState {
	var fs []session.FileState
	for _, p := range g.drawPaths() {
		content := rapid.SampledFrom([]string{"", "1", "22"}).Draw(g.t, "content")
		fs = append(fs, g.know(p, content, wrote))
	}
	return fs
}

// know records the state of a path. Empty content means that the path is absent.
func (g *generator) know(path, content string, wrote bool) session.FileState {
	f := session.FileState{Path: path, Wrote: wrote}
	if content != "" {
		f.Hash, f.Size, f.Mode, f.MTimeNS, f.Inode = hash(content), int64(len(content)), 0o644, g.wall*1000, 7
	}
	g.m.Files[path] = f.Hash
	g.m.Wrote[path] = g.m.Wrote[path] || wrote
	return f
}

func (g *generator) drawTransitions() []session.Transition {
	var ts []session.Transition
	for _, p := range g.drawPaths() {
		tr := session.Transition{Path: p, Pre: image(g.m.Files[p], 1), Post: image(hash("22"), 2)}
		tr.Kept = tr.Pre.Hash
		if rapid.Bool().Draw(g.t, "delete") {
			tr.Post = image("", 0)
		}
		ts = append(ts, tr)
	}
	return ts
}

func image(sum string, size int64) session.Image {
	if sum == "" {
		return session.Image{Kind: "absent"}
	}
	return session.Image{Kind: "file", Hash: sum, Size: size, Mode: 0o644}
}

// written returns the files after the given transitions.
func (g *generator) written(ts []session.Transition) []session.FileState {
	var fs []session.FileState
	for _, tr := range ts {
		content := "22"
		if tr.Post.Absent() {
			content = ""
		}
		fs = append(fs, g.know(tr.Path, content, true))
	}
	return fs
}
