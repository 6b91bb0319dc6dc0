package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/process"
	"github.com/acode-dev/acode/session"
)

// Cancel ends the command of key and all its descendants, and returns when they have
// ended. The session may be executed by any process. Cancel asks a living supervisor,
// which records the end as cancelled. Without a supervisor Cancel ends the command's
// processes itself, and the outcome stays unknown. A command that is over stays as it is;
// a key that was never claimed is ErrCommand.
func Cancel(ctx context.Context, dir, key string) error {
	return cancelCommand(ctx, dir, key, defaultGrace)
}

var errUnclaimed = errors.New("its key is not claimed")

func unclaimed(key string) error {
	return &session.Error{Code: session.ErrCommand, Message: "no command with this key was ever started", Place: key, Cause: errUnclaimed}
}

func cancelCommand(ctx context.Context, dir, key string, grace time.Duration) error {
	var conn *client
	defer func() {
		if conn != nil {
			conn.close()
		}
	}()
	tick := time.NewTicker(shortWait)
	defer tick.Stop()
	for pass, unseen, unheard := 0, 0, 0; ; pass++ {
		rec, _, err := look(dir, key)
		if err != nil {
			return err
		}
		switch rec.State {
		case session.CommandUnclaimed:
			return unclaimed(key)
		case session.CommandFinished, session.CommandUnknown, session.CommandVoid:
			return nil
		case session.CommandRunning:
			if conn, err = askToEnd(ctx, conn, pass%askAgain == 0, dir, key); err != nil {
				return err
			}
			if unheard++; conn != nil {
				unheard = 0
			}
			if unheard == maxUnheard {
				return &session.Error{Code: session.ErrLocked, Message: "the session's supervisor lives and cannot be reached: its socket is gone, or /proc is not there; the command was not ended", Place: filepath.Join(dir, "s"),
					Next: session.Then("mount /proc, or end the command by its pid; to see it", session.MoveStatus, "")}
			}
		default:
			left, met, err := endHolders(ctx, dir, key, grace)
			if err != nil {
				return err
			}
			if unseen++; met {
				unseen = 0
			}
			if unseen == maxUnseen {
				return &session.Error{Code: session.ErrCommand, Message: "the process that holds the command's claim cannot be seen from here; the command was not ended", Place: key,
					Next: session.Words("end it where it runs, in another container (PID namespace) or as another user")}
			}
			if len(left) > 0 {
				return &session.Error{Code: session.ErrCommand, Message: "a process of the command runs with another user's rights and may not be signalled: " + describe(left[0]),
					Place: key, Next: session.Words("end it as that user, or wait for it")}
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// askAgain is the number of looks, about a second, after which Cancel asks a supervisor
// again: the supervisor may have been stopped since its answer.
const askAgain = 40

// askToEnd asks the supervisor. It opens a new connection if conn is nil or lost. Over a
// living connection it asks only if again is set.
func askToEnd(ctx context.Context, conn *client, again bool, dir, key string) (*client, error) {
	if conn != nil && !conn.isLost() && !again {
		return conn, nil
	}
	if conn == nil || conn.isLost() {
		var err error
		if conn, err = dial(dir); err != nil || conn == nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, frozen("the command ends once the supervisor continues"))
	defer cancel()
	if err := conn.ask(ctx, message{Op: opTerminate, Key: key}); err != nil {
		conn.close()
		if errors.Is(err, errLost) {
			return nil, nil
		}
		return nil, err
	}
	return conn, nil
}

// maxUnseen limits the looks that find no holder of a held claim. A process that forks
// and ends can slip through one look at the process table, but not through so many.
const maxUnseen = 50

// maxUnheard limits the failed connections to a supervisor that lives. A supervisor that
// is just ending, or just beginning, is soon reached or gone.
const maxUnheard = int(patience / shortWait)

// endHolders ends the processes that hold the claim of key when its supervisor is gone.
// It returns those that may not be signalled, and whether there were any holders.
func endHolders(ctx context.Context, dir, key string, grace time.Duration) (left []process.Process, met bool, err error) {
	f, err := openClaim(claimPath(dir, key))
	if err != nil {
		return nil, false, fmt.Errorf("open claim: %w", err)
	}
	defer func() { _ = f.Close() }()
	e := ending{grace: grace, members: func() []process.Process {
		var roots []int
		// a damaged claim names no leader
		c, _ := readClaim(f)
		// a process that could not be seen is found when the claim is judged again
		left, _ := members(f, key, c.leader())
		for _, p := range left {
			roots = append(roots, p.PID)
		}
		// an error has the same effect as above
		ps, _ := process.Table()
		// Cancel may be called from within the command
		own := func(p process.Process) bool { return p.PID == os.Getpid() }
		return slices.DeleteFunc(process.Below(ps, roots), own)
	}}
	left, err = e.run(ctx)
	return left, e.met, err
}

// ending ends a command: every member gets INT, then TERM, then KILL until none is left.
// grace is the wait after INT and after TERM. beyond holds the members that acode may not
// signal, and met is true once there was a member.
type ending struct {
	grace   time.Duration
	members func() []process.Process
	beyond  map[int]bool
	met     bool
}

// run returns when every member is gone except those that may not be signalled, which it
// returns.
func (e *ending) run(ctx context.Context) ([]process.Process, error) {
	e.beyond = map[int]bool{}
	tick := time.NewTicker(shortWait)
	defer tick.Stop()
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGTERM} {
		e.send(sig)
		grace := time.NewTimer(e.grace)
		gone, err := e.gone(ctx, tick.C, grace.C)
		grace.Stop()
		if gone || err != nil {
			return e.left(), err
		}
	}
	for {
		if e.send(unix.SIGKILL) == 0 {
			return e.left(), nil
		}
		select {
		case <-ctx.Done():
			return e.left(), context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// send signals every member and returns how many it could signal.
func (e *ending) send(sig unix.Signal) int {
	n := 0
	for _, p := range e.look() {
		e.met = true
		if e.beyond[p.PID] {
			continue
		}
		if err := p.Signal(sig); errors.Is(err, unix.EPERM) {
			e.beyond[p.PID] = true
			continue
		}
		n++
	}
	return n
}

// gone waits until every member that may be signalled is gone, and reports whether that
// came before limit.
func (e *ending) gone(ctx context.Context, tick, limit <-chan time.Time) (bool, error) {
	for {
		if e.reachable() == 0 {
			return true, nil
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-limit:
			return false, nil
		case <-tick:
		}
	}
}

func (e *ending) reachable() int {
	n := 0
	for _, p := range e.look() {
		if !e.beyond[p.PID] {
			n++
		}
	}
	return n
}

// look returns the members. It looks several times before it returns none: a process that
// ends while the process table is read, and the child that it has just started, can both
// slip through one look.
func (e *ending) look() []process.Process {
	ps := e.members()
	for again := 0; again < 3 && len(ps) == 0; again++ {
		ps = e.members()
	}
	return ps
}

func (e *ending) left() []process.Process {
	return slices.DeleteFunc(e.members(), func(p process.Process) bool { return !e.beyond[p.PID] })
}
