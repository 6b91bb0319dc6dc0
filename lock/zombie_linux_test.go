package lock_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/lock"
)

// A holder that was killed and is a zombie is not alive, and its lock is free.
func TestZombieHolder(t *testing.T) {
	path := lockPath(t)
	p := start(t, "holder", path)
	h, held, err := lock.Read(path)
	if err != nil || !held {
		t.Fatalf("Read: got %v, %v, want held", held, err)
	}
	err = errors.Join(p.Process.Kill(), unix.Waitid(unix.P_PID, p.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil))
	if err != nil {
		t.Fatal(err)
	}
	if h.Alive() {
		t.Error("Alive: got true for a zombie")
	}
	if err := acquire(t, path).Release(); err != nil {
		t.Error(err)
	}
}

// A holder whose main thread has ended while its other threads run is named, because it
// still executes.
func TestHolderWithoutItsMainThread(t *testing.T) {
	path := lockPath(t)
	p := start(t, "headless", path)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for b := []byte(nil); !bytes.Contains(b, []byte(") Z ")); <-tick.C {
		var err error
		if b, err = os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid)); err != nil {
			t.Fatal(err)
		}
	}
	h, held, err := lock.Read(path)
	if err != nil || !held || !h.Alive() {
		t.Errorf("Read: got %v, %v, %v, want it held by a process that lives", h, held, err)
	}
	_, err = lock.Acquire(path, self(t))
	var by *lock.HeldError
	if !errors.As(err, &by) || by.Holder.PID != p.Process.Pid {
		t.Errorf("Acquire: got %v, want it held by %d", err, p.Process.Pid)
	}
}
