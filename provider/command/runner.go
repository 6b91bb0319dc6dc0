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
	// maxStarts limits the supervisors that may die under one request.
	maxStarts = 20
)

// Config says which session a Runner serves and how it starts the supervisor.
type Config struct {
	// Dir holds this session's claims and outputs. It is made with mode 0700.
	Dir string
	// Session is the session whose commands these are.
	Session session.ID
	// Epoch is the epoch under which this process executes.
	Epoch uint64
	// Share lets commands run beside those of other sessions.
	Share bool
	// Executable is an absolute path, which must call Supervise when it is started with
	// Args. Empty means this program.
	Executable string
	// Args are the arguments of Executable.
	Args []string
	// Env is the environment of the supervisor; nil means this process's own.
	Env []string
	Now func() time.Time
	// Poll is the time between two looks at a record in a wait; 0 means 50 ms.
	Poll time.Duration
	// Grace is the time between INT, TERM and KILL if there is no supervisor; 0 means 5
	// s.
	Grace time.Duration

	// hook is called at each point where a kill matters; nil does nothing.
	hook func(point string)
}

// Runner is the side of the executing process: it sends requests to the session's
// supervisor and reads the records. It is safe for concurrent use and implements
// engine.Commands.
type Runner struct {
	cfg Config
	mu  sync.Mutex
	// conn is nil until the first Run, and after a loss.
	conn *client
	// warm is the connection to a supervisor that was started and has no request yet, or
	// nil.
	warm *client

	// asked holds the digest of each request by its key.
	asked sync.Map
}

// NewRunner makes a Runner. It starts no process and touches no file.
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

// Close closes the connection to the supervisor. Commands continue to run. Close waits up
// to a second for the end of a supervisor that has had no request.
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
// it. Call it if a Run comes next. It announces no epoch and starts no command. Run
// reports a failure. A supervisor without a request ends with Close.
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
		// Run meets the error again
		r.warm, _ = r.spawn()
	}()
}

// Announce makes known that the session is executed under this Runner's epoch: when it
// returns, no command of an earlier epoch is started any more. It returns ErrFenced if a
// later epoch was announced. Run and Wait announce too. To call Announce right after the
// session was acquired closes the time until then.
func (r *Runner) Announce(ctx context.Context) error {
	if err := os.MkdirAll(r.cfg.Dir, 0o700); err != nil {
		return storeError("make the directory of the session's commands", err)
	}
	return announce(ctx, r.cfg.Dir, r.cfg.Epoch)
}

// Look reads the record of key. It starts and changes nothing.
func (r *Runner) Look(_ context.Context, key string) (session.CommandRecord, error) {
	rec, _, err := look(r.cfg.Dir, key)
	return rec, err
}

// Trace is Look, with a search for other traces if there is no claim. It asks the
// session's supervisor whether it claimed the key; the supervisor makes the claim of a
// running command again. If the claim is still missing, processes of the command and its
// output count. Trace starts nothing. It returns ErrLocked if the supervisor lives and
// does not answer.
func (r *Runner) Trace(ctx context.Context, key string) (session.CommandRecord, error) {
	rec, err := r.Look(ctx, key)
	if err != nil || rec.State != session.CommandUnclaimed {
		return rec, err
	}
	known, err := askClaimed(ctx, r.cfg.Dir, key)
	if err != nil {
		return rec, err
	}
	// the supervisor, or another process, may have made it by now
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

// wrote reports whether there is any output of the command of key.
func (r *Runner) wrote(key string) bool {
	return slices.ContainsFunc(outputSuffixes(), func(suffix string) bool {
		info, err := os.Lstat(filepath.Join(r.cfg.Dir, stem(key)+suffix))
		return err == nil && info.Size() > 0
	})
}

// Left describes the processes of the command of key that still run. It does not depend
// on the record, and there need not be one. These processes hold its claim, carry its
// key, or are in the leader's process session.
func (r *Runner) Left(_ context.Context, key string) ([]string, error) {
	return remains(r.cfg.Dir, key)
}

// Run makes sure that the command of req has been started exactly once, and returns its
// record when it is over. If ctx ends first, the command continues and Run returns the
// cause of ctx. Run returns ErrFenced if a later epoch was announced, and ErrConflict if
// the key was claimed for another command. If the supervisor refused the request, Run
// returns its reason, and nothing was claimed.
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
		// the command itself may have removed the claim: another request would start it
		// again
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

// Wait returns the record of a key that was claimed before, once the command is over. It
// returns at once for a key that was never claimed.
func (r *Runner) Wait(ctx context.Context, key string) (session.CommandRecord, error) {
	rec, err := r.Look(ctx, key)
	if err != nil || isOver(rec.State) || rec.State == session.CommandUnclaimed {
		return rec, err
	}
	if rec.State == session.CommandRunning {
		// A connection brings the wake sooner and keeps the supervisor for later
		// requests. Without a connection wait polls the record.
		if err := r.attach(ctx); errors.Is(err, session.ErrFenced) {
			return rec, err
		}
	}
	return r.wait(ctx, key)
}

// wait follows the record until it is over, by wakes and by polling.
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
			// finish has removed the mark of lost output
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

// removed returns the error for a claim that was there and is gone.
func removed(dir, key string) error {
	return corrupt(claimPath(dir, key), errors.New("it was removed"))
}

// wake returns a channel that closes when the supervisor reports that a command is over;
// nil if there is no connection.
func (r *Runner) wake() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn == nil || r.conn.isLost() {
		return nil
	}
	return r.conn.wake()
}

// Terminate ends the command of key and all its descendants with INT, TERM and KILL, and
// returns when they have ended. The record of a supervised command says cancelled. A
// command that this Runner requested and that has not started yet never starts, and its
// record says cancelled too: a slow or frozen supervisor may have the request and no
// claim.
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

// void claims key so that no supervisor starts its command. It returns errClaimed if a
// supervisor was faster, and errUnclaimed if this Runner did not request the key.
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

// Output opens the raw output of the command so far; the caller closes both streams. A
// line marks a freed middle. Output returns ErrCorrupt if a file is missing, or shorter
// than at the command's end. It leaves out output that descendants wrote after that end.
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
	// os.Remove makes two system calls if the file is gone
	if err := unix.Unlink(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return diskError("the output of a command could not be removed; everything committed before is kept", err)
	}
	return nil
}

// ForgetAll removes the output files of every command below dir. The directory must
// belong to a session that is over: no receipt will need them. The removal is durable
// when ForgetAll returns, also that of files that Forget removed. ForgetAll also removes
// unfinished files of killed processes. A directory that does not exist holds none.
func ForgetAll(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return diskError("the outputs of the session's commands could not be listed; everything committed before is kept", err)
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
