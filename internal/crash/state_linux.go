package crash

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// state is used only by the thread of a tracer.
type state struct {
	procs   map[int]*process
	threads map[int]*thread
	table   map[uint64]shape
	// run is the newest run. All calls count there.
	run     *run
	runs    int
	tick    uint64
	closing bool
	waiters []chan Result
}

// process is a traced process. A forked process has its parent's role until it executes a
// program.
type process struct {
	pid int
	// owner is the process that forked it, until it executes its own program.
	owner *process
	// parent is the role of the process that forked it.
	parent string
	role   string
	root   bool
	// launching means that the process is still the launcher.
	launching bool
	killed    bool
	// run is the run whose root the process is, or nil.
	run *run
}

// thread is a traced thread and its current call.
type thread struct {
	tid  int
	proc *process
	call *Call
	// actor is the process that makes the call. It differs from proc before an exec.
	actor *process
	nr    uint64
	args  [6]uint64
	// strike means to kill at the exit of the call.
	strike bool
	// errno is the result to report for a skipped call, or 0.
	errno syscall.Errno
	// again is a call that a signal interrupted and the kernel will restart.
	again *Call
}

func newState() *state {
	return &state{procs: map[int]*process{}, threads: map[int]*thread{}, table: callTable()}
}

// actor returns the process whose program runs in p. Before its first exec this is the
// process that forked p.
func (p *process) actor() *process {
	for p.owner != nil {
		p = p.owner
	}
	return p
}

// fault keeps the first error of the tracer for the end of the run.
func (s *state) fault(err error) {
	if err != nil && !errors.Is(err, unix.ESRCH) && s.run != nil && s.run.err == nil {
		s.run.err = err
	}
}

// drain handles every waiting stop and end.
func (s *state) drain() {
	for {
		var ws unix.WaitStatus
		tid, err := unix.Wait4(-1, &ws, unix.WALL|unix.WNOTHREAD|unix.WNOHANG, nil)
		switch {
		case err == unix.EINTR:
		// No child exists, or none has changed.
		case err != nil || tid <= 0:
			return
		case ws.Exited() || ws.Signaled():
			s.ended(tid, ws)
		case ws.Stopped():
			s.stopped(tid, ws)
		}
	}
}

// answer notifies the waiters once the last process has ended.
func (s *state) answer() {
	if len(s.procs) > 0 {
		return
	}
	for _, w := range s.waiters {
		var res Result
		if s.run != nil {
			res = s.run.snapshot()
		}
		w <- res
	}
	s.waiters = nil
}

func (s *state) stopped(tid int, ws unix.WaitStatus) {
	t := s.threads[tid]
	if t == nil {
		t = s.meet(tid)
	}
	switch sig, event := ws.StopSignal(), int(uint32(ws)>>16); {
	case event == unix.PTRACE_EVENT_SECCOMP:
		s.enter(t)
	case event == unix.PTRACE_EVENT_EXEC:
		s.executed(tid)
	case event == unix.PTRACE_EVENT_STOP && sig != unix.SIGTRAP:
		listen(tid)
	case event != 0:
		t.resume(0)
	case sig == syscallStop:
		s.leave(t)
	default:
		t.resume(int(sig))
	}
}

// resume continues a thread. The thread runs to the exit of its call, or to the next stop
// of the filter if it is in no call.
func (t *thread) resume(sig int) {
	if t.call != nil {
		// If the thread is gone, its end will be reported.
		_ = unix.PtraceSyscall(t.tid, sig)
		return
	}
	// The same applies here.
	_ = unix.PtraceCont(t.tid, sig)
}

// meet registers a thread or process at its first stop.
func (s *state) meet(tid int) *thread {
	tgid, ppid := tracee(tid).family()
	if tgid == 0 {
		// The thread died in this stop.
		tgid = tid
	}
	t := &thread{tid: tid, proc: s.procs[tgid]}
	s.threads[tid] = t
	if t.proc != nil {
		return t
	}
	p := &process{pid: tgid, owner: s.procs[ppid]}
	s.procs[tgid], t.proc = p, p
	if p.owner != nil {
		p.role, p.parent = p.owner.role, p.owner.role
		return t
	}
	p.role = s.run.spec.Role(Process{PID: tgid, Argv: tracee(tgid).argvNow()})
	return t
}

// executed records that a process now runs another program. The thread that called exec
// has become the leader, and the other threads are gone without notice.
func (s *state) executed(pid int) {
	p := s.procs[pid]
	former, err := unix.PtraceGetEventMsg(pid)
	if err != nil || p == nil {
		s.fault(err)
		return
	}
	t := s.threads[int(former)]
	if t == nil {
		t = &thread{proc: p}
	}
	for tid, other := range s.threads {
		if other.proc == p {
			delete(s.threads, tid)
			if other != t {
				s.abandon(other)
			}
		}
	}
	t.tid = pid
	s.threads[pid] = t
	p.role = s.run.spec.Role(Process{PID: pid, Argv: tracee(pid).argvNow(), Root: p.root, Parent: p.parent})
	p.owner = nil
	if p.launching {
		p.launching, p.run.began = false, true
	}
	t.resume(0)
}

// ended removes a thread and, with the leader, its process.
func (s *state) ended(tid int, ws unix.WaitStatus) {
	if t := s.threads[tid]; t != nil {
		s.abandon(t)
		delete(s.threads, tid)
	}
	p := s.procs[tid]
	if p == nil {
		return
	}
	delete(s.procs, tid)
	p.killed = true
	if r := p.run; r != nil {
		r.result.ExitCode = ws.ExitStatus()
		if ws.Signaled() {
			r.result.Signal = ws.Signal()
		}
		close(r.ended)
	}
}

// abandon records the call in which a thread died.
func (s *state) abandon(t *thread) {
	if t.call == nil {
		return
	}
	if t.call.Ending == "" {
		t.call.Ending = Interrupted
	}
	s.record(t)
}

// record passes a finished call to Record.
func (s *state) record(t *thread) {
	c := t.call
	t.call = nil
	s.tick++
	c.End = s.tick
	if s.run.spec.Record != nil {
		s.run.spec.Record(*c)
	}
}

// enter handles a thread at the entry of a call.
func (s *state) enter(t *thread) {
	if t.proc.launching || t.proc.killed {
		t.resume(0)
		return
	}
	info, err := readSyscall(t.tid)
	if err != nil {
		s.fault(err)
		t.resume(0)
		return
	}
	if t.again != nil && t.nr == info.nr && t.args == info.args {
		t.call, t.again = t.again, nil
		t.resume(0)
		return
	}
	t.again = nil
	sh := s.table[info.nr]
	if sh.args == nil {
		t.resume(0)
		return
	}
	c, ok := s.run.roots.describe(tracee(t.tid), sh, info.args)
	if !ok {
		t.resume(0)
		return
	}
	t.call, t.nr, t.args, t.actor = &c, info.nr, info.args, t.proc.actor()
	s.count(t)
	s.atEntry(t)
}

// count numbers the call of t within its role.
func (s *state) count(t *thread) {
	s.tick++
	c := t.call
	c.Begin, c.Run, c.Role, c.PID = s.tick, s.run.number, t.proc.role, t.proc.pid
	if c.Kind == KindAck {
		return
	}
	s.run.result.Calls[c.Role]++
	c.N = s.run.result.Calls[c.Role]
}

// atEntry kills at the point's call. It lets the call happen unless the point prevents
// it.
func (s *state) atEntry(t *thread) {
	r, c := s.run, t.call
	if !r.reached(*c) {
		t.resume(0)
		return
	}
	if !r.result.Struck {
		r.result.Struck, r.result.At = true, *c
	}
	switch r.spec.At.When {
	case Fail:
		s.fault(skipCall(t.tid))
		t.errno = r.spec.At.Errno
		t.resume(0)
	case Before:
		s.strike(t)
		if t.proc.killed {
			// The kernel skips a call when its thread must die.
			c.Ending = Prevented
			return
		}
		t.resume(0)
	case Inside:
		half := c.Kind == KindWrite && t.args[2] > 1
		if half {
			s.fault(setThird(t.tid, t.args[2]/2))
			t.strike = true
		}
		t.resume(0)
		if !half {
			s.strike(t)
		}
	default:
		t.strike = true
		t.resume(0)
	}
}

// reached reports whether the run's point is at c.
func (r *run) reached(c Call) bool {
	at := r.spec.At
	if at.N == 0 || c.N == 0 || c.Role != at.Role || r.spec.Counts != nil && !r.spec.Counts(c) {
		return false
	}
	r.met++
	n := c.N
	if r.spec.Counts != nil {
		n = r.met
	}
	if at.When == Fail && at.Lasting {
		return n >= at.N
	}
	return n == at.N && !r.result.Struck
}

// leave handles a thread at the exit of a call.
func (s *state) leave(t *thread) {
	if t.call == nil {
		t.resume(0)
		return
	}
	info, err := readSyscall(t.tid)
	if err != nil {
		s.fault(err)
		t.resume(0)
		return
	}
	ret := int64(info.nr)
	if t.errno != 0 {
		ret, t.errno = -int64(t.errno), 0
		s.fault(setResult(t.tid, ret))
	}
	if restarts(ret) && !t.strike {
		t.again, t.call = t.call, nil
		t.resume(0)
		return
	}
	t.call.Ret, t.call.Ending = ret, Returned
	if t.proc.killed {
		t.call.Ending = Interrupted
	}
	s.fault(complete(t.call))
	if t.strike {
		t.strike = false
		s.strike(t)
		if t.proc.killed {
			// The program never saw the result.
			t.call.Ending = Interrupted
		}
	}
	s.record(t)
	t.resume(0)
}

// strike kills the victims of the run's point, which t has reached. A process that is
// about to start a program dies with the process on whose behalf it acts.
func (s *state) strike(t *thread) {
	victim := s.run.victim(t)
	s.run.result.Killed = s.kill(func(p *process) bool {
		return victim(p) || p == t.proc && p.owner != nil && victim(t.actor)
	})
}

// victim returns a test for the processes that the run's point kills at a call of t.
func (r *run) victim(t *thread) func(*process) bool {
	inGroup := func(p *process) bool {
		g, err := unix.Getpgid(p.pid)
		// The root leads its own group.
		return err == nil && g == r.pid
	}
	supervises := func(p *process) bool { return p.role == RoleSupervisor && p.owner == nil }
	switch r.spec.At.Victim {
	case VictimGroup:
		return inGroup
	case VictimSupervisor:
		return supervises
	case VictimBoth:
		return func(p *process) bool { return inGroup(p) || supervises(p) }
	}
	return func(p *process) bool { return p == t.actor }
}

// kill ends the processes that match, in order of pid, and returns their pids.
func (s *state) kill(match func(*process) bool) []int {
	var pids []int
	for pid, p := range s.procs {
		if !p.killed && match(p) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	for _, pid := range pids {
		s.procs[pid].killed = true
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			s.fault(fmt.Errorf("kill %d: %w", pid, err))
		}
	}
	return pids
}

// killAll ends every traced process.
func (s *state) killAll() { s.kill(func(*process) bool { return true }) }
