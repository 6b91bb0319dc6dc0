package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// endsAlone is how long acode, and what it leaves behind, may take to end once nothing can be written.
const endsAlone = 20 * time.Second

// breakDown carries the plan out anew on a disk that can no longer be written after some moment, and
// judges what a resume makes of it once there is a disk that works, with all that was on the old one.
func (l *life) breakDown(ctx context.Context, rng *rand.Rand) (*life, *trial, error) {
	broken := &life{place: l.place, kind: l.kind, dir: l.dir, disk: l.begun.Fork()}
	t := &trial{place: l.place}
	t.onSuper = 1 // a supervisor that cannot record the end of its command
	err := broken.mounted(func() error {
		broken.from = broken.disk.Len()
		broken.disk.Break(broken.from + rng.IntN(l.disk.Len()-l.from))
		return broken.suffer(ctx, t)
	})
	if err != nil || t.bad() {
		return broken, t, err
	}
	boot, err := otherBoot(filepath.Join(l.dir, "current"), 1)
	if err != nil {
		return nil, nil, err
	}
	t.boot = boot
	next := &life{place: l.place, kind: l.kind, dir: l.dir, states: l.states, cuts: 1, after: broken.disk.Len(), disk: broken.disk.Fork()}
	return next, t, next.mounted(func() error { return next.goOn(ctx, t, nil, "resume") })
}

// suffer runs acode on the disk that breaks. It has to end, and to say that it did not do all.
func (l *life) suffer(ctx context.Context, t *trial) error {
	limited, cancel := context.WithTimeout(ctx, endsAlone)
	defer cancel()
	cmd := t.command(limited, "run", "--plan", l.planFile())
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	t.printed.Write(out.Bytes())
	var exit *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &exit):
		return err
	case limited.Err() != nil:
		t.stuck = fmt.Sprintf("acode does not end within %v on a disk that cannot be written: %s", endsAlone, stderr.String())
	case err == nil:
		t.breach("acode ends well on a disk that cannot be written")
	}
	return l.quiet(limited, t)
}

// quiet waits until nobody uses the disk.
func (l *life) quiet(ctx context.Context, t *trial) error {
	for {
		users, err := usersOf(l.dir)
		if err != nil || len(users) == 0 {
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.breach("processes that do not end on a disk that cannot be written: %v", users)
			for pid := range users {
				_ = unix.Kill(pid, unix.SIGKILL) // it may have ended by now
			}
			<-time.After(time.Second)
			return nil
		}
	}
}

// usersOf lists the processes that were started below dir.
func usersOf(dir string) (map[int]string, error) {
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	users := map[int]string{}
	for _, at := range all {
		environ, _ := os.ReadFile(filepath.Join(at, "environ")) // one that has ended has none
		pid, err := strconv.Atoi(filepath.Base(at))
		if err != nil || pid == os.Getpid() || !strings.Contains(string(environ), dir+"/") {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(at, "cmdline"))
		users[pid] = strings.ReplaceAll(string(line), "\x00", " ")
	}
	return users, nil
}
