package command

import (
	"cmp"
	"context"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/process"
)

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
