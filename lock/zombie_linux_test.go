package lock_test

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/lock"
)

// A holder that was killed and not waited for yet is not alive, and its lock is free.
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
