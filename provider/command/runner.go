package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/process"
	"github.com/acode-dev/acode/session"
)

const (
	defaultPoll  = 50 * time.Millisecond
	defaultGrace = 5 * time.Second
	// supervisors that may die under one request
	maxStarts = 20
)

// Config says whose commands a Runner runs and how its supervisor is started.
type Config struct {
	// holds this session's claims and outputs; made with mode 0700
	Dir string
	// whose commands these are
	Session session.ID
	// under which this process executes
	Epoch uint64
	// its commands run beside those of other sessions
	Share bool
	// absolute; started as the supervisor, it calls Supervise. Empty is this very program
	Executable string
	// of Executable
	Args []string
	// of the supervisor; nil means this process's own
	Env []string
	Now func() time.Time
	// how often a record is read while it is waited for; 0 means 50 ms
	Poll time.Duration
	// between INT, TERM and KILL where there is no supervisor; 0 means 5 s
	Grace time.Duration

	// called at each point where a kill matters; nil does nothing
	hook func(point string)
}

// Runner is the executing process's side: it hands requests to the session's supervisor
// and reads the records. It is safe for concurrent use and implements engine.Commands.
type Runner struct {
	cfg Config
	mu  sync.Mutex
	// nil until the first Run, and after a loss
	conn *client
	// of a supervisor that was started and not asked for anything yet; nil: none
	warm *client

	// the digest of each request by its key
	asked sync.Map
}

// NewRunner makes a Runner. It starts nothing and touches no file.
func NewRunner(cfg Config) *Runner {
	if cfg.Poll <= 0 {
		cfg.Poll = defaultPoll
	}
	if cfg.Grace <= 0 {
		cfg.Grace = defaultGrace
	}
	if cfg.hook == nil {
		cfg.hook = func(string) {}
	}
	return &Runner{cfg: cfg}
}

// Close closes the connection to the supervisor. Commands run on. A supervisor that was
// asked for nothing has ended when Close returns, unless that takes long.
func (r *Runner) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn != nil {
		r.conn.close()
		r.conn = nil
	}
	if r.warm != nil {
		r.warm.close()
		limit := time.NewTimer(time.Second)
		defer limit.Stop()
		select {
		case <-r.warm.gone:
		case <-limit.C:
		}
		r.warm = nil
	}
	return nil
}

// Warm begins to start the session's supervisor, unless one lives, and does not wait for
// it: to be called when a Run comes next. It makes nothing known and starts no command.
// What goes wrong is met by Run, and a supervisor that nobody asks for anything ends with
// Close.
func (r *Runner) Warm() {
	r.mu.Lock()
	go func() {
		defer r.mu.Unlock()
		if r.conn != nil || r.warm != nil || os.MkdirAll(r.cfg.Dir, 0o700) != nil {
			return
		}
		if conn, err := dial(r.cfg.Dir); conn != nil || err != nil {
			if conn != nil {
				conn.close()
			}
			return
		}
		// see above
		r.warm, _ = r.spawn()
	}()
}

// Announce makes known that the session is executed under this Runner's epoch: when it
// returns, no command of an earlier epoch is started any more. It returns ErrFenced when
// a later epoch was announced. Run and Wait announce by themselves; to call it
// right after the session was acquired closes the time until then.
func (r *Runner) Announce(ctx context.Context) error {
	if err := os.MkdirAll(r.cfg.Dir, 0o700); err != nil {
		return storeError("make the directory of the session's commands", err)
	}
	return announce(ctx, r.cfg.Dir, r.cfg.Epoch)
}

// Look reads the record of key. It starts nothing and changes nothing.
func (r *Runner) Look(_ context.Context, key string) (session.CommandRecord, error) {
	rec, _, err := look(r.cfg.Dir, key)
	return rec, err
}

// Trace is Look, and where no record says that the command of key was started it looks
// for other traces: the session's supervisor is asked whether it claimed the key, and
// makes the claim of a command that runs again; without an answer there, processes of the
// command and what it wrote count. It starts nothing. It returns ErrLocked when the
// supervisor lives and does not answer.
func (r *Runner) Trace(ctx context.Context, key string) (session.CommandRecord, error) {
	rec, err := r.Look(ctx, key)
	if err != nil || rec.State != session.CommandUnclaimed {
		return rec, err
	}
	known, err := askClaimed(ctx, r.cfg.Dir, key)
	if err != nil {
		return rec, err
	}
	// made again, or made by now
	if rec, err = r.Look(ctx, key); err != nil || rec.State != session.CommandUnclaimed {
		return rec, err
	}
	if rec.Left, err = remains(r.cfg.Dir, key); err != nil {
		return rec, err
	}
	switch {
	case len(rec.Left) > 0:
		rec.State, rec.Why = session.CommandLingering, session.RecordLost+"; what it started still runs"
	case known || r.wrote(key):
		rec.State, rec.Why = session.CommandUnknown, session.RecordLost
	}
	return rec, nil
}

// wrote reports whether there is something that the command of key wrote.
func (r *Runner) wrote(key string) bool {
	return slices.ContainsFunc(outputSuffixes(), func(suffix string) bool {
		info, err := os.Lstat(filepath.Join(r.cfg.Dir, stem(key)+suffix))
		return err == nil && info.Size() > 0
	})
}

// Left lists what still runs of the command of key, whatever its record says, and also
// where there is none: processes that hold its claim, that carry its key, or that are in
// the leader's process session.
func (r *Runner) Left(_ context.Context, key string) ([]string, error) {
	return remains(r.cfg.Dir, key)
}

// Run makes sure that the command of req has been started exactly once, and returns its
// record when it is over. If ctx ends first the command goes on and Run returns ctx's
// cause. It returns ErrFenced when a later epoch was announced, ErrConflict when the key
// was claimed for another command, and the supervisor's reason when it refused: then
// nothing was claimed.
func (r *Runner) Run(ctx context.Context, req session.CommandRequest) (session.CommandRecord, error) {
	if err := checkRequest(req); err != nil {
		return session.CommandRecord{}, err
	}
	r.asked.Store(req.Key, digest(req))
	claimed := false
	for range maxStarts {
		rec, c, err := look(r.cfg.Dir, req.Key)
		if err != nil {
			return rec, err
		}
		r.cfg.hook("looked")
		if rec.State != session.CommandUnclaimed {
			if c.Header.Request != digest(req) {
				return rec, &session.Error{Code: session.ErrConflict, Message: "the key was claimed for another command; nothing was started", Place: req.Key}
			}
			return r.wait(ctx, req.Key)
		}
		// the command itself may have removed it: to ask again would start it again
		if claimed {
			return rec, removed(r.cfg.Dir, req.Key)
		}
		conn, err := r.connect(ctx)
		if err != nil {
			return session.CommandRecord{}, err
		}
		r.cfg.hook("connected")
		err = conn.ask(ctx, message{Op: opRun, Request: toRequest(req), Share: r.cfg.Share})
		if err != nil && !errors.Is(err, errLost) {
			return session.CommandRecord{}, err
		}
		if claimed = err == nil; !claimed && !rest(ctx, shortWait) {
			return session.CommandRecord{}, context.Cause(ctx)
		}
	}
	return session.CommandRecord{}, &session.Error{Code: session.ErrInternal, Retryable: true, Place: req.Key,
		Message: fmt.Sprintf("%d supervisors ended before they could start the command; it was not started", maxStarts),
		Next:    session.Words("see whether something ends them, or lets them start no threads (ulimit -u), then resume")}
}

// Wait returns the record of a key that was claimed before, once it is over. A key that
// was never claimed is returned as such at once.
func (r *Runner) Wait(ctx context.Context, key string) (session.CommandRecord, error) {
	rec, err := r.Look(ctx, key)
	if err != nil || isOver(rec.State) || rec.State == session.CommandUnclaimed {
		return rec, err
	}
	if rec.State == session.CommandRunning {
		// A connection brings the wake sooner and keeps the supervisor for what comes
		// next; without one the record is read again and again all the same.
		if err := r.attach(ctx); errors.Is(err, session.ErrFenced) {
			return rec, err
		}
	}
	return r.wait(ctx, key)
}

// wait follows the record until it is over, by wakes and by looking.
func (r *Runner) wait(ctx context.Context, key string) (session.CommandRecord, error) {
	tick := time.NewTicker(r.cfg.Poll)
	defer tick.Stop()
	var pipes standby
	defer pipes.close()
	for {
		wake := r.wake()
		rec, err := r.Look(ctx, key)
		if err == nil && pipes.follow(r.cfg.Dir, rec) {
			continue
		}
		if err == nil && rec.State == session.CommandUnknown && pipes.finish() {
			// which says that nothing was lost
			rec, err = r.Look(ctx, key)
		}
		if err != nil || isOver(rec.State) {
			r.cfg.hook("over")
			return rec, err
		}
		if rec.State == session.CommandUnclaimed {
			return rec, removed(r.cfg.Dir, key)
		}
		r.cfg.hook("waiting")
		select {
		case <-ctx.Done():
			return rec, context.Cause(ctx)
		case <-wake:
		case <-tick.C:
		}
	}
}

// removed is the error for a claim that was there and is not.
func removed(dir, key string) error {
	return corrupt(claimPath(dir, key), errors.New("it was removed"))
}

// wake gives a channel that closes when the supervisor says that a command is over; nil
// when nobody is connected.
func (r *Runner) wake() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn == nil || r.conn.isLost() {
		return nil
	}
	return r.conn.wake()
}

// Terminate ends the command of key and all its descendants and returns when they have
// ended: INT, TERM, KILL. The record of a supervised command says cancelled. One that
// this Runner was asked to run and that has not started yet never starts, and says so
// too: a supervisor that is slow, or frozen, may have the request and no claim.
func (r *Runner) Terminate(ctx context.Context, key string) error {
	for {
		err := cancelCommand(ctx, r.cfg.Dir, key, r.cfg.Grace)
		if !errors.Is(err, errUnclaimed) {
			return err
		}
		if voidErr := r.void(key); !errors.Is(voidErr, errClaimed) {
			return voidErr
		}
	}
}

// void claims key so that no supervisor starts its command. It returns errClaimed when
// one was faster, and errUnclaimed for a key that was not asked for here.
func (r *Runner) void(key string) error {
	request, ok := r.asked.Load(key)
	if !ok {
		return unclaimed(key)
	}
	self, err := process.Self()
	if err != nil {
		return fmt.Errorf("identify this process: %w", err)
	}
	if err := os.MkdirAll(r.cfg.Dir, 0o700); err != nil {
		return storeError("make the directory of the session's commands", err)
	}
	files, err := writeClaim(r.cfg.Dir, voidPrefix, header{V: claimVersion, State: stateVoid, Key: key, Epoch: r.cfg.Epoch,
		Session: r.cfg.Session, Request: request.(string), Supervisor: self, AtUS: r.cfg.Now().UnixMicro()}, r.cfg.hook)
	if files.w != nil {
		files.close()
	}
	return err
}

// Output opens what the command wrote so far, raw; the caller closes both. Where the
// middle was cut out, a line says so. It returns ErrCorrupt when a file is missing, or
// shorter than at the command's end. What descendants wrote after that end is left out.
func (r *Runner) Output(key string) (stdout, stderr io.ReadCloser, err error) {
	return openOutputsOf(r.cfg.Dir, key)
}

// Forget removes the output files of key. The claim stays: a key is never started again.
func (r *Runner) Forget(key string) error {
	var errs []error
	for _, suffix := range outputSuffixes() {
		errs = append(errs, removeOutput(filepath.Join(r.cfg.Dir, stem(key)+suffix)))
	}
	return errors.Join(errs...)
}

// removeOutput removes a file that may be gone already.
func removeOutput(path string) error {
	// os.Remove takes two calls where it is gone
	if err := unix.Unlink(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return diskError("what a command wrote could not be removed; everything committed before is kept", err)
	}
	return nil
}

// ForgetAll removes the output files of every command below dir, which belongs to a
// session that is over: no receipt will take them up. That they are gone is durable when
// it returns, also of those that Forget removed. With them goes what a killed supervisor
// left, whose next one would have removed it, and what a killed process left that held
// the session. A directory that does not exist holds none.
func ForgetAll(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return diskError("what the commands of the session wrote could not be listed; everything committed before is kept", err)
	}
	sweep(dir)
	var errs []error
	for _, e := range entries {
		left := strings.HasPrefix(e.Name(), voidPrefix) || strings.HasPrefix(e.Name(), adoptPrefix)
		if !left && !slices.Contains(outputSuffixes(), filepath.Ext(e.Name())) {
			continue
		}
		errs = append(errs, removeOutput(filepath.Join(dir, e.Name())))
	}
	return errors.Join(append(errs, syncDir(dir))...)
}

func outputSuffixes() []string {
	return []string{outSuffix, errSuffix, outSuffix + pipeSuffix, errSuffix + pipeSuffix}
}
