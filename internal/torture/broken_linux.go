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

// endsAlone is how long acode, and what it leaves behind, may take to end once nothing can be written.
const endsAlone = 20 * time.Second

// breakDown carries the plan out anew on a disk that can no longer be written after some moment, and
// judges what a resume makes of it once there is a disk that works, with all that was on the old one. There
// is no trial when acode came to its end before that moment.
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

// suffer runs acode on the disk that breaks. It has to end, and to say that it did not do all.
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

// quiet waits until nobody uses the disk.
func (l *life) quiet(ctx context.Context, t *trial) {
	for left := l.Left(); len(left) > 0; left = l.Left() {
		select {
		case <-time.After(10 * time.Millisecond):
			continue
		case <-ctx.Done():
		}
		t.Breach("processes that do not end on a disk that cannot be written: %v", left)
		for _, p := range left {
			_ = unix.Kill(p.PID, unix.SIGKILL) // it may have ended by now
		}
		return
	}
}
