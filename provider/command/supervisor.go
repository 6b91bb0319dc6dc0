package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/process"
	"github.com/acode-dev/acode/session"
)

// SupervisorConfig configures the detached process of a session.
type SupervisorConfig struct {
	// Dir and Session are as in Config.
	Dir     string
	Session session.ID
	// Conn is the inherited end of the socket pair, descriptor 3; nil means that no
	// client is connected yet.
	Conn *os.File

	// Terminal is the start of this program's arguments with which it calls OnTerminal. A
	// file and the arguments of a command follow.
	Terminal []string

	// LockCommand takes the workspace's command lock, by flock, before the command of key
	// is claimed; share says that the session shares the workspace. The command inherits
	// the file; the supervisor unlocks it after the exit record. An error refuses the
	// request. A nil LockCommand takes no lock.
	LockCommand func(key string, share bool) (*os.File, error)

	Now func() time.Time
	// MaxOutput is the number of bytes kept of a command's output; 0 means
	// DefaultMaxOutput.
	MaxOutput int64
	// Grace is the time between INT, TERM and KILL; 0 means 5 s.
	Grace time.Duration

	// hook is called at each point where a kill matters; nil does nothing.
	hook func(point string)
}

// supervisor is the state of the detached process.
type supervisor struct {
	cfg  SupervisorConfig
	self process.ID

	// durable waits until the name of the claims' directory is durable.
	durable func() error
	// starting is held while a command is claimed and started, one at a time.
	starting sync.Mutex

	mu sync.Mutex
	// running holds the commands by key.
	running map[string]*running
	// leaders holds the running commands whose leader is not reaped yet, by its pid.
	leaders map[int]*running
	// released holds the pid and start time of processes that outlived an earlier
	// command.
	released map[int]uint64
	// keys holds all keys whose commands were started here.
	keys  map[string]bool
	peers map[*peer]bool
	// lock is the workspace's command lock.
	lock     *os.File
	lockUses int
	ended    bool
	// idle is closed when no client is connected and no command runs.
	idle chan struct{}
}

// Supervise is the main loop of the detached process. It starts commands for its clients
// and records how they end. It returns when no client is connected and no command runs,
// or when ctx ends. It ignores signals that ask a process to end, so that it can record
// the exit of a command while the machine shuts down.
//
// Supervise returns nil at once if another supervisor serves the session. If it cannot
// serve, it returns the error and reports it to the client that started it.
func Supervise(ctx context.Context, cfg SupervisorConfig) error {
	conn, err := inherited(cfg.Conn)
	if err != nil {
		return err
	}
	s, err := newSupervisor(cfg)
	if err != nil {
		decline(conn, message{Failure: toFailure(err)})
		return err
	}
	lock, err := lockSupervisor(s.cfg.Dir)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, session.ErrLocked) {
		decline(conn, message{Op: opBusy})
		return nil
	}
	if err != nil {
		decline(conn, message{Failure: toFailure(err)})
		return err
	}
	// closing gives up the lock
	defer func() { _ = lock.Close() }()
	// numbers and a string always encode
	b, _ := json.Marshal(s.self)
	// for people, and for processes that cannot see this one
	_, _ = lock.WriteAt(append(b, '\n'), 0)
	ln, done, err := s.prepareToServe()
	if err != nil {
		decline(conn, message{Failure: toFailure(err)})
		return err
	}
	defer done()
	return s.loop(ctx, ln, conn)
}

// prepareToServe does the work between the supervisor's lock and its first request.
func (s *supervisor) prepareToServe() (ln *net.UnixListener, done func(), err error) {
	if err := adopt(); err != nil {
		return nil, nil, fmt.Errorf("become subreaper: %w", err)
	}
	claimed := tidy(s.cfg.Dir)
	s.durable = sync.OnceValue(func() error {
		// a claim was made after its directory was durable
		if claimed {
			return nil
		}
		return syncParents(s.cfg.Dir)
	})
	// runs while the first request comes
	go s.durable()
	if err := s.disown(); err != nil {
		return nil, nil, err
	}
	return listen(s.cfg.Dir)
}

func newSupervisor(cfg SupervisorConfig) (*supervisor, error) {
	if cfg.MaxOutput <= 0 {
		cfg.MaxOutput = DefaultMaxOutput
	}
	if cfg.Grace <= 0 {
		cfg.Grace = defaultGrace
	}
	if cfg.hook == nil {
		cfg.hook = func(string) {}
	}
	self, err := process.Self()
	if err != nil {
		return nil, fmt.Errorf("identify the supervisor: %w", err)
	}
	return &supervisor{cfg: cfg, self: self, running: map[string]*running{}, leaders: map[int]*running{}, released: map[int]uint64{},
		keys: map[string]bool{}, peers: map[*peer]bool{}, idle: make(chan struct{})}, nil
}

// disown notes the children that this process had before it became a supervisor: they
// belong to no command.
func (s *supervisor) disown() error {
	if process.Childless() {
		return nil
	}
	all, err := process.Table()
	var ps []process.Process
	for _, p := range all {
		if p.Parent == s.self.PID {
			ps = append(ps, p)
		}
	}
	s.release(ps)
	return err
}

// inherited makes a connection of the socket that the process was started with.
func inherited(f *os.File) (*net.UnixConn, error) {
	if f == nil {
		return nil, nil
	}
	conn, err := net.FileConn(f)
	// the connection has its own descriptor
	_ = f.Close()
	if err != nil {
		return nil, fmt.Errorf("use inherited socket: %w", err)
	}
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, fmt.Errorf("use inherited socket: it is a %s socket", conn.LocalAddr().Network())
	}
	return u, nil
}

// lockSupervisor takes the lock of the supervisor that serves the session, or returns
// EWOULDBLOCK.
func lockSupervisor(dir string) (*os.File, error) {
	path := filepath.Join(dir, "supervisor.lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, storeError("open the supervisor's lock", err)
	}
	if err = ours(f, 0); err != nil {
		err = &session.Error{Code: session.ErrLockMode, Message: "the supervisor's lock could have been changed by others; the command was not started", Place: path, Cause: err}
	} else if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		err = samePath(f, path)
	}
	if err != nil {
		// closing gives up the lock
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// supervisorLives reports whether a supervisor serves the session of dir, by its lock. If
// by is not nil, that supervisor must be by; its pid cannot be checked here.
func supervisorLives(dir string, by *process.ID) (bool, error) {
	f, err := os.OpenFile(filepath.Join(dir, "supervisor.lock"), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, unread(filepath.Join(dir, "supervisor.lock"), err)
	}
	defer func() { _ = f.Close() }()
	var named process.ID
	if by != nil && (json.NewDecoder(f).Decode(&named) != nil || named != *by) {
		return false, nil
	}
	free, err := lockFree(f)
	return !free, err
}

// decline sends its only answer to the client that started this process, if there is one.
// The answer says to connect to the other supervisor, or why there is none.
func decline(conn *net.UnixConn, answer message) {
	if conn == nil {
		return
	}
	// no more is sent
	defer func() { _ = conn.Close() }()
	var m message
	if json.NewDecoder(conn).Decode(&m) == nil {
		answer.ID = m.ID
		// if this fails, the client loses the connection and tries again
		_ = json.NewEncoder(conn).Encode(answer)
	}
}

// tidy removes unfinished files of a killed supervisor, and reports whether there is a
// claim. Only one supervisor lives at a time.
func tidy(dir string) (claimed bool) {
	// the next supervisor removes files that this one does not see
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		claimed = claimed || strings.HasSuffix(e.Name(), claimSuffix)
		if strings.HasPrefix(e.Name(), tempPrefix) {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	return claimed
}

// sweep removes the unfinished files and the socket of a killed supervisor of dir, unless
// another one lives.
func sweep(dir string) {
	lock, err := lockSupervisor(dir)
	if err != nil {
		// the files do no harm
		return
	}
	// closing gives up the lock
	defer func() { _ = lock.Close() }()
	tidy(dir)
	if path, done, err := socketPath(dir); err == nil {
		// usually there is none
		_ = os.Remove(path)
		done()
	}
}

// syncParents makes the name of a new directory of claims, and the name of its parent,
// durable.
func syncParents(dir string) error {
	for _, d := range []string{filepath.Dir(dir), filepath.Dir(filepath.Dir(dir))} {
		if err := syncDir(d); err != nil {
			return storeError("make the directory of commands durable", err)
		}
	}
	return nil
}

// The prefixes of claims that are not finished: those of a supervisor, and of the process
// that holds the session.
const (
	tempPrefix  = "new-"
	voidPrefix  = "void-"
	adoptPrefix = "adopt-"
)

// listen opens the session's socket and replaces that of a killed supervisor.
func listen(dir string) (*net.UnixListener, func(), error) {
	path, done, err := socketPath(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("find a path for the socket: %w", err)
	}
	// usually there is none
	_ = os.Remove(path)
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		done()
		return nil, nil, storeError("open the supervisor's socket", err)
	}
	ln.SetUnlinkOnClose(false)
	return ln, func() {
		// otherwise the next supervisor does it
		_ = os.Remove(path)
		_ = ln.Close()
		done()
	}, nil
}

// loop serves until no client is connected and no command runs.
func (s *supervisor) loop(ctx context.Context, ln *net.UnixListener, conn *net.UnixConn) error {
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	defer signal.Stop(children)
	// The signals are caught because the commands would inherit ignored ones.
	deaf := make(chan os.Signal, 1)
	signal.Notify(deaf, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGXFSZ)
	defer signal.Stop(deaf)
	if conn != nil {
		s.welcome(conn)
	}
	go s.accept(ln)
	s.checkIdle()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.idle:
			return nil
		case <-deaf:
		case <-children:
			s.reap()
		}
	}
}

func (s *supervisor) accept(ln *net.UnixListener) {
	for {
		conn, err := ln.AcceptUnix()
		if err != nil {
			// the listener is closed at the end
			return
		}
		if checkPeer(conn) != nil {
			// it gets no answer
			_ = conn.Close()
			continue
		}
		s.welcome(conn)
	}
}

// checkIdle ends the supervisor when it has no client and no command.
func (s *supervisor) checkIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended && len(s.peers) == 0 && len(s.running) == 0 {
		s.ended = true
		close(s.idle)
	}
}

// reap collects every child that ended, adopted children too.
func (s *supervisor) reap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if !ws.Exited() && !ws.Signaled() {
			// a command that made this process its tracer has only stopped
			continue
		}
		delete(s.released, pid)
		if c := s.leaders[pid]; c != nil {
			delete(s.leaders, pid)
			c.status <- ws
		}
	}
}

// peer is a connected client.
type peer struct {
	conn *net.UnixConn
	send chan message
}

// welcome serves conn, unless the supervisor has just ended.
func (s *supervisor) welcome(conn *net.UnixConn) {
	p := &peer{conn: conn, send: make(chan message, 64)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		// the client starts another supervisor
		_ = conn.Close()
		return
	}
	s.peers[p] = true
	go p.write()
	go s.serve(p)
}

func (p *peer) write() {
	enc := json.NewEncoder(p.conn)
	for m := range p.send {
		if enc.Encode(m) != nil {
			// this ends the reading side too
			_ = p.conn.Close()
		}
	}
}

// serve answers the requests of p until the client closes the connection.
func (s *supervisor) serve(p *peer) {
	dec := json.NewDecoder(bufio.NewReader(p.conn))
	for {
		var m message
		if dec.Decode(&m) != nil {
			break
		}
		answer := message{Op: m.Op, ID: m.ID, Failure: toFailure(s.handle(m))}
		if m.Op == opClaimed {
			answer.Known = s.claimed(m.Key)
		}
		p.send <- answer
	}
	s.mu.Lock()
	delete(s.peers, p)
	close(p.send)
	s.mu.Unlock()
	// the client closed it first
	_ = p.conn.Close()
	s.checkIdle()
}

func (s *supervisor) handle(m message) error {
	switch {
	case m.Op == opHello && m.Session != s.cfg.Session:
		return &session.Error{Code: session.ErrInternal, Message: fmt.Sprintf("this supervisor serves session %s", s.cfg.Session)}
	case m.Op == opHello:
		return s.admit(m.Epoch)
	case m.Op == opRun && m.Request != nil:
		return s.start(m.Request.command(), m.Share)
	case m.Op == opTerminate:
		s.terminate(m.Key)
		return nil
	case m.Op == opClaimed:
		// serve answers it
		return nil
	}
	return &session.Error{Code: session.ErrInternal, Message: fmt.Sprintf("the supervisor does not know %q", m.Op)}
}

// admit refuses an epoch that is no longer the highest.
func (s *supervisor) admit(epoch uint64) error {
	gate, err := lockEpoch(context.Background(), s.cfg.Dir, unix.LOCK_SH)
	if err != nil {
		return err
	}
	defer gate.close()
	return gate.admit(epoch)
}

// tell wakes all clients: the command of key is over.
func (s *supervisor) tell(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.peers {
		select {
		case p.send <- message{Op: opDone, Key: key}:
		default:
			// a client that does not read polls the record
		}
	}
}
