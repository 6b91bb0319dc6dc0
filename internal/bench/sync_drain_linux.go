package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

const (
	drainRuns = 15
	fewEvents = 10_000
	// drainOfRaw is the least rate, as a share of a raw COPY.
	drainOfRaw = 0.4

	farTrip   = 50 * time.Millisecond
	farRuns   = 5
	farEvents = 100_000
	// farRate is in events per second.
	farRate   = 20_000
	farLanes  = 4
	farOfNear = 0.3
)

// drains compares a drain on loopback with one raw COPY of the same events.
func (b *bench) drains(ctx context.Context, d *delivery) error {
	if err := b.drainsOf(ctx, d, fewEvents, drainRuns); err != nil || !b.full {
		return err
	}
	return b.drainsOf(ctx, d, 1_000_000, 3)
}

func (b *bench) drainsOf(ctx context.Context, d *delivery, events, runs int) (err error) {
	dir, err := b.place(fmt.Sprintf("drain-%d", events))
	if err != nil {
		return err
	}
	k, err := newBacklog(ctx, filepath.Join(dir, "home"), 1, events)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.close()) }()
	var delivered, plain sample
	for range runs {
		for _, f := range []func(*server) error{
			func(s *server) error { return k.copyPlain(ctx, s, &plain) },
			func(s *server) error { return k.drain(ctx, s, s.role, &delivered) },
		} {
			if err := d.with(ctx, f); err != nil {
				return err
			}
		}
	}
	b.report.atLeast(fmt.Sprintf("drain of %d events on loopback / raw COPY without index", events), delivered, plain, drainOfRaw)
	return nil
}

// farDrains measures drains over a line with a long delay.
func (b *bench) farDrains(ctx context.Context, d *delivery) error {
	var one, four, near sample
	for _, x := range []struct {
		lanes     int
		far, near *sample
	}{{1, &one, nil}, {farLanes, &four, &near}} {
		if err := b.farDrain(ctx, d, x.lanes, x.far, x.near); err != nil {
			return err
		}
	}
	b.report.rate(fmt.Sprintf("drain at %d ms round trip, one session", farTrip.Milliseconds()), one, farEvents, farRate)
	b.report.atLeast(fmt.Sprintf("drain at %d ms, %d sessions / the same on loopback", farTrip.Milliseconds(), farLanes), four, near, farOfNear)
	return nil
}

// farDrain drains a store of so many sessions over a line with a long delay. If near is
// not nil, it also drains over loopback, in turn.
func (b *bench) farDrain(ctx context.Context, d *delivery, lanes int, far, near *sample) (err error) {
	dir, err := b.place(fmt.Sprintf("far-%d", lanes))
	if err != nil {
		return err
	}
	k, err := newBacklog(ctx, filepath.Join(dir, "home"), lanes, farEvents/lanes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.close()) }()
	for range farRuns {
		err := d.with(ctx, func(s *server) error {
			return s.far(farTrip, func(address string) error { return k.drain(ctx, s, address, far) })
		})
		if err == nil && near != nil {
			err = d.with(ctx, func(s *server) error { return k.drain(ctx, s, s.role, near) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}
