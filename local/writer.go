package local

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/acode-dev/acode/session"
)

// Writer is the journal of the one session that a process executes, and its blobs. Its
// methods may be called from several goroutines. The Session that it returns changes with
// every Append.
type Writer struct {
	st   *Store
	no   int64
	sess *session.Session
	sums *digests
	// nil until the first commit
	head    *os.File
	pending []pendingBlob
	report  LoadReport
	// epoch, seq and head before the newest batch
	before session.Commit
	// if not nil, nothing may be written any more
	broken error
}

// NewSession holds the arguments of Create.
type NewSession struct {
	ID   session.ID
	Task string
	// Workspace is an absolute path.
	Workspace string
	Plan      *session.Plan
	// Inputs may be nil if none are recorded.
	Inputs *session.Inputs
	// PlanFile is an absolute path; empty if the plan is from no file.
	PlanFile string
	// PlanSum is the SHA-256 of that file in hex.
	PlanSum string
	// Config is the JSON of the configuration that starts the session.
	Config string
}

// Create begins a session in state planning. Its plan, SessionCreated and the first
// StateChanged are one commit. Create returns ErrCorrupt for a damaged store in which
// Load would later fail.
func (s *Store) Create(ctx context.Context, n NewSession) (*Writer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wr == nil {
		return nil, readOnly()
	}
	if err := s.wr.snapshot(ctx, func(q querier) error { return s.checkWritable(ctx, q) }); err != nil {
		return nil, err
	}
	plan, err := json.Marshal(n.Plan)
	if err != nil {
		return nil, &session.Error{Code: session.ErrInternal, Message: "the plan cannot be encoded", Cause: err}
	}
	s.used = true
	w := s.newWriter(n.ID)
	ref, err := w.stage(bytes.NewReader(plan), int64(len(plan)))
	if err != nil {
		return nil, err
	}
	inputs, err := w.stageInputs(n.Inputs)
	if err != nil {
		return nil, err
	}
	learnt, err := w.stageLearnt()
	if err != nil {
		return nil, err
	}
	short, err := s.newShort(ctx)
	if err != nil {
		return nil, err
	}
	created := session.SessionCreatedData{
		V: 1, Short: short, Task: n.Task, Workspace: n.Workspace, Plan: ref, Inputs: inputs, Learnt: learnt, PlanFile: n.PlanFile, PlanSum: n.PlanSum, Tasks: len(n.Plan.Tasks), Steps: n.Plan.Steps(),
		OnFailure: n.Plan.OnFailure, Config: n.Config, Program: s.opts.Version,
	}
	if inMemory(s.opts.Home) {
		w.report.Warnings = []string{"the store is in memory (tmpfs): the session is lost when the machine stops; use a store on a disk to keep it"}
	}
	_, err = w.append(ctx, 0, []session.Draft{
		{Type: session.SessionCreated, Data: created},
		{Type: session.StateChanged, Data: session.StateChangedData{From: session.Created, To: session.Planning}},
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// newWriter returns the writer of a session that does not exist yet.
func (s *Store) newWriter(id session.ID) *Writer {
	return &Writer{st: s, sess: &session.Session{ID: id}, sums: newDigests(s.keys, id)}
}

func readOnly() error {
	return &session.Error{Code: session.ErrReadOnly, Message: "the store was opened for reading only", Next: session.Words("open it for writing")}
}

// crockford is base32 without letters that look like digits.
const crockford = "0123456789abcdefghjkmnpqrstvwxyz"

const shortLength = 6

// newShort returns a short id that no session has. It never ends like a duration.
// Otherwise a flag with an optional value could take it, as in "acode resume 12345m
// --wait".
func (s *Store) newShort(ctx context.Context) (string, error) {
	for {
		b := make([]byte, shortLength)
		if _, err := rand.Read(b); err != nil {
			return "", fmt.Errorf("make short id: %w", err)
		}
		for i := range b {
			b[i] = crockford[b[i]&31]
		}
		if strings.IndexByte("hms", b[shortLength-1]) >= 0 {
			continue
		}
		var taken int
		if err := s.wr.queryRow(ctx, `SELECT count(*) FROM sessions WHERE short = ?`, []any{string(b)}, &taken); err != nil {
			return "", storeError("make short id", err)
		}
		if taken == 0 {
			return string(b), nil
		}
	}
}

// Session returns the state after the last Append. Callers must only read it.
func (w *Writer) Session() *session.Session { return w.sess }

// Plan reads the plan of the session.
func (w *Writer) Plan(ctx context.Context) (*session.Plan, error) {
	return decodeBlob[session.Plan]("plan", func() (io.ReadCloser, error) { return w.Open(ctx, w.sess.Plan.Hash) })
}

// Work reads the step of a call.
func (w *Writer) Work(ctx context.Context, ref session.BlobRef) (*session.Step, error) {
	return decodeBlob[session.Step]("call", func() (io.ReadCloser, error) { return w.Open(ctx, ref.Hash) })
}

// Report returns the checks of Load. After Create it has only warnings.
func (w *Writer) Report() LoadReport { return w.report }

// Close releases the writer's resources. The store stays open.
func (w *Writer) Close() error {
	w.st.mu.Lock()
	defer w.st.mu.Unlock()
	w.broken = errors.New("the writer is closed")
	if w.head == nil {
		return nil
	}
	err := w.head.Close()
	w.head = nil
	return err
}

func (w *Writer) usable(ctx context.Context) error {
	if w.broken != nil {
		return w.broken
	}
	if w.st.wr == nil {
		return readOnly()
	}
	return ctx.Err()
}

// Fence returns ErrFenced when another process took the session over.
func (w *Writer) Fence(ctx context.Context) error {
	w.st.mu.Lock()
	defer w.st.mu.Unlock()
	if err := w.usable(ctx); err != nil {
		return err
	}
	var epoch uint64
	if err := w.st.wr.queryRow(ctx, `SELECT epoch FROM sessions WHERE no = ?`, []any{w.no}, &epoch); err != nil {
		return storeError("read epoch", err)
	}
	if epoch != w.sess.Epoch {
		return fenced(w.sess, epoch, w.sess.Epoch)
	}
	return nil
}

// Current returns ErrFenced unless the session is as this writer left it. Another process
// may have written without an epoch of its own, such as an approval.
func (w *Writer) Current(ctx context.Context) error {
	w.st.mu.Lock()
	defer w.st.mu.Unlock()
	if err := w.usable(ctx); err != nil {
		return err
	}
	var last int64
	var epoch, seq uint64
	var head session.Hash
	if err := w.st.wr.queryRow(ctx, readFence, []any{w.no}, &last, &epoch, &seq, &head); err != nil {
		return storeError("read session", err)
	}
	if s := w.sess; epoch != s.Epoch || seq != s.LastSeq || head != s.Head {
		return fenced(s, epoch, s.Epoch)
	}
	return nil
}

func fenced(s *session.Session, theirs, ours uint64) error {
	return &session.Error{Code: session.ErrFenced, Message: fmt.Sprintf("another process took the session over: its epoch is %d, ours was %d; nothing was written", theirs, ours), Next: session.Do(session.MoveStatus, s.Short)}
}

// Event reads one event of the session.
func (w *Writer) Event(ctx context.Context, seq uint64) (session.Event, error) {
	w.st.mu.Lock()
	defer w.st.mu.Unlock()
	return w.event(ctx, seq)
}

func (w *Writer) event(ctx context.Context, seq uint64) (e session.Event, err error) {
	err = w.read(ctx, func(q querier) error {
		events, err := readEvents(ctx, q, w.no, w.sess.ID, seq-1, 1)
		if err != nil {
			return err
		}
		if len(events) == 0 || events[0].Seq != seq {
			return &session.Error{Code: session.ErrUnknownID, Message: fmt.Sprintf("the session has no event %d", seq), Next: session.Do(session.MoveHistory, w.sess.Short)}
		}
		e = events[0]
		return w.st.expand(ctx, q, &e)
	})
	return e, err
}

// mostRead is how many events are read at once.
const mostRead = 256

// Events passes the events after one seq, up to another, to take, in their order.
func (w *Writer) Events(ctx context.Context, after, last uint64, take func(session.Event) error) error {
	for after < last {
		batch, err := w.events(ctx, after, int(min(mostRead, last-after)))
		if err != nil || len(batch) == 0 {
			return err
		}
		for _, e := range batch {
			if err := take(e); err != nil {
				return err
			}
			after = e.Seq
		}
	}
	return nil
}

func (w *Writer) events(ctx context.Context, after uint64, most int) (batch []session.Event, err error) {
	w.st.mu.Lock()
	defer w.st.mu.Unlock()
	err = w.read(ctx, func(q querier) error {
		if batch, err = readEvents(ctx, q, w.no, w.sess.ID, after, most); err != nil {
			return err
		}
		for i := range batch {
			if err := w.st.expand(ctx, q, &batch[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return batch, err
}

// read reads through the connection that writes, so that a resume opens no second one.
func (w *Writer) read(ctx context.Context, f func(q querier) error) error {
	if w.st.wr == nil {
		return w.st.read(ctx, f)
	}
	return f(w.st.wr.handle)
}

// Warm begins to sync the log of an earlier process in the background. Otherwise the
// first commit waits for it. That commit returns any error.
func (w *Writer) Warm() {
	go func() {
		w.st.mu.Lock()
		defer w.st.mu.Unlock()
		if w.st.wr != nil {
			_ = w.st.wr.restartOnce(context.Background())
		}
	}()
}
