package command

import (
	"context"
	"errors"
	"os"
	"path/filepath"
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
