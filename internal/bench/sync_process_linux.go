package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	manyEvents = 100_000
	fullEvents = 1_000_000
	// maxPeak is in MB.
	maxPeak     = 64
	maxPeakRise = 1.2

	idleTime = 20 * time.Second
	// idleShare is in percent of one processor.
	idleShare = 0.5

	idleSessions = 10

	statusRuns  = 30
	statusEmpty = 6
)

// many returns the length of the long backlog.
func (b *bench) many() int {
	if b.full {
		return fullEvents
	}
	return manyEvents
}

// processes measures acode-sync as a process: its memory while it drains a short and a
// long backlog, and its processor time while it is idle.
func (b *bench) processes(ctx context.Context, d *delivery) error {
	if err := d.build(ctx, b); err != nil {
		return err
	}
	var peaks []float64
	for _, events := range []int{fewEvents, b.many()} {
		peak, err := b.peakOf(ctx, d, events)
		if err != nil {
			return err
		}
		peaks = append(peaks, peak)
		b.report.count(fmt.Sprintf("peak RSS of the drainer, %d pending, MB", events), peak, maxPeak, "getrusage of acode sync now")
	}
	b.report.count("… flat: the long backlog / the short one", peaks[1]/peaks[0], maxPeakRise, "")
	return d.with(ctx, func(s *server) error { return b.idle(ctx, s) })
}

// peakOf returns the peak memory of acode-sync while it delivers a backlog, in MB.
func (b *bench) peakOf(ctx context.Context, d *delivery, events int) (peak float64, err error) {
	s, err := b.newSite(fmt.Sprintf("peak-%d", events), nil)
	if err != nil {
		return 0, err
	}
	k, err := newBacklog(ctx, s.home(), 1, events)
	if err != nil {
		return 0, err
	}
	if err := k.close(); err != nil {
		return 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	err = d.with(ctx, func(on *server) error {
		like := s.synced(ctx, on)
		cmd := exec.CommandContext(ctx, self, peakSwitch, d.program, "sync", "now", "--json")
		cmd.Dir, cmd.Env = like.Dir, like.Env
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("sync now: %w", err)
		}
		if peak, err = strconv.ParseFloat(strings.TrimSpace(string(out)), 64); err != nil {
			return err
		}
		return on.holds(ctx, k.events)
	})
	return peak, err
}

// idle measures a syncer that has delivered everything.
func (b *bench) idle(ctx context.Context, on *server) (err error) {
	s, err := b.newSite("idle", nil)
	if err != nil {
		return err
	}
	k, err := newBacklog(ctx, s.home(), idleSessions, fewEvents/idleSessions)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.close()) }()
	return s.syncing(ctx, on, []string{"syncer"}, func(cmd *exec.Cmd) error {
		for _, id := range k.sessions {
			if err := until(ctx, func() (bool, error) { return k.delivered(ctx, id) }); err != nil {
				return fmt.Errorf("wait for delivery: %w", err)
			}
		}
		begin, err := processorTime(cmd.Process.Pid)
		if err != nil {
			return err
		}
		start := nanos()
		select {
		case <-time.After(idleTime):
		case <-ctx.Done():
			return ctx.Err()
		}
		end, err := processorTime(cmd.Process.Pid)
		if err != nil {
			return err
		}
		share := 100 * float64(end-begin) / float64(nanos()-start)
		b.report.count("idle syncer, percent of a processor", share, idleShare, fmt.Sprintf("%s in %s, by the process's clock", time.Duration(end-begin).Round(time.Microsecond), idleTime))
		return nil
	})
}

// processorTime reads the processor time of another process, in nanoseconds.
func processorTime(pid int) (int64, error) {
	// scheduler selects the scheduler's clock among the clocks of a process.
	const scheduler = 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|scheduler, &ts); err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	return ts.Nano(), nil
}

// statuses compares acode status on a store with a long backlog with a program that does
// nothing. Neither asks a server.
func (b *bench) statuses(ctx context.Context) error {
	s, err := b.newSite("status", nil)
	if err != nil {
		return err
	}
	k, err := newBacklog(ctx, s.home(), 1, b.many())
	if err != nil {
		return err
	}
	if err := k.close(); err != nil {
		return err
	}
	var status, empty sample
	for range statusRuns {
		if err := empty.timed(exec.CommandContext(ctx, b.empty).Run); err != nil {
			return err
		}
		cmd := s.command(ctx, "status", "--json", string(k.sessions[0]))
		cmd.Env = append(cmd.Env, "ACODE_POSTGRES_URL=postgres://bench@127.0.0.1:9/bench")
		var out []byte
		if err := status.timed(func() (err error) { out, err = cmd.Output(); return err }); err != nil {
			return fmt.Errorf("status: %w", err)
		}
		if !strings.Contains(string(out), strconv.Itoa(k.events)) {
			return fmt.Errorf("status does not say that %d events are pending: %s", k.events, out)
		}
	}
	b.report.ratio(fmt.Sprintf("status with %d pending / empty Go program", k.events), status, empty, statusEmpty)
	return nil
}
