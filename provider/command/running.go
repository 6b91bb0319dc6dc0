package command

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/process"
	"github.com/acode-dev/acode/session"
)

const capEvery = 200 * time.Millisecond

// lockFD is the descriptor under which a command inherits the lock on its claim; that of
// its workspace follows. It is beyond those that scripts number by hand (exec 3>log),
// that programs take for themselves, and that another program names in the environment,
// as make names the descriptors of its job server.
const lockFD = 20

// running is a command from its claim to its exit record.
type running struct {
	req    session.CommandRequest
	header header
	// nil: none was written
	started *startBlock
	claim   claimFiles
	outs    outputs
	place   place
	leader  int
	// the leader was reaped
	status chan unix.WaitStatus

	// guards claim once the command runs; fork comes before
	claimMu sync.Mutex
	// claim is
	closed bool

	// guards what follows
	mu sync.Mutex
	// the leader's end was seen before anybody asked to end it
	over bool
	// somebody asked
	asked *ended
}

// ended is how a command was ended before its time.
type ended struct {
	timedOut bool
	// closed when no descendant is left
	done chan struct{}
	// but these, which may not be signalled
	beyond []process.Process
}

// start claims and starts req; share says how it takes the command lock. nil means that
// the key is claimed, by this request or by somebody's before; an error, that nothing was
// claimed.
func (s *supervisor) start(req session.CommandRequest, share bool) error {
	if err := checkRequest(req); err != nil {
		return err
	}
	s.starting.Lock()
	defer s.starting.Unlock()
	s.cfg.hook("asked")
	if _, err := os.Lstat(claimPath(s.cfg.Dir, req.Key)); err == nil {
		return nil
	}
	if s.started(req.Key) {
		return removed(s.cfg.Dir, req.Key)
	}
	gate, err := lockEpoch(context.Background(), s.cfg.Dir, unix.LOCK_SH)
	if err != nil {
		return err
	}
	// not before the command has started: who announces a later epoch waits for that
	defer gate.close()
	if err := gate.admit(req.Epoch); err != nil {
		return err
	}
	if err := s.durable(); err != nil {
		return err
	}
	lock, err := s.takeLock(req.Key, share)
	if err != nil {
		return err
	}
	c, err := s.prepare(req)
	if err != nil {
		s.releaseLock()
		if errors.Is(err, errClaimed) {
			return nil
		}
		return err
	}
	s.begin(c, lock)
	return nil
}

// started reports whether the command of key was started here, whatever became of its
// claim.
func (s *supervisor) started(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[key]
}

// claimed reports whether key was claimed here. The claim of a command that runs and
// whose name is gone is made again.
func (s *supervisor) claimed(key string) bool {
	// what is about to start is started first
	s.starting.Lock()
	s.mu.Lock()
	c, known := s.running[key], s.keys[key]
	s.mu.Unlock()
	s.starting.Unlock()
	if c != nil {
		c.claimMu.Lock()
		defer c.claimMu.Unlock()
		if !c.closed {
			s.restore(c)
		}
	}
	return known
}

// takeLock takes the workspace's command lock, once for all commands that run here, in
// the name of the first.
func (s *supervisor) takeLock(key string, share bool) (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.LockCommand == nil {
		return nil, nil
	}
	if s.lockUses == 0 {
		lock, err := s.cfg.LockCommand(key, share)
		if err != nil {
			return nil, err
		}
		s.lock = lock
	}
	s.lockUses++
	return s.lock, nil
}

// releaseLock unlocks the command lock after the last command, for descendants that
// inherited it too.
func (s *supervisor) releaseLock() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		return
	}
	if s.lockUses--; s.lockUses == 0 {
		// closing it would leave the lock to descendants
		_ = unix.Flock(int(s.lock.Fd()), unix.LOCK_UN)
		_ = s.lock.Close()
		s.lock = nil
	}
}

// prepare opens all that a command needs and, as the last act, claims its key.
func (s *supervisor) prepare(req session.CommandRequest) (*running, error) {
	c := &running{req: req, status: make(chan unix.WaitStatus, 1)}
	var err error
	c.header = header{
		V: claimVersion, State: stateClaimed, Key: req.Key, Epoch: req.Epoch, Session: s.cfg.Session,
		Request: digest(req), Split: req.Split, Supervisor: s.self, AtUS: s.cfg.Now().UnixMicro(),
	}
	if c.place, err = openPlace(req); err != nil {
		return nil, err
	}
	if c.outs, err = openOutputs(s.cfg.Dir, req.Key, req.Split, s.cfg.MaxOutput); err != nil {
		c.place.close()
		return nil, err
	}
	c.claim, err = writeClaim(s.cfg.Dir, tempPrefix, c.header, s.cfg.hook)
	if err != nil && c.claim.w != nil {
		// The name stands, but not surely: the command is not started, and its key is
		// spent. Where the record cannot say so either, its outcome is unknown.
		_ = writeExit(c.claim.w, req.Key, exitBlock{Exit: -1, Void: err.Error(), EndedUS: s.cfg.Now().UnixMicro()})
		c.claim.close()
	}
	if err != nil {
		c.outs.close()
		c.place.close()
		return nil, err
	}
	return c, nil
}

// begin starts a claimed command and follows it.
func (s *supervisor) begin(c *running, lock *os.File) {
	s.cfg.hook("claimed")
	startErr := s.fork(c, lock)
	if startErr != nil {
		go s.finish(c, exitBlock{Exit: -1, StartError: startErr.Error(), Starved: unstartable(startErr)})
		return
	}
	c.outs.begin()
	s.cfg.hook("started")
	go s.follow(c)
}

// fork is the last step to exec. The table of children is locked, so that a leader that
// ends at once is not reaped before it is known.
func (s *supervisor) fork(c *running, lock *os.File) error {
	env := environment(c.req)
	file, lookErr := program(c.req.Argv[0], env)
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	// the command has its own
	defer func() { _ = null.Close() }()
	stdout, stderr := c.outs.ends()
	argv := c.req.Argv
	if c.req.TTY && lookErr == nil {
		file, argv, lookErr = s.onTerminal(file, argv)
		// what this program's runtime says is not the command's
		stderr = null.Fd()
	}
	files := append(make([]uintptr, 0, lockFD+2), null.Fd(), stdout, stderr)
	for len(files) < lockFD {
		// closed
		files = append(files, ^uintptr(0))
	}
	files = append(files, c.claim.lock.Fd())
	if lock != nil {
		files = append(files, lock.Fd())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[c.req.Key], s.keys[c.req.Key] = c, true
	if lookErr != nil {
		return lookErr
	}
	s.cfg.hook("forking")
	dir := pathOf(c.place.dir, c.req.Workspace+"/"+c.req.Dir)
	pid, err := syscall.ForkExec(file, argv, &syscall.ProcAttr{
		Dir: dir, Env: env, Files: files, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if errors.Is(err, unix.ENOENT) && isThere(dir, file) {
		return errors.New("its interpreter, which the first line or the loader names, does not exist")
	}
	if err != nil {
		return err
	}
	c.leader = pid
	s.leaders[pid] = c
	s.cfg.hook("forked")
	id, err := process.Identify(pid)
	// for want of descriptors
	if err != nil {
		id = process.ID{PID: pid, Boot: s.self.Boot, NS: s.self.NS}
	}
	c.started = &startBlock{Leader: id, StartedUS: s.cfg.Now().UnixMicro()}
	// without it the record is only less exact about a killed supervisor
	_ = writeStart(c.claim.w, c.req.Key, *c.started)
	return nil
}

// unstartable reports whether err says that no process, or none with the descriptors that
// a command gets, could be had: that is no news of the command. A number beyond the limit
// of open files is a bad one.
func unstartable(err error) bool {
	return starved(err) || errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EBADF)
}

// isThere reports whether file, taken from dir, exists.
func isThere(dir, file string) bool {
	if !filepath.IsAbs(file) {
		// not cleaned: dir may be a link
		file = dir + "/" + file
	}
	_, err := os.Stat(file)
	return err == nil
}

// follow waits for the leader's end, in time or by force, and records it.
func (s *supervisor) follow(c *running) {
	var limit <-chan time.Time
	if c.req.Timeout > 0 {
		t := time.NewTimer(c.req.Timeout)
		defer t.Stop()
		limit = t.C
	}
	tick := time.NewTicker(capEvery)
	defer tick.Stop()
	for {
		select {
		case <-limit:
			limit = nil
			s.end(c, true)
		case <-tick.C:
			c.relock()
			c.outs.cap()
			if e, beyond := s.beyond(c); beyond {
				s.finish(c, e)
				return
			}
		case ws := <-c.status:
			s.finish(c, s.outcome(c, ws))
			return
		}
	}
}

// terminate ends the command of key because a person wants it: also one that is claimed
// and about to start, of which whoever asks sees no difference.
func (s *supervisor) terminate(key string) {
	s.starting.Lock()
	s.mu.Lock()
	c := s.running[key]
	s.mu.Unlock()
	s.starting.Unlock()
	if c != nil {
		s.end(c, false)
	}
}

// end begins to end c, once, unless its leader has ended by itself.
func (s *supervisor) end(c *running, timedOut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.asked != nil || s.hasEnded(c) {
		return
	}
	c.asked = &ended{timedOut: timedOut, done: make(chan struct{})}
	go func(a *ended) {
		e := ending{grace: s.cfg.Grace, members: func() []process.Process {
			ps, err := s.members(c)
			// nobody knows that it has ended
			if err != nil {
				return []process.Process{c.itself()}
			}
			return ps
		}}
		// ends when nobody is left, never by a context
		a.beyond, _ = e.run(context.Background())
		close(a.done)
	}(c.asked)
}

// hasEnded reports whether the leader of c has ended, reaped or not: its status is on its
// way.
func (s *supervisor) hasEnded(c *running) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaders[c.leader] != c {
		return true
	}
	// no other process has its pid before it is reaped
	p, err := process.Read(c.leader)
	return err == nil && p.Dead
}

// beyond makes the exit block of a command whose time is over, or that a person wants to
// end, and whose leader may not be signalled: it runs with another user's rights, for as
// long as it likes.
func (s *supervisor) beyond(c *running) (exitBlock, bool) {
	c.mu.Lock()
	asked := c.asked
	c.mu.Unlock()
	if asked == nil {
		return exitBlock{}, false
	}
	select {
	case <-asked.done:
	default:
		return exitBlock{}, false
	}
	isLeader := func(p process.Process) bool { return p.PID == c.leader }
	if s.hasEnded(c) || !slices.ContainsFunc(asked.beyond, isLeader) {
		return exitBlock{}, false
	}
	return s.forced(exitBlock{Exit: -1}, asked), true
}

// forced adds to e how the command was ended and who is left.
func (s *supervisor) forced(e exitBlock, asked *ended) exitBlock {
	e.TimedOut, e.Cancelled = asked.timedOut, !asked.timedOut
	return s.leave(e, asked.beyond)
}

// leave adds to e who is left.
func (s *supervisor) leave(e exitBlock, left []process.Process) exitBlock {
	s.release(left)
	for _, p := range left {
		e.Left = append(e.Left, leftover{PID: p.PID, Start: p.Start, Name: p.Name})
	}
	return e
}

// outcome makes the exit block of a leader that was reaped. One that was ended is over
// when all its descendants are; what outlives a leader that ended by itself is listed and
// left.
func (s *supervisor) outcome(c *running, ws unix.WaitStatus) exitBlock {
	c.mu.Lock()
	c.over = true
	asked := c.asked
	c.mu.Unlock()
	e := exitBlock{Exit: ws.ExitStatus()}
	if ws.Signaled() {
		// those of real time have no name
		e.Exit, e.Signal = -1, cmp.Or(unix.SignalName(ws.Signal()), ws.Signal().String())
	}
	if asked == nil {
		// the list only informs people
		left, _ := s.members(c)
		return s.leave(e, left)
	}
	<-asked.done
	return s.forced(e, asked)
}

// release notes that ps belong to no command that runs: a later one's end is not theirs.
func (s *supervisor) release(ps []process.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range ps {
		s.released[p.PID] = p.Start
	}
}

// members lists the processes that belong to c: its leader, all below it, and the orphans
// that this process adopted, but for those that belong to another command.
func (s *supervisor) members(c *running) ([]process.Process, error) {
	if process.Childless() {
		return nil, nil
	}
	ps, err := process.Table()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var roots []int
	if s.leaders[c.leader] == c || process.GroupsOnly {
		roots = append(roots, c.leader)
	}
	for _, p := range ps {
		if p.Parent == s.self.PID && s.leaders[p.PID] == nil && still(p) && !s.others(c, p) {
			roots = append(roots, p.PID)
		}
	}
	return process.Below(ps, roots), nil
}

// still reports whether p runs: since the table was read, it may have been another
// command's leader and reaped.
func still(p process.Process) bool {
	now, err := process.Read(p.PID)
	return err == nil && now.Start == p.Start
}

// itself is the leader of c, as long as that is known.
func (c *running) itself() process.Process {
	p := process.Process{PID: c.leader}
	if c.started != nil {
		p.Start = c.started.Leader.Start
	}
	return p
}

// others reports whether the adopted process p belongs to another command than c.
func (s *supervisor) others(c *running, p process.Process) bool {
	if start, ok := s.released[p.PID]; ok && start == p.Start {
		return true
	}
	// of one that cannot be looked at, it may be ours
	key, _ := process.Variable(p.PID, keyVariable)
	return key != c.req.Key && s.keys[key]
}

// finish records the end of c and lets go of it, in this order: outputs, workspace, exit
// record, locks, wake.
func (s *supervisor) finish(c *running, e exitBlock) {
	c.relock()
	s.cfg.hook("ended")
	e.EndedUS = s.cfg.Now().UnixMicro()
	s.settle(c, &e)
	c.claimMu.Lock()
	s.restore(c)
	s.record(c, e)
	s.cfg.hook("recorded")
	c.claim.close()
	c.closed = true
	c.claimMu.Unlock()
	s.cfg.hook("unlocked")
	c.outs.close()
	c.place.close()
	s.releaseLock()
	s.mu.Lock()
	delete(s.running, c.req.Key)
	s.mu.Unlock()
	s.tell(c.req.Key)
	s.checkIdle()
}

// relock takes the lock of the claim again where the command, which shares it, gave it
// up: it would count as over before its end is recorded. Whoever looks just then has the
// lock for an instant.
func (c *running) relock() {
	c.claimMu.Lock()
	defer c.claimMu.Unlock()
	for range 3 {
		if unix.Flock(int(c.claim.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			return
		}
	}
}

// restore makes the claim anew whose name is gone, with what was known at the start:
// without it the next resume would find the key unclaimed and start the command again
// (C1).
func (s *supervisor) restore(c *running) {
	if samePath(c.claim.w, claimPath(s.cfg.Dir, c.req.Key)) == nil {
		return
	}
	// the next call meets the same; a store that was moved is not begun anew
	_ = os.Mkdir(s.cfg.Dir, 0o700)
	files, _ := writeClaim(s.cfg.Dir, tempPrefix, c.header, s.cfg.hook)
	// something else stands there, or nothing can: the record goes where nobody finds it
	if files.w == nil {
		return
	}
	c.claim.close()
	c.claim = files
	if c.started != nil {
		// as in fork
		_ = writeStart(files.w, c.req.Key, *c.started)
	}
}

// settle makes outputs and workspace durable, as far as was asked for. Where that fails,
// e says why the outcome is unknown.
func (s *supervisor) settle(c *running, e *exitBlock) {
	e.Lost = c.outs.drain()
	s.cfg.hook("drained")
	c.outs.cap()
	sizes, err := c.outs.lengths()
	if err != nil {
		e.Unknown = "what it wrote cannot be opened any more: " + err.Error()
		return
	}
	e.Out, e.Err = sizes[0], sizes[1]
	covered := !c.req.Volatile && sameDevice(c.place.workspace, c.outs.sinks[0].file)
	if !c.req.Volatile {
		if err := syncFS(c.place.workspace); err != nil {
			e.Unknown = "what the command wrote could not be made durable: " + err.Error()
			return
		}
		s.cfg.hook("synced")
	}
	if covered {
		return
	}
	for i, out := range c.outs.sinks {
		if sizes[i] == 0 {
			continue
		}
		if err := datasync(out.file); err != nil {
			e.Unknown = "the output of the command could not be made durable: " + err.Error()
		}
	}
}

func sameDevice(a, b *os.File) bool {
	var x, y unix.Stat_t
	return unix.Fstat(int(a.Fd()), &x) == nil && unix.Fstat(int(b.Fd()), &y) == nil && x.Dev == y.Dev
}

// record writes e, or, when that cannot be made durable, that there is no knowing.
func (s *supervisor) record(c *running, e exitBlock) {
	err := writeExit(c.claim.w, c.req.Key, e)
	if err == nil {
		return
	}
	why := exitBlock{EndedUS: e.EndedUS, Unknown: "the end of the command could not be recorded: " + err.Error()}
	// Nothing is left to try after this: without it the record reads as unknown all the
	// same.
	_ = writeExit(c.claim.w, c.req.Key, why)
}
