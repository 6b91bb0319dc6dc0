package crash

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// ErrClosed means that the tracer has ended.
var ErrClosed = errors.New("crash: tracer is closed")

// Tracer starts programs and traces them and their descendants until the last one has
// ended. Its methods may be called from any goroutine. Runs take turns.
type Tracer struct {
	// running is held by Run.
	running  sync.Mutex
	requests chan func(*state)
	// done is closed when the thread of the tracer has ended.
	done chan struct{}
}

// NewTracer starts a tracer, which owns an operating system thread until Close.
func NewTracer() *Tracer {
	t := &Tracer{requests: make(chan func(*state)), done: make(chan struct{})}
	go t.findThread(func() {})
	return t
}

// findThread starts the loop on a thread without children. The loop waits only for
// children of its own thread, so os/exec keeps its own. But a goroutine may have started
// a process from this very thread before. While findThread looks for another thread, it
// holds this one.
func (t *Tracer) findThread(found func()) {
	runtime.LockOSThread()
	// The main thread inherits orphans.
	if unix.Gettid() != unix.Getpid() && !hasChildren() {
		found()
		t.loop()
		return
	}
	other := make(chan struct{})
	go t.findThread(func() { close(other); found() })
	<-other
	runtime.UnlockOSThread()
}

// hasChildren reports whether the calling thread has children, dead or alive. It reaps
// none.
func hasChildren() bool {
	const peek = unix.WEXITED | unix.WNOWAIT | unix.WNOHANG | unix.WALL | unix.WNOTHREAD
	return unix.Waitid(unix.P_ALL, 0, nil, peek, nil) != unix.ECHILD
}

// loop does all tracing, because ptrace requires one thread. It never unlocks that
// thread, which ends with it.
func (t *Tracer) loop() {
	defer close(t.done)
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	defer signal.Stop(children)

	s := newState()
	for {
		s.drain()
		s.answer()
		if s.closing && len(s.procs) == 0 {
			return
		}
		select {
		case <-children:
		case f := <-t.requests:
			f(s)
		}
	}
}

// ask runs f on the thread of the tracer and waits for it.
func (t *Tracer) ask(f func(*state)) error {
	ready := make(chan struct{})
	select {
	case t.requests <- func(s *state) { f(s); close(ready) }:
		<-ready
		return nil
	case <-t.done:
		return ErrClosed
	}
}

// Run starts a program and returns when its first process has ended. The remaining
// processes stay traced; Wait waits for them. From the start of this run on, calls of
// survivors of earlier runs count in it. When ctx ends, the tracer kills every traced
// process.
func (t *Tracer) Run(ctx context.Context, spec Spec) (Result, error) {
	t.running.Lock()
	defer t.running.Unlock()
	out, err := newOutput(spec)
	if err != nil {
		return Result{}, err
	}
	defer out.close()
	r, gate, err := t.start(spec, out)
	if err != nil {
		return Result{}, err
	}
	defer gate.Close()
	select {
	case <-r.ended:
	case <-ctx.Done():
		// A closed tracer has no process to kill.
		_ = t.ask((*state).killAll)
		<-r.ended
		return Result{}, fmt.Errorf("run %s: %w", spec.Argv[0], ctx.Err())
	}
	if err := out.deliver(spec); err != nil {
		return Result{}, err
	}
	return t.outcome(r, gate)
}

// outcome returns the result of a run whose root has ended.
func (t *Tracer) outcome(r *run, gate *os.File) (Result, error) {
	var res Result
	var began bool
	var fault error
	err := t.ask(func(*state) { res, began, fault = r.snapshot(), r.began, r.err })
	switch {
	// No other goroutine writes to the run any more.
	case errors.Is(err, ErrClosed):
		res, began, fault = r.snapshot(), r.began, r.err
	case err != nil:
		return res, err
	}
	if !began && fault == nil {
		b := make([]byte, 1024)
		// An empty read means that the launcher sent nothing.
		n, _ := gate.Read(b)
		fault = launchFault(b[:max(n, 0)])
	}
	return res, fault
}

// start makes the process of a run and starts the program under trace.
func (t *Tracer) start(spec Spec, out output) (*run, *os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make gate: %w", err)
	}
	gate, theirs := os.NewFile(uintptr(pair[0]), "gate"), os.NewFile(uintptr(pair[1]), "gate")
	defer theirs.Close()
	var r *run
	askErr := t.ask(func(s *state) { r, err = s.launch(spec, out, theirs) })
	if err = errors.Join(askErr, err); err != nil {
		_ = gate.Close()
		return nil, nil, err
	}
	// The read below then ends if the launcher dies.
	_ = theirs.Close()
	tid, err := launcherThread(gate)
	if err == nil {
		askErr = t.ask(func(s *state) { err = s.adoptRoot(r, tid) })
		err = errors.Join(askErr, err)
	}
	if err != nil {
		// A launcher that still lives reads the end and gives up.
		_ = gate.Close()
		<-r.ended
		return nil, nil, err
	}
	// The run notices a launcher that has ended.
	_, _ = gate.Write([]byte{1})
	return r, gate, nil
}

// launcherThread reads which thread will execute the program.
func launcherThread(gate *os.File) (int, error) {
	b := make([]byte, 1024)
	n, err := gate.Read(b)
	if err == nil && n == 8 {
		return int(binary.NativeEndian.Uint64(b)), nil
	}
	return 0, launchFault(b[:n])
}

// launchFault returns the reason why the launcher could not start the program, with its
// message.
func launchFault(words []byte) error {
	if len(words) == 0 {
		return errors.New("launcher ended early: does the harness call LauncherMain first?")
	}
	return fmt.Errorf("launch: %s", words)
}

// Wait returns the final result of the last run when no traced process is left. If ctx
// ends first, Wait kills no process.
func (t *Tracer) Wait(ctx context.Context) (Result, error) {
	idle := make(chan Result, 1)
	if err := t.ask(func(s *state) { s.waiters = append(s.waiters, idle) }); err != nil {
		return Result{}, err
	}
	select {
	case res := <-idle:
		return res, nil
	case <-ctx.Done():
		return Result{}, fmt.Errorf("wait for survivors: %w", ctx.Err())
	}
}

// Survivors returns the roles of the traced processes by pid.
func (t *Tracer) Survivors() (map[int]string, error) {
	alive := map[int]string{}
	err := t.ask(func(s *state) {
		for pid, p := range s.procs {
			if !p.killed {
				alive[pid] = p.role
			}
		}
	})
	return alive, err
}

// Kill ends the traced processes of a role and returns their pids.
func (t *Tracer) Kill(role string) ([]int, error) {
	var killed []int
	err := t.ask(func(s *state) {
		killed = s.kill(func(p *process) bool { return p.role == role })
	})
	return killed, err
}

// Close kills every process that is still traced and ends the tracer. It is safe to call
// twice.
func (t *Tracer) Close() error {
	// A closed tracer needs no work.
	_ = t.ask(func(s *state) {
		s.closing = true
		s.killAll()
	})
	<-t.done
	return nil
}
