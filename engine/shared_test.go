package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/session"
)

// errDead is the error of every call after a process with several branches was killed.
var errDead = errors.New("the process was killed")

// shared lets several branches use a world: one call at a time, each after a random
// delay. It runs in a bubble of synctest, where a delay costs nothing. It can kill its
// process at a call; from then on no call does anything.
type shared struct {
	w  *world
	mu sync.Mutex

	// nil for no delays
	chance *rand.Rand
	// the call that kills; 0 for none
	killAt int
	// the killing call is still carried out
	after bool
	calls int
	dead  bool
	// duration of a commit
	commit time.Duration
	// duration of a fence check
	fence time.Duration
	// the journal refuses receipts of this step
	refuse string
	// number of refusals
	tried int
}

// pause waits for a random time, without a lock of the engine.
func (s *shared) pause() {
	s.mu.Lock()
	var d time.Duration
	if s.chance != nil {
		d = time.Duration(s.chance.IntN(20)) * time.Millisecond
	}
	s.mu.Unlock()
	time.Sleep(d)
}

// once makes a call, unless the process is dead.
func once[R any](s *shared, do func() (R, error)) (out R, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return out, errDead
	}
	s.calls++
	if s.calls == s.killAt {
		s.dead = true
		if s.after {
			_, _ = do()
		}
		return out, errDead
	}
	return do()
}

func (s *shared) do(f func() error) error {
	_, err := once(s, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// Journal and blobs.

func (s *shared) Session() *session.Session { return s.w.sess }

func (s *shared) Append(ctx context.Context, drafts ...session.Draft) ([]session.Event, error) {
	time.Sleep(s.commit)
	return once(s, func() ([]session.Event, error) {
		for _, d := range drafts {
			if r, ok := d.Data.(session.StepCompletedData); ok && r.StepID.String() == s.refuse {
				s.tried++
				return nil, &session.Error{Code: session.ErrConflict, Message: "refused"}
			}
		}
		return s.w.Append(ctx, drafts...)
	})
}

func (s *shared) AppendAnswering(ctx context.Context, id int64, drafts ...session.Draft) ([]session.Event, error) {
	return once(s, func() ([]session.Event, error) { return s.w.AppendAnswering(ctx, id, drafts...) })
}

func (s *shared) Fence(ctx context.Context) error {
	time.Sleep(s.fence)
	return s.do(func() error { return s.w.Fence(ctx) })
}

func (s *shared) Event(ctx context.Context, seq uint64) (session.Event, error) {
	return once(s, func() (session.Event, error) { return s.w.Event(ctx, seq) })
}

func (s *shared) Events(ctx context.Context, after, last uint64, take func(session.Event) error) error {
	return s.w.Events(ctx, after, last, take)
}

func (s *shared) Requests(ctx context.Context) ([]session.Request, error) { return s.w.Requests(ctx) }

func (s *shared) Recover(ctx context.Context) error {
	return s.do(func() error { return s.w.Recover(ctx) })
}

func (s *shared) Stage(ctx context.Context, r io.Reader, size int64) (session.BlobRef, error) {
	return once(s, func() (session.BlobRef, error) { return s.w.Stage(ctx, r, size) })
}

func (s *shared) StageMasked(ctx context.Context, r io.Reader, size int64) (session.BlobRef, error) {
	return once(s, func() (session.BlobRef, error) { return s.w.StageMasked(ctx, r, size) })
}

func (s *shared) Open(ctx context.Context, h string) (io.ReadCloser, error) {
	return once(s, func() (io.ReadCloser, error) { return s.w.Open(ctx, h) })
}

// sharedFiles are the files of a shared world.
type sharedFiles struct {
	engine.Guarding

	s *shared
	f *workspace
}

func (f sharedFiles) Read(ctx context.Context, r session.Read) ([]session.FileState, error) {
	f.s.pause()
	return once(f.s, func() ([]session.FileState, error) { return f.f.Read(ctx, r) })
}

func (f sharedFiles) Search(ctx context.Context, q session.Search) (matches string, cut bool, files []session.FileState, err error) {
	f.s.pause()
	err = f.s.do(func() error {
		matches, cut, files, err = f.f.Search(ctx, q)
		return err
	})
	return matches, cut, files, err
}

func (f sharedFiles) Size(path string) int64 {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	return f.f.Size(path)
}

func (f sharedFiles) Prepare(ctx context.Context, key string, changes []session.Change) ([]session.Transition, error) {
	f.s.pause()
	return once(f.s, func() ([]session.Transition, error) { return f.f.Prepare(ctx, key, changes) })
}

func (f sharedFiles) Image(path, hash string) (io.Reader, error) {
	return once(f.s, func() (io.Reader, error) { return f.f.Image(path, hash) })
}

func (f sharedFiles) Apply(ctx context.Context, key string) ([]session.FileState, error) {
	f.s.pause()
	return once(f.s, func() ([]session.FileState, error) { return f.f.apply(ctx, key) })
}

func (f sharedFiles) Discard(key string) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	f.f.Discard(key)
}

func (f sharedFiles) Inspect(ctx context.Context, key string, ts []session.Transition) (p session.Progress, foreign []session.FileState, err error) {
	err = f.s.do(func() error {
		p, foreign, err = f.f.Inspect(ctx, key, ts)
		return err
	})
	return p, foreign, err
}

func (f sharedFiles) Rollback(ctx context.Context, key string, ts []session.Transition, overwrite []session.FileState, pre func(string) (io.ReadCloser, error)) error {
	// the lock is held
	kept := func(hash string) (io.ReadCloser, error) { return f.s.w.Open(ctx, hash) }
	return f.s.do(func() error { return f.f.Rollback(ctx, key, ts, overwrite, kept) })
}

func (f sharedFiles) Tidy(ctx context.Context, key string, ts []session.Transition) error {
	return f.s.do(func() error { return f.f.Tidy(ctx, key, ts) })
}

func (f sharedFiles) InPlace() error { return f.s.do(f.f.InPlace) }

func (f sharedFiles) Stat(ctx context.Context, known []session.FileState) ([]session.FileState, error) {
	f.s.pause()
	return once(f.s, func() ([]session.FileState, error) { return f.f.Stat(ctx, known) })
}

// apply is Apply for one change of the world. Others may have changed other files.
func (f *workspace) apply(ctx context.Context, key string) ([]session.FileState, error) {
	p := f.prepared[key]
	now := map[string]string{}
	for path, content := range f.w.files {
		now[path] = content
	}
	for _, t := range p.ts {
		delete(now, t.Path)
		if c, ok := p.after[t.Path]; ok {
			now[t.Path] = c
		}
	}
	p.after = now
	f.prepared[key] = p
	return f.Apply(ctx, key)
}

// sharedCommands are the commands of a shared world. Those in hang run until they are
// ended.
type sharedCommands struct {
	s *shared
	supervisor
}

func (c sharedCommands) Run(ctx context.Context, req session.CommandRequest) (session.CommandRecord, error) {
	if strings.HasPrefix(req.Argv[len(req.Argv)-1], "hang") {
		rec, known := c.w.record(req.Key)
		err := c.s.do(func() error {
			if !known {
				c.w.note("effect %s", short(req.Key))
			}
			return nil
		})
		if err != nil || known && rec.State != session.CommandRunning {
			return rec, err
		}
		if !known {
			rec = session.CommandRecord{Key: req.Key, State: session.CommandFinished, Epoch: req.Epoch, StartedUS: 10, EndedUS: 30}
		}
		return c.hang(ctx, rec)
	}
	_, known := c.w.record(req.Key)
	if !known {
		// claimed: from here on it runs even if the process dies
		if err := c.s.do(func() error {
			rec, err := c.supervisor.Run(context.WithoutCancel(ctx), req)
			if err == nil {
				c.w.keep(rec)
			}
			return err
		}); err != nil {
			return session.CommandRecord{}, err
		}
	}
	c.s.pause()
	if err := ctx.Err(); err != nil {
		return session.CommandRecord{}, context.Cause(ctx)
	}
	return once(c.s, func() (session.CommandRecord, error) {
		rec, _ := c.w.record(req.Key)
		return rec, nil
	})
}

func (c sharedCommands) Terminate(ctx context.Context, key string) error {
	return c.s.do(func() error { return c.supervisor.Terminate(ctx, key) })
}

func (c sharedCommands) Wait(ctx context.Context, key string) (session.CommandRecord, error) {
	return once(c.s, func() (session.CommandRecord, error) { return c.supervisor.Wait(ctx, key) })
}

func (c sharedCommands) Output(key string) (stdout, stderr io.ReadCloser, err error) {
	err = c.s.do(func() error {
		stdout, stderr, err = c.supervisor.Output(key)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return lockedOutput{c.s, stdout}, stderr, nil
}

type lockedOutput struct {
	s *shared
	io.ReadCloser
}

func (o lockedOutput) Read(p []byte) (int, error) {
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	return o.ReadCloser.Read(p)
}

func (c sharedCommands) Forget(key string) error {
	return c.s.do(func() error { return c.supervisor.Forget(key) })
}

// apart checks over the whole history that no two intents were open on one path.
func (w *world) apart() {
	w.t.Helper()
	open := map[string]session.StepID{}
	for _, e := range w.events {
		switch e.Type {
		case session.StepStarted:
			var d session.StepStartedData
			if err := e.Decode(&d); err != nil {
				w.t.Fatalf("decode: %v", err)
			}
			for _, f := range d.Files {
				if by, ok := open[f.Path]; ok && by != d.StepID {
					w.t.Errorf("seq %d: %s has an intent on %s, as %s has", e.Seq, d.StepID, f.Path, by)
				}
				open[f.Path] = d.StepID
			}
		case session.StepCompleted, session.StepFailedEvent:
			// the names are the same
			var d session.StepFailedData
			if err := e.Decode(&d); err != nil {
				w.t.Fatalf("decode: %v", err)
			}
			for path, by := range open {
				if by == d.StepID {
					delete(open, path)
				}
			}
		}
	}
}

// lawfulBeside is lawful for several branches: the fence was checked between intent and
// effect, and shown results were durable.
func (w *world) lawfulBeside() {
	w.t.Helper()
	durable := map[string]int{}
	fence := -1
	for i, line := range w.trace {
		words := strings.Fields(line)
		switch words[0] {
		case "commit":
			for _, d := range strings.Split(strings.TrimPrefix(line, "commit "), " + ") {
				durable[d] = i
			}
		case "fence":
			fence = i
		case "effect":
			at, ok := durable["started "+words[1]]
			if !ok {
				w.t.Errorf("E1: line %d, %q before its intent is durable", i, line)
			} else if fence < at {
				w.t.Errorf("E3: line %d, %q with no look at the fence since its intent", i, line)
			}
		case "notice":
			verb := map[string]string{"completed": "completed", "failed": "failed", "uncertain": "unknown", "asking": "asked"}[words[1]]
			if verb != "" && !slices.ContainsFunc(w.trace[:i], func(l string) bool {
				return strings.HasPrefix(l, "commit") && strings.Contains(l, verb+" "+words[2])
			}) {
				w.t.Errorf("E2: line %d, %q before it is durable", i, line)
			}
		}
	}
	w.apart()
}

// beside returns a process that executes up to n steps at once, for at most a minute.
// seed determines how long each call takes; with 0 no call waits.
func (w *world) beside(n int, seed uint64) *process {
	p := w.process()
	p.limit = time.Minute
	p.parallel, p.shared = n, &shared{w: w}
	if seed > 0 {
		p.shared.chance = rand.New(rand.NewPCG(seed, 1))
	}
	return p
}

// traced returns the trace so far.
func (w *world) traced() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.trace)
}

// shows waits until the trace has the line.
func (w *world) shows(line string) error {
	for range 20_000 {
		if slices.Contains(w.traced(), line) {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("no %q in the trace", line)
}

// allRun waits until the commands of these steps run.
func (w *world) allRun(steps ...string) error {
	for range 20_000 {
		n := 0
		for _, step := range steps {
			if rec, ok := w.record(w.find(step + "/main")); ok && rec.State == session.CommandRunning {
				n++
			}
		}
		if n == len(steps) {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("not all of %v run", steps)
}

// claims checks that the receipt of a step names only one path.
func (w *world) claims(step, path string) {
	w.t.Helper()
	for _, e := range w.events {
		var d session.StepCompletedData
		if e.Type == session.StepCompleted && e.Decode(&d) == nil && d.StepID.String() == step {
			if len(d.Files) != 1 || d.Files[0].Path != path {
				w.t.Errorf("the receipt of %s names %v, want %s alone", step, d.Files, path)
			}
			return
		}
	}
	w.t.Errorf("%s has no receipt", step)
}
