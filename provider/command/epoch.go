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
	// patience limits the wait for a frozen supervisor or acode.
	patience  = 10 * time.Second
	shortWait = 20 * time.Millisecond
)

// epochFile holds the highest announced epoch. The process that starts a command holds
// the file shared, from the check until the command has started. The process that raises
// the epoch holds it exclusively. So once an epoch is announced, no older command starts
// (C3). The file needs no fsync: a restart of the machine leaves no late holder.
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
		// closing gives up the lock
		_ = f.Close()
		return nil, err
	}
	return &epochFile{f}, nil
}

// samePath returns an error unless path still names f: a lock on a file that was removed
// or replaced excludes no other process.
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

// retry calls try every few milliseconds until it is done, ctx ends, or limit has passed.
// dir is the directory of the session.
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

// rest waits for d and returns false if ctx ended first.
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

// checkEpoch returns ErrCorrupt if the epoch file of dir is damaged. It takes no lock.
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

// close loses no data: a write that matters returned before.
func (e *epochFile) close() { _ = e.f.Close() }

// highest reads the epoch. An empty file is epoch 0, and so is a file of zeros: after a
// power cut the length may be there without the content.
func (e *epochFile) highest() (uint64, error) {
	b := make([]byte, epochBytes)
	n, err := e.f.ReadAt(b, 0)
	// the file may be shorter than b
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

// admit returns ErrFenced if a later epoch was announced.
func (e *epochFile) admit(epoch uint64) error {
	highest, err := e.highest()
	if err != nil {
		return err
	}
	if epoch < highest {
		return &session.Error{Code: session.ErrFenced, Next: session.Then("see which process executes it", session.MoveStatus, sessionOf(e.f.Name())),
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
