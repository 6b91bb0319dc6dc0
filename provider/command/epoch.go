package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/session"
)

const (
	epochBytes = 256
	// with a supervisor or an acode that is frozen
	patience  = 10 * time.Second
	shortWait = 20 * time.Millisecond
)

// epochFile holds the highest epoch that was announced. Whoever starts a command holds it
// shared from the check until the command has started, whoever raises it holds it
// exclusively: once an epoch is announced nothing older starts (C3). It needs no fsync: a
// machine that restarts leaves no late holder behind.
type epochFile struct{ f *os.File }

// lockEpoch opens and locks the epoch file of dir; how is unix.LOCK_SH or unix.LOCK_EX.
func lockEpoch(ctx context.Context, dir string, how int) (*epochFile, error) {
	path := filepath.Join(dir, "epoch")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, storeError("open the epoch file", err)
	}
	err = retry(ctx, dir, patience, func() (bool, error) {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		return !errors.Is(err, unix.EWOULDBLOCK), err
	})
	if err == nil {
		err = samePath(f, path)
	}
	if err != nil {
		// gives the lock up
		_ = f.Close()
		return nil, err
	}
	return &epochFile{f}, nil
}

// samePath returns an error unless path still names f: a lock on a file that was removed
// or replaced excludes nobody.
func samePath(f *os.File, path string) error {
	open, err := f.Stat()
	if err != nil {
		return fmt.Errorf("stat lock: %w", err)
	}
	named, err := os.Lstat(path)
	if err != nil || !os.SameFile(open, named) {
		return &session.Error{Code: session.ErrLocked, Message: "a lock file was replaced while it was being locked; nothing was started", Place: path, Retryable: true, Cause: err}
	}
	return nil
}

// retry calls try, for the session whose directory is dir, every few milliseconds until
// it is done, ctx ends, or limit has passed.
func retry(ctx context.Context, dir string, limit time.Duration, try func() (done bool, err error)) error {
	tick := time.NewTicker(shortWait)
	defer tick.Stop()
	over := time.NewTimer(limit)
	defer over.Stop()
	for {
		if done, err := try(); done {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-over.C:
			return &session.Error{Code: session.ErrLocked, Message: "the session's supervisor, or another acode, does not answer; nothing was started",
				Next: session.Then("see with", session.MoveUnlock, filepath.Base(dir)), Retryable: true}
		case <-tick.C:
		}
	}
}

// rest waits d and reports whether ctx goes on.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// checkEpoch returns ErrCorrupt when the epoch file of dir is damaged. It takes no lock.
func checkEpoch(dir string) error {
	path := filepath.Join(dir, "epoch")
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return unread(path, err)
	}
	e := &epochFile{f}
	defer e.close()
	_, err = e.highest()
	return err
}

// nothing is written that a close could lose
func (e *epochFile) close() { _ = e.f.Close() }

// highest reads the epoch. An empty file is epoch 0, and so is one of zeros: a power cut
// may leave the length of what was never written.
func (e *epochFile) highest() (uint64, error) {
	b := make([]byte, epochBytes)
	n, err := e.f.ReadAt(b, 0)
	// it may say more than was read
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, unread(e.f.Name(), err)
	}
	if len(bytes.Trim(b[:n], "\x00")) == 0 {
		return 0, nil
	}
	if n != epochBytes {
		return 0, corrupt(e.f.Name(), err)
	}
	var epoch uint64
	if _, err := decodeBlock("epoch", "", b, &epoch); err != nil {
		return 0, corrupt(e.f.Name(), err)
	}
	return epoch, nil
}

// admit returns ErrFenced when a later epoch than epoch was announced.
func (e *epochFile) admit(epoch uint64) error {
	highest, err := e.highest()
	if err != nil {
		return err
	}
	if epoch < highest {
		return &session.Error{Code: session.ErrFenced, Next: session.Then("see who executes it", session.MoveStatus, sessionOf(e.f.Name())),
			Message: fmt.Sprintf("another acode took the session over (epoch %d, ours is %d); the command was not started", highest, epoch)}
	}
	return nil
}

// announce makes epoch the highest, or returns ErrFenced.
func announce(ctx context.Context, dir string, epoch uint64) error {
	e, err := lockEpoch(ctx, dir, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer e.close()
	if err := e.admit(epoch); err != nil {
		return err
	}
	b, err := encodeBlock("epoch", "", epochBytes, epoch)
	if err != nil {
		return err
	}
	if _, err := e.f.WriteAt(b, 0); err != nil {
		return storeError("write the epoch", err)
	}
	return nil
}
