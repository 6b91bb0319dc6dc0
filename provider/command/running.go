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
	"github.com/acode-dev/acode/sandbox"
	"github.com/acode-dev/acode/session"
)

const capEvery = 200 * time.Millisecond

// lockFD is the descriptor under which a command inherits the lock on its claim; the lock
// of its workspace is the next one. Lower numbers may be in use: scripts number
// descriptors by hand (exec 3>log), programs take them, and make names the descriptors of
// its job server in the environment.
const lockFD = 20

// running is a command from its claim to its exit record.
type running struct {
	req    session.CommandRequest
	header header
	// started is nil if no start block was written.
	started *startBlock
	claim   claimFiles
	outs    outputs
	place   place
	leader  int
	// report holds why a confined command could not be started; nil for other commands.
	report *os.File
	// status receives the status of the leader when it was reaped.
	status chan unix.WaitStatus

	// claimMu guards claim once the command runs; fork comes before.
	claimMu sync.Mutex
	// closed is set when claim is closed.
	closed bool

	// mu guards over and asked.
	mu sync.Mutex
	// over is set if the leader was reaped.
	over bool
	// asked is set by the first request to end the command.
	asked *ended
}

// ended is how a command was ended before its time.
type ended struct {
	timedOut bool
	// done is closed when no descendant is left, except those in beyond.
	done chan struct{}
	// beyond holds the processes that may not be signalled.
	beyond []process.Process
}

// start claims and starts req; share says how it takes the command lock. nil means that
// the key is claimed, by this request or an earlier one. An error means that nothing was
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

// started reports whether the command of key was started here, even if its claim is gone.
func (s *supervisor) started(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[key]
}

// claimed reports whether key was claimed here. If the command runs and the name of its
// claim is gone, claimed makes the claim again.
func (s *supervisor) claimed(key string) bool {
	// a command that is about to start is started first
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

// takeLock takes the workspace's command lock for all commands that run here, in the name
// of the first.
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

// releaseLock unlocks the command lock after the last command, also for descendants that
// inherited it.
func (s *supervisor) releaseLock() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		return
	}
	if s.lockUses--; s.lockUses == 0 {
		// closing alone would leave the lock to descendants
		_ = unix.Flock(int(s.lock.Fd()), unix.LOCK_UN)
		_ = s.lock.Close()
		s.lock = nil
	}
}

// prepare opens all files of a command and, as the last act, claims its key.
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
		// The name of the claim exists, but may not be durable: the command is not
		// started, and its key is used up. If the record cannot be written, the outcome
		// is unknown.
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
	defer func() { _ = null.Close() }()
	stdout, stderr := c.outs.ends()
	argv := c.req.Argv
	if c.req.Sandbox != nil && lookErr == nil {
		file, argv, lookErr = confined(c.req, file)
	}
	if c.req.TTY && lookErr == nil {
		file, argv, lookErr = s.onTerminal(file, argv)
		// messages of this program's runtime are not output of the command
		stderr = null.Fd()
	}
	files := append(make([]uintptr, 0, lockFD+2), null.Fd(), stdout, stderr)
	for len(files) < lockFD {
		// closed in the command
		files = append(files, ^uintptr(0))
	}
	files = append(files, c.claim.lock.Fd())
	if lock != nil {
		files = append(files, lock.Fd())
	}
	attr := &syscall.SysProcAttr{Setsid: true}
	if c.reports() {
		report, err := c.openReport()
		if err != nil {
			return err
		}
		// only the command holds it then
		defer func() { _ = report.Close() }()
		for len(files) < reportFD {
			files = append(files, ^uintptr(0))
		}
		files = append(files, report.Fd())
		attr = sandbox.Profile(*c.req.Sandbox).Attributes(*attr)
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
		Dir: dir, Env: env, Files: files, Sys: attr,
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
	// there may be no free descriptor
	if err != nil {
		id = process.ID{PID: pid, Boot: s.self.Boot, NS: s.self.NS}
	}
	c.started = &startBlock{Leader: id, StartedUS: s.cfg.Now().UnixMicro()}
	if c.req.Sandbox != nil {
		c.started.Sandbox = sandbox.Profile(*c.req.Sandbox).Enforced()
	}
	// without the start block only the record of a killed supervisor is less exact
	_ = writeStart(c.claim.w, c.req.Key, *c.started)
	return nil
}

// unstartable reports whether err is a lack of processes or of the descriptors that a
// command gets: such an error says nothing about the command. The kernel reports EBADF
// for a descriptor number beyond the limit of open files.
func unstartable(err error) bool {
	return starved(err) || errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EBADF)
}

// isThere reports whether file, relative to dir, exists.
func isThere(dir, file string) bool {
	if !filepath.IsAbs(file) {
		// not cleaned: dir may be a link
		file = dir + "/" + file
	}
	_, err := os.Stat(file)
	return err == nil
}

// follow waits for the leader's end, ends the command at its time limit, and records the
// end.
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

// terminate ends the command of key at a person's request. It waits for a command that is
// claimed and about to start, and ends that too.
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
			// the command may still run
			if err != nil {
				return []process.Process{c.itself()}
			}
			return ps
		}}
		// run ends when no process is left, never by a context
		a.beyond, _ = e.run(context.Background())
		close(a.done)
	}(c.asked)
}

// hasEnded reports whether the leader of c has ended, reaped or not.
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

// beyond returns the exit block of a command that was asked to end and whose leader may
// not be signalled. Such a leader runs with another user's rights, for as long as it
// likes.
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

// forced adds to e how the command was ended and which processes are left.
func (s *supervisor) forced(e exitBlock, asked *ended) exitBlock {
	e.TimedOut, e.Cancelled = asked.timedOut, !asked.timedOut
	return s.leave(e, asked.beyond)
}

// leave adds to e the processes that are left.
func (s *supervisor) leave(e exitBlock, left []process.Process) exitBlock {
	s.release(left)
	for _, p := range left {
		e.Left = append(e.Left, leftover{PID: p.PID, Start: p.Start, Name: p.Name})
	}
	return e
}

// outcome returns the exit block of a leader that was reaped. A command that was asked to
// end is over when all its descendants have ended. If the leader ended by itself, its
// descendants are listed and left running.
func (s *supervisor) outcome(c *running, ws unix.WaitStatus) exitBlock {
	c.mu.Lock()
	c.over = true
	asked := c.asked
	c.mu.Unlock()
	if err := c.startFailure(); err != nil {
		return exitBlock{Exit: -1, StartError: err.Error(), Starved: unstartable(err)}
	}
	e := exitBlock{Exit: ws.ExitStatus()}
	if ws.Signaled() {
		// real-time signals have no name
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

// release notes that ps belong to no running command, so that the end of a later command
// spares them.
func (s *supervisor) release(ps []process.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range ps {
		s.released[p.PID] = p.Start
	}
}

// members returns the processes of c: its leader, its descendants, and the orphans that
// this process adopted, except those of another command.
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

// still reports whether p still runs. It may have been another command's leader, and have
// been reaped since the table was read.
func still(p process.Process) bool {
	now, err := process.Read(p.PID)
	return err == nil && now.Start == p.Start
}

// itself returns the leader of c.
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
	// an unreadable process may belong to c
	key, _ := process.Variable(p.PID, keyVariable)
	return key != c.req.Key && s.keys[key]
}

// finish records the end of c and releases its resources, in this order: outputs,
// workspace, exit record, locks, wake.
func (s *supervisor) finish(c *running, e exitBlock) {
	c.relock()
	s.cfg.hook("ended")
	e.EndedUS = s.cfg.Now().UnixMicro()
	s.makeDurable(c, &e)
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
	if c.report != nil {
		_ = c.report.Close()
	}
	s.releaseLock()
	s.mu.Lock()
	delete(s.running, c.req.Key)
	s.mu.Unlock()
	s.tell(c.req.Key)
	s.checkIdle()
}

// relock takes the lock of the claim again in case the command, which shares it, gave it
// up. Without the lock the command would count as over before its end is recorded. A
// reader of the claim may have the lock for an instant.
func (c *running) relock() {
	c.claimMu.Lock()
	defer c.claimMu.Unlock()
	for range 3 {
		if unix.Flock(int(c.claim.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			return
		}
	}
}

// restore makes the claim again if its name is gone, with the data known at the start.
// Otherwise the next resume would find the key unclaimed and start the command again
// (C1).
func (s *supervisor) restore(c *running) {
	if samePath(c.claim.w, claimPath(s.cfg.Dir, c.req.Key)) == nil {
		return
	}
	// writeClaim fails too; the parent of a moved store is not created again
	_ = os.Mkdir(s.cfg.Dir, 0o700)
	files, _ := writeClaim(s.cfg.Dir, tempPrefix, c.header, s.cfg.hook)
	// if another file is there, or none can be made, the record goes into the nameless
	// claim
	if files.w == nil {
		return
	}
	c.claim.close()
	c.claim = files
	if c.started != nil {
		// a failure has the same effect as in fork
		_ = writeStart(files.w, c.req.Key, *c.started)
	}
}

// makeDurable makes outputs and workspace durable, as far as the request asks for it. If
// that fails, e says why the outcome is unknown.
func (s *supervisor) makeDurable(c *running, e *exitBlock) {
	e.Lost = c.outs.drain()
	s.cfg.hook("drained")
	c.outs.cap()
	sizes, err := c.outs.lengths()
	if err != nil {
		e.Unknown = "its output can no longer be opened: " + err.Error()
		return
	}
	e.Out, e.Err = sizes[0], sizes[1]
	covered := !c.req.Volatile && sameDevice(c.place.workspace, c.outs.sinks[0].file)
	if !c.req.Volatile {
		if err := syncFS(c.place.workspace); err != nil {
			e.Unknown = "the files of the workspace could not be made durable: " + err.Error()
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

// record writes e. If e cannot be made durable, it writes that the outcome is unknown.
func (s *supervisor) record(c *running, e exitBlock) {
	err := writeExit(c.claim.w, c.req.Key, e)
	if err == nil {
		return
	}
	why := exitBlock{EndedUS: e.EndedUS, Unknown: "the end of the command could not be recorded: " + err.Error()}
	// If this fails too, the claim has no result and the outcome reads as unknown.
	_ = writeExit(c.claim.w, c.req.Key, why)
}
