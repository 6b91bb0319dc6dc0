package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/session"
)

// errLost means that the connection ended before the answer came. The supervisor may have
// handled the request; the claim shows it.
var errLost = errors.New("connection to the supervisor was lost")

// client is one end of a connection to a supervisor.
type client struct {
	conn  *net.UnixConn
	wmu   sync.Mutex
	enc   *json.Encoder
	mu    sync.Mutex
	next  uint64
	await map[uint64]chan message
	// waken is closed and replaced at each wake.
	waken chan struct{}
	lost  chan struct{}
	// gone is closed when the supervisor that this process started has ended; nil for a
	// supervisor that another process started.
	gone chan struct{}
}

func newClient(conn *net.UnixConn) *client {
	c := &client{conn: conn, enc: json.NewEncoder(conn), await: map[uint64]chan message{}, waken: make(chan struct{}), lost: make(chan struct{})}
	go c.read()
	return c
}

// read passes answers on until the connection ends.
func (c *client) read() {
	dec := json.NewDecoder(bufio.NewReader(c.conn))
	for {
		var m message
		if dec.Decode(&m) != nil {
			break
		}
		c.mu.Lock()
		if ch := c.await[m.ID]; m.ID != 0 && ch != nil {
			ch <- m
			delete(c.await, m.ID)
		}
		if m.Op == opDone {
			close(c.waken)
			c.waken = make(chan struct{})
		}
		c.mu.Unlock()
	}
	c.mu.Lock()
	close(c.lost)
	close(c.waken)
	c.mu.Unlock()
	c.close()
}

func (c *client) wake() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waken
}

func (c *client) isLost() bool {
	select {
	case <-c.lost:
		return true
	default:
		return false
	}
}

// close closes the connection. The supervisor keeps the requests that it has received.
func (c *client) close() { _ = c.conn.Close() }

// ask sends m and waits for its answer. It returns errLost if the connection ended first.
func (c *client) ask(ctx context.Context, m message) error {
	_, err := c.exchange(ctx, m)
	return err
}

// exchange does the same as ask and returns the answer too.
func (c *client) exchange(ctx context.Context, m message) (answer message, err error) {
	ch := make(chan message, 1)
	c.mu.Lock()
	c.next++
	m.ID = c.next
	c.await[m.ID] = ch
	c.mu.Unlock()
	c.wmu.Lock()
	err = c.enc.Encode(m)
	c.wmu.Unlock()
	if err != nil {
		c.close()
		// wait until every caller can see that the connection is lost
		<-c.lost
		return answer, errLost
	}
	select {
	case answer = <-ch:
	case <-c.lost:
		select {
		case answer = <-ch:
			// it came just before the connection ended
		default:
			return answer, errLost
		}
	case <-ctx.Done():
		return answer, context.Cause(ctx)
	}
	if answer.Op == opBusy {
		return answer, errLost
	}
	return answer, answer.Failure.err()
}

// dial connects to the supervisor of dir, or returns nil if none listens.
func dial(dir string) (*client, error) {
	path, done, err := socketPath(dir)
	if err != nil {
		// without the directory there is no supervisor
		return nil, nil
	}
	defer done()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		// there is none, or it is just ending
		return nil, nil
	}
	if err := checkPeer(conn); err != nil {
		// nothing was sent
		_ = conn.Close()
		return nil, &session.Error{Code: session.ErrLockOwner, Message: "the supervisor's socket is not ours", Place: dir, Cause: err}
	}
	return newClient(conn), nil
}

// askClaimed asks the supervisor of dir whether it claimed key. It returns false if no
// supervisor lives.
func askClaimed(ctx context.Context, dir, key string) (known bool, err error) {
	err = retry(ctx, dir, patience, func() (bool, error) {
		conn, err := dial(dir)
		if err != nil {
			return true, err
		}
		// a living supervisor is just beginning, or just ending, or cannot be reached
		if conn == nil {
			lives, err := supervisorLives(dir, nil)
			return !lives || err != nil, err
		}
		defer conn.close()
		ctx, cancel := context.WithTimeoutCause(ctx, patience, frozen("nothing was started"))
		defer cancel()
		answer, err := conn.exchange(ctx, message{Op: opClaimed, Key: key})
		known = answer.Known
		return !errors.Is(err, errLost), err
	})
	return known, err
}

// attach connects to a living supervisor, unless there is a connection already.
func (r *Runner) attach(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn != nil && !r.conn.isLost() {
		return nil
	}
	if err := r.Announce(ctx); err != nil {
		return err
	}
	conn, err := dial(r.cfg.Dir)
	if err != nil || conn == nil {
		return err
	}
	return r.hello(ctx, conn)
}

// hello introduces this process to the supervisor and keeps the connection.
func (r *Runner) hello(ctx context.Context, conn *client) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, frozen("nothing was started"))
	defer cancel()
	if err := conn.ask(ctx, message{Op: opHello, Session: r.cfg.Session, Epoch: r.cfg.Epoch}); err != nil {
		conn.close()
		return err
	}
	r.conn = conn
	return nil
}

// frozen returns the error for a supervisor that lives and does not answer. what says
// which action did not happen.
func frozen(what string) error {
	return &session.Error{Code: session.ErrLocked, Message: "the session's supervisor does not answer; " + what,
		Next: session.Words("see whether the supervisor process is stopped or suspended"), Retryable: true}
}

// connect returns a connection to the session's supervisor, and starts a supervisor if
// none lives.
func (r *Runner) connect(ctx context.Context) (*client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn != nil && !r.conn.isLost() {
		return r.conn, nil
	}
	if err := r.Announce(ctx); err != nil {
		return nil, err
	}
	r.cfg.hook("announced")
	if r.conn, r.warm = r.warm, nil; r.conn != nil {
		return r.conn, nil
	}
	err := retry(ctx, r.cfg.Dir, patience, func() (bool, error) {
		conn, err := dial(r.cfg.Dir)
		switch {
		case err != nil:
			return true, err
		case conn == nil:
			r.conn, err = r.spawn()
			return true, err
		}
		// A supervisor that is just ending, or just beginning, is tried again a moment
		// later.
		err = r.hello(ctx, conn)
		return !errors.Is(err, errLost), err
	})
	return r.conn, err
}

// spawn starts a supervisor in its own process session, connected by a socket pair. The
// supervisor needs no hello: each request carries the epoch.
func (r *Runner) spawn() (*client, error) {
	near, far, err := socketPair()
	if err != nil {
		return nil, withheld("make socket pair", err)
	}
	// the supervisor has its own copy
	defer func() { _ = far.Close() }()
	defer func() { _ = near.Close() }()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, withheld("have no input", err)
	}
	defer func() { _ = null.Close() }()
	env := r.cfg.Env
	if env == nil {
		env = os.Environ()
	}
	name, path := r.cfg.Executable, r.cfg.Executable
	if name == "" {
		if name, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
		path = own(name)
	}
	KeepDescriptors()
	// Package os would first start a process to test the kernel.
	pid, err := syscall.ForkExec(path, append([]string{name}, r.cfg.Args...), &syscall.ProcAttr{
		Dir: "/", Env: env, Files: []uintptr{null.Fd(), null.Fd(), null.Fd(), far.Fd()}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, &session.Error{Code: session.ErrInternal, Message: "the supervisor of commands cannot be started; no command was", Place: name, Cause: err, Retryable: true}
	}
	r.cfg.hook("spawned")
	gone := make(chan struct{})
	go func() {
		// the supervisor ends by itself; Wait4 only removes its entry from the process
		// table
		_, _ = unix.Wait4(pid, nil, 0, nil)
		close(gone)
	}()
	conn, err := net.FileConn(near)
	if err != nil {
		return nil, fmt.Errorf("use socket pair: %w", err)
	}
	c := newClient(conn.(*net.UnixConn))
	c.gone = gone
	return c, nil
}

// withheld returns the error if this system, for instance a sandbox, does not offer a
// service that every system has.
func withheld(what string, err error) error {
	err = fmt.Errorf("%s: %w", what, err)
	if starved(err) {
		return err
	}
	return &session.Error{Code: session.ErrEnvironment, Cause: err, Retryable: true,
		Message: "the supervisor of commands cannot be started, which takes /dev/null and unix sockets (in a unit of systemd: RestrictAddressFamilies=AF_UNIX); no command was"}
}

// own returns a path that executes this program. It is path, unless another file, or
// none, is there since the program was started.
func own(path string) string {
	// only Linux has it
	const self = "/proc/self/exe"
	now, err := os.Stat(path)
	if me, unknown := os.Stat(self); unknown == nil && (err != nil || !os.SameFile(now, me)) {
		return self
	}
	return path
}

// socketPair makes two connected sockets that no other child inherits.
func socketPair() (near, far *os.File, err error) {
	syscall.ForkLock.RLock()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "near"), os.NewFile(uintptr(fds[1]), "far"), nil
}
