package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/internal/torture/scene"
)

// endsAlone is the time in which acode and its children must end on a disk that refuses
// writes.
const endsAlone = 20 * time.Second

// breakDown executes the plan on a disk that refuses writes after a random moment. It
// then judges a resume on a working disk with the same content. It returns no trial if
// acode ended before that moment.
func (l *life) breakDown(ctx context.Context, rng *rand.Rand) (*life, *trial, error) {
	broken := &life{Place: l.Place, kind: l.kind, dir: l.dir, disk: l.begun.Fork()}
	t := &trial{Case: scene.Case{Place: l.Place}}
	struck := false
	err := broken.mounted(func() error {
		broken.from = broken.disk.Len()
		broken.disk.Break(broken.from + rng.IntN(l.disk.Len()-l.from))
		err := broken.suffer(ctx, t)
		struck = broken.disk.Missed()
		return err
	})
	if err == nil && !struck && !t.Bad() {
		return nil, nil, nil
	}
	if err != nil || t.Bad() {
		return broken, t, err
	}
	boot, err := otherBoot(filepath.Join(l.dir, "current"), 1)
	if err != nil {
		return nil, nil, err
	}
	t.boot = boot
	next := &life{Place: l.Place, kind: l.kind, dir: l.dir, states: l.states, cuts: 1, after: broken.disk.Len(), disk: broken.disk.Fork()}
	return next, t, next.mounted(func() error { return next.goOn(ctx, t, nil, "resume") })
}

// suffer runs acode on the breaking disk. acode must end and report that it did not
// finish.
func (l *life) suffer(ctx context.Context, t *trial) error {
	limited, cancel := context.WithTimeout(ctx, endsAlone)
	defer cancel()
	cmd := t.command(limited, "run", "--plan", l.PlanFile())
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	t.printed.Write(out.Bytes())
	var exit *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &exit):
		return err
	case limited.Err() != nil:
		t.Stuck = fmt.Sprintf("acode does not end within %v on a disk that cannot be written: %s", endsAlone, stderr.String())
	case err == nil && l.disk.Missed():
		t.Breach("acode ends well on a disk that cannot be written")
	}
	l.quiet(limited, t)
	return nil
}

// quiet waits until no process uses the disk.
func (l *life) quiet(ctx context.Context, t *trial) {
	for left := l.Left(); len(left) > 0; left = l.Left() {
		select {
		case <-time.After(10 * time.Millisecond):
			continue
		case <-ctx.Done():
		}
		t.Breach("processes that do not end on a disk that cannot be written: %v", left)
		for _, p := range left {
			// The process may have ended.
			_ = unix.Kill(p.PID, unix.SIGKILL)
		}
		return
	}
}
