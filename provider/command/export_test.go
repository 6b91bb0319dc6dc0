package command

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/process"
	"github.com/acode-dev/acode/session"
)

// SetHook makes the supervisor call hook at each named point.
func (c *SupervisorConfig) SetHook(hook func(string)) { c.hook = hook }

// SetHook makes the runner call hook at each named point.
func (c *Config) SetHook(hook func(string)) { c.hook = hook }

// ClaimPath returns the path of the claim of key.
func ClaimPath(dir, key string) string { return claimPath(dir, key) }

// Stem returns the part of file names that stands for key.
func Stem(key string) string { return stem(key) }

// AdmitUnreadable asks an epoch file that can be opened but not read whether it admits
// epoch.
func AdmitUnreadable(dir string, epoch uint64) error {
	f, err := os.OpenFile(filepath.Join(dir, "epoch"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return (&epochFile{f}).admit(epoch)
}

// Middle returns the part of a file of size bytes that is freed.
func Middle(size, limit, block int64) (from, to int64) { return middle(size, limit, block) }

// WriteFullExit writes an exit record with more leftovers, and longer texts, than can
// fit.
func WriteFullExit(path, key string, left int) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	e := exitBlock{Exit: 6, EndedUS: 1, StartError: strings.Repeat("é", 1000)}
	for i := range left {
		e.Left = append(e.Left, leftover{PID: 1 << 22, Start: uint64(i), Name: "a-name-of-15-by"})
	}
	return errors.Join(writeExit(f, key, e), f.Close())
}

// WriteUnknownExit writes that the outcome could not be made durable.
func WriteUnknownExit(path, key, why string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(writeExit(f, key, exitBlock{EndedUS: 1, Unknown: why}), f.Close())
}

// WriteOldBoot makes a claim that a supervisor left before the machine restarted.
func WriteOldBoot(dir, key string, version int) error {
	files, err := writeClaim(dir, "test-", header{V: version, State: stateClaimed, Key: key, Supervisor: process.ID{PID: 1, Boot: "earlier"}}, func(string) {})
	if err == nil {
		files.close()
	}
	return err
}

// HoldElsewhere makes a claim as a supervisor of another PID namespace would, and holds
// it until release.
func HoldElsewhere(dir, key string) (release func(), err error) {
	boot, err := process.Boot()
	if err != nil {
		return nil, err
	}
	files, err := writeClaim(dir, "test-", header{V: claimVersion, State: stateClaimed, Key: key,
		Supervisor: process.ID{PID: 1, Start: 1, Boot: boot, NS: 1}}, func(string) {})
	return files.close, err
}

// AskToEnd asks the supervisor of dir to end the command of key, and returns with its
// answer.
func AskToEnd(ctx context.Context, dir, key string) error {
	conn, err := askToEnd(ctx, nil, true, dir, key)
	if conn != nil {
		conn.close()
	}
	return err
}

// EndAll ends processes in the same way as those of a command. left returns the number of
// processes at each look; none of them is signalled.
func EndAll(ctx context.Context, left func() int) error {
	e := ending{grace: time.Millisecond, members: func() []process.Process {
		// its start time differs, so no signal reaches this process
		return slices.Repeat([]process.Process{{PID: os.Getpid()}}, left())
	}}
	_, err := e.run(ctx)
	return err
}

// StoreError returns the coded error for a failure of the claims' directory.
func StoreError(err error) error { return storeError("do it", err) }

// Send dials the supervisor of dir and sends op to it.
func Send(ctx context.Context, dir, op string) error {
	c, err := dial(dir)
	if err != nil || c == nil {
		return errors.Join(errLost, err)
	}
	defer c.close()
	return c.ask(ctx, message{Op: op})
}

// Spawned starts a supervisor even if another one lives, and sends op to it.
func (r *Runner) Spawned(ctx context.Context, op string) error {
	c, err := r.spawn()
	if err != nil {
		return err
	}
	defer c.close()
	return c.ask(ctx, message{Op: op})
}

// ErrLost is the error of a client whose connection ended before the answer.
var ErrLost = errLost

// Unread reports whether a request of r lies unread in the socket of its supervisor.
func Unread(r *Runner) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	raw, err := r.conn.conn.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	err = raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ) })
	return err == nil && n > 0
}

// LookIn looks at the claim at path through f, which was opened when it had that name.
func LookIn(f *os.File, path string) (session.CommandRecord, error) {
	rec, _, err := lookIn(f, path)
	return rec, err
}

// ExitAt is the offset of the exit record in a claim.
const ExitAt = exitAt

// EndWhileJudged makes a claim of this process and judges it. The command ends with
// status exit after the claim was read and before its lock is examined: the record is
// written and the lock is released.
func EndWhileJudged(dir, key string, exit int) (session.CommandRecord, error) {
	self, err := process.Self()
	if err != nil {
		return session.CommandRecord{}, err
	}
	files, err := writeClaim(dir, "test-", header{V: claimVersion, State: stateClaimed, Key: key, Supervisor: self}, func(string) {})
	if err != nil {
		return session.CommandRecord{}, err
	}
	f, err := openClaim(claimPath(dir, key))
	if err != nil {
		return session.CommandRecord{}, err
	}
	defer f.Close()
	rec, _, err := judgeBy(f, func(f *os.File) (bool, error) {
		if err := writeExit(files.w, key, exitBlock{Exit: exit, EndedUS: 1}); err != nil {
			return false, err
		}
		files.close()
		return lockFree(f)
	})
	return rec, err
}
