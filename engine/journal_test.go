package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/acode-dev/acode/session"
)

const sessionID session.ID = "01890000-0000-7000-8000-000000000001"

// crash is the panic with which a world stops a process inside a port call.
type crash struct{}

// tester has the common methods of *testing.T and *rapid.T.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// world is everything that outlives a process: journal, workspace, supervisor. Its trace
// lists all events in order.
type world struct {
	t    tester
	plan *session.Plan

	mu       sync.Mutex
	trace    []string
	events   []session.Event
	sess     *session.Session
	clockUS  int64
	requests []session.Request
	lastID   int64
	// takeovers of the session that the process has not seen yet
	fences int
	// errors by call that are returned once
	fails map[string]error
	// errors by call that are returned each time
	refuses map[string]error
	// number of calls by name after which the call returns fault once
	nth   map[string]int
	fault error
	// how many drafts a commit has space for; 0 for any number
	most int
	// commands whose effect took place
	doneKeys map[string]bool
	// key of the command that ran last
	lastKey string
	// its environment
	lastEnv []string
	calls   int
	// the call that does not return; 0 for none
	crashAt int
	// the same by name, at the call number crashNth
	crashIn  string
	crashNth int
	killsToo bool
	// the effect of a command that dies with its supervisor took place
	happened bool
	// number of looks that still see processes of a command
	left int

	files map[string]string
	// modes of files that a command changed
	modes  map[string]uint32
	temp   map[string]bool
	blobs  map[string]string
	ledger []string
	// the output of the command with this name
	secret  string
	recs    map[string]session.CommandRecord
	out     map[string]string
	ends    map[string]chan struct{}
	onFence func()
	onRead  func()
	// called while a command runs
	during func(w *world, shell string)
}

func newWorld(t tester, p *session.Plan) *world {
	w := &world{
		t: t, plan: p, fails: map[string]error{}, refuses: map[string]error{}, files: map[string]string{}, temp: map[string]bool{},
		blobs: map[string]string{}, recs: map[string]session.CommandRecord{}, doneKeys: map[string]bool{},
		out: map[string]string{}, ends: map[string]chan struct{}{}, sess: &session.Session{},
	}
	w.add(session.Draft{Type: session.SessionCreated, Data: session.SessionCreatedData{
		V: 1, Short: "abc123", Task: p.Task, Workspace: "/ws", Tasks: len(p.Tasks), Steps: p.Steps(), OnFailure: p.OnFailure}})
	return w
}

// call counts a call to a port. It does not return from the call that crashes.
func (w *world) call(name string) error {
	w.reached(name)
	if w.nth[name] > 0 {
		if w.nth[name]--; w.nth[name] == 0 {
			return w.fault
		}
	}
	if err := w.fails[name]; err != nil {
		delete(w.fails, name)
		return err
	}
	return w.refuses[name]
}

// reached marks a point where the process may crash: a call, or a place inside one.
func (w *world) reached(name string) {
	if w.dies(name) {
		panic(crash{})
	}
}

func (w *world) dies(name string) bool {
	w.calls++
	if name == w.crashIn {
		w.crashNth--
	}
	return w.calls == w.crashAt || name == w.crashIn && w.crashNth == 0
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

// record returns the record of a command. Supervisor and person change it concurrently.
func (w *world) record(key string) (rec session.CommandRecord, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rec, ok = w.recs[key]
	return rec, ok
}

func (w *world) keep(rec session.CommandRecord) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.recs[rec.Key] = rec
}

func (w *world) amend(key string, change func(*session.CommandRecord)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rec := w.recs[key]
	change(&rec)
	w.recs[key] = rec
}

// find returns a key of a command that contains part.
func (w *world) find(part string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key := range w.recs {
		if strings.Contains(key, part) {
			return key
		}
	}
	return ""
}

// add builds the event of d as a store would and applies it.
func (w *world) add(d session.Draft) session.Event {
	w.t.Helper()
	payload, err := json.Marshal(d.Data)
	if err != nil {
		w.t.Fatalf("encode %s: %v", d.Type, err)
	}
	w.clockUS += 1000
	e := session.Event{Session: sessionID, Seq: uint64(len(w.events) + 1), TimeUS: w.clockUS, Type: d.Type, Actor: d.Actor, Epoch: w.sess.Epoch, Payload: payload}
	e.ID[14], e.ID[15] = byte(e.Seq>>8), byte(e.Seq)
	if e.Actor == "" {
		e.Actor = "acode"
	}
	if d.Type == session.ExecutionAcquired {
		e.Epoch++
	}
	e.Hash = e.ChainHash(w.sess.Head)
	if _, err := w.sess.Apply(e); err != nil {
		w.t.Fatalf("Append breaks the rules of a session: %s %s: %v\n%s", d.Type, payload, err, strings.Join(w.trace, "\n"))
	}
	w.mu.Lock() // others read while a question is open
	w.events = append(w.events, e)
	w.mu.Unlock()
	return e
}

func (w *world) Session() *session.Session { return w.sess }

func (w *world) Append(ctx context.Context, drafts ...session.Draft) ([]session.Event, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err := w.call("append"); err != nil {
		return nil, err
	}
	if w.fences > 0 {
		return nil, session.ErrFenced
	}
	if w.most > 0 && len(drafts) > w.most {
		return nil, errFull
	}
	words := make([]string, len(drafts))
	out := make([]session.Event, len(drafts))
	for i, d := range drafts {
		out[i], words[i] = w.add(d), word(d)
	}
	w.note("commit %s", strings.Join(words, " + "))
	w.reached("committed") // after the commit, before any caller learns of it
	return out, w.call("reply")
}

// word returns the text of a draft in the trace.
func word(d session.Draft) string {
	switch x := d.Data.(type) {
	case session.StepStartedData:
		return "started " + short(x.Key)
	case session.StepCompletedData:
		return "completed " + short(x.Key)
	case session.StepFailedData:
		return "failed " + short(x.Key)
	case session.StepUnknownData:
		return "unknown " + short(x.Key)
	case session.StateChangedData:
		return strings.TrimSuffix(string(x.To)+" "+string(x.Reason), " ")
	case session.ExecutionAcquiredData:
		return "acquired"
	case session.ApprovalRequestedData:
		return "asked " + x.StepID.String()
	case session.ApprovalGrantedData:
		return "granted " + x.StepID.String()
	case session.ApprovalDeniedData:
		return "denied " + x.StepID.String()
	}
	return string(d.Type)
}

// short returns a key without version and session.
func short(key string) string {
	if parts := strings.Split(key, ":"); len(parts) == 4 {
		return parts[2] + ":" + parts[3]
	}
	return key
}

func (w *world) Fence(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := w.call("fence"); err != nil {
		return err
	}
	w.note("fence")
	if w.onFence != nil {
		w.onFence()
	}
	if w.fences > 0 {
		return session.ErrFenced
	}
	return nil
}

func (w *world) Event(_ context.Context, seq uint64) (session.Event, error) {
	if err := w.call("event"); err != nil {
		return session.Event{}, err
	}
	if seq == 0 || seq > uint64(len(w.events)) {
		return session.Event{}, session.ErrUnknownID
	}
	return w.events[seq-1], nil
}

func (w *world) Events(ctx context.Context, after, last uint64, take func(session.Event) error) error {
	for seq := after + 1; seq <= last; seq++ {
		e, err := w.Event(ctx, seq)
		if err == nil {
			err = take(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Requests may be called while a command runs, so it is no point to crash at.
func (w *world) Requests(context.Context) ([]session.Request, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.refuses["requests"]; err != nil {
		return nil, err
	}
	return slices.Clone(w.requests), nil
}

// ask leaves all requests at once.
func (w *world) ask(requests ...session.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range requests {
		w.lastID++
		r.ID = w.lastID
		w.requests = append(w.requests, r)
	}
}

func (w *world) AppendAnswering(ctx context.Context, id int64, drafts ...session.Draft) ([]session.Event, error) {
	if err := w.call("answer"); err != nil {
		return nil, err
	}
	out, err := w.Append(ctx, drafts...)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = slices.DeleteFunc(w.requests, func(r session.Request) bool { return r.ID == id })
	return out, nil
}

func (w *world) Recover(context.Context) error {
	w.note("recover")
	return w.call("recover")
}

func (w *world) Stage(_ context.Context, r io.Reader, size int64) (session.BlobRef, error) {
	if err := w.call("stage"); err != nil {
		return session.BlobRef{}, err
	}
	b, err := io.ReadAll(r)
	if size < 0 {
		size = int64(len(b))
	}
	if err != nil || int64(len(b)) != size {
		w.t.Errorf("Stage: %d bytes of %d, %v", len(b), size, err)
	}
	w.note("stage %d bytes", size)
	h := hash(string(b))
	w.blobs[h] = string(b)
	return session.BlobRef{Hash: h, Bytes: size}, nil
}

func (w *world) StageMasked(ctx context.Context, r io.Reader, size int64) (session.BlobRef, error) {
	return w.Stage(ctx, r, size)
}

func (w *world) Open(_ context.Context, h string) (io.ReadCloser, error) {
	if err := w.call("open"); err != nil {
		return nil, err
	}
	b, ok := w.blobs[h]
	if !ok {
		return nil, session.ErrCorrupt // missing
	}
	return io.NopCloser(strings.NewReader(b)), nil
}
