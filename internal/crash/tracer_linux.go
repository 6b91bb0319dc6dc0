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

// Tracer starts programs and traces them, and what they start, until the last one has
// ended. Its methods may be called from any goroutine; runs take turns.
type Tracer struct {
	// held by Run
	running  sync.Mutex
	requests chan func(*state)
	// closed when the thread of the tracer has ended
	done chan struct{}
}

// NewTracer starts a tracer, which owns an operating system thread until Close.
func NewTracer() *Tracer {
	t := &Tracer{requests: make(chan func(*state)), done: make(chan struct{})}
	go t.settle(func() {})
	return t
}

// settle begins the loop on a thread that has no children. Only children of its own
// thread are waited for, so that os/exec keeps its own; but some goroutine may have
// started one from this very thread before. While another thread is looked for, this one
// is held.
func (t *Tracer) settle(found func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() && !hasChildren() { // the main thread inherits orphans
		found()
		t.loop()
		return
	}
	other := make(chan struct{})
	go t.settle(func() { close(other); found() })
	<-other
	runtime.UnlockOSThread()
}

// hasChildren reports whether the calling thread has any, dead or alive, and takes none
// away.
func hasChildren() bool {
	const peek = unix.WEXITED | unix.WNOWAIT | unix.WNOHANG | unix.WALL | unix.WNOTHREAD
	return unix.Waitid(unix.P_ALL, 0, nil, peek, nil) != unix.ECHILD
}

// loop is the only place that traces: ptrace obeys one thread. It never unlocks that
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

// ask has f carried out by the thread of the tracer and waits for it.
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

// Run starts a program and returns when its first process has ended. What that process
// leaves behind stays traced; Wait waits for it. Calls of survivors of earlier runs count
// in this run from its start on. When ctx ends, every traced process is killed.
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
		_ = t.ask((*state).killAll) // closed: nothing is left to kill
		<-r.ended
		return Result{}, fmt.Errorf("run %s: %w", spec.Argv[0], ctx.Err())
	}
	if err := out.deliver(spec); err != nil {
		return Result{}, err
	}
	return t.outcome(r, gate)
}

// outcome gives what is known of a run whose root has ended.
func (t *Tracer) outcome(r *run, gate *os.File) (Result, error) {
	var res Result
	var began bool
	var fault error
	err := t.ask(func(*state) { res, began, fault = r.snapshot(), r.began, r.err })
	switch {
	case errors.Is(err, ErrClosed): // nobody else writes to the run any more
		res, began, fault = r.snapshot(), r.began, r.err
	case err != nil:
		return res, err
	}
	if !began && fault == nil {
		b := make([]byte, 1024)
		n, _ := gate.Read(b) // nothing read means nothing said
		fault = launchFault(b[:max(n, 0)])
	}
	return res, fault
}

// start makes the process of a run and lets the program begin under trace.
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
	_ = theirs.Close() // so that a launcher that dies ends the read below
	tid, err := launcherThread(gate)
	if err == nil {
		askErr = t.ask(func(s *state) { err = s.adoptRoot(r, tid) })
		err = errors.Join(askErr, err)
	}
	if err != nil {
		_ = gate.Close() // the launcher, if it lives, reads the end and gives up
		<-r.ended
		return nil, nil, err
	}
	_, _ = gate.Write([]byte{1}) // a launcher that has ended will be missed by its run
	return r, gate, nil
}

// launcherThread reads which thread is going to execute the program.
func launcherThread(gate *os.File) (int, error) {
	b := make([]byte, 1024)
	n, err := gate.Read(b)
	if err == nil && n == 8 {
		return int(binary.NativeEndian.Uint64(b)), nil
	}
	return 0, launchFault(b[:n])
}

// launchFault says why the launcher could not start the program, with the words it left.
func launchFault(words []byte) error {
	if len(words) == 0 {
		return errors.New("launcher ended early: does the harness call LauncherMain first?")
	}
	return fmt.Errorf("launch: %s", words)
}

// Wait returns when no traced process is left, with the final result of the last run.
// When ctx ends first it kills nobody.
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

// Survivors gives the roles of the processes that are traced now, by pid.
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

// Kill ends the traced processes of a role and says which ones those were.
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
	// closed already: nothing to do
	_ = t.ask(func(s *state) {
		s.closing = true
		s.killAll()
	})
	<-t.done
	return nil
}
