package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/acode-dev/acode/internal/pgwire"
	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
)

const (
	partitionWindows = 60
	// partitionEvery spans several calls and waits of the syncer.
	partitionEvery   = 500 * time.Millisecond
	partitionOfAlone = 1.3
)

// partitions compares steps without a network to steps of a store without a syncer. The
// syncer notices the missing network only by its deadlines. Both sides run at once, and
// their windows alternate.
func (b *bench) partitions(ctx context.Context) (err error) {
	d := &delivery{}
	if err := d.build(ctx, b); err != nil {
		return err
	}
	var steppers [2]*stepper
	for i, name := range []string{"partition", "partition-alone"} {
		if steppers[i], err = b.newStepper(ctx, name, partitionWindows); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, steppers[i].close()) }()
	}
	apart, alone := steppers[0], steppers[1]
	h := &holder{}
	defer h.close()
	// The proxy forwards nothing, so no server listens here.
	p := pgwire.New(h, "127.0.0.1:9")
	p.Set(pgwire.Hole())
	err = apart.site.syncing(ctx, &server{d: d, role: "postgres://bench@" + p.Addr() + "/bench"}, []string{"sync", "drain"}, func(*exec.Cmd) error {
		if err := until(ctx, func() (bool, error) { return p.Counts().Connections > 0, nil }); err != nil {
			return fmt.Errorf("wait for the syncer: %w", err)
		}
		return inTurn(ctx, apart, alone)
	})
	if err != nil {
		return err
	}
	if err := apart.cutOff(ctx); err != nil {
		return err
	}
	b.report.ratio("a step while the network is gone / a step without a server", apart.took, alone.took, partitionOfAlone,
		fmt.Sprintf("p99 %.2f (%s; %s ms)", apart.took.at(0.99)/alone.took.at(0.99), number(apart.took.at(0.99)/1e6), number(alone.took.at(0.99)/1e6)))
	return nil
}

// inTurn does windows of steps on both sides. The sides swap their order from pair to
// pair.
func inTurn(ctx context.Context, one, two *stepper) error {
	tick := time.NewTicker(partitionEvery)
	defer tick.Stop()
	for range partitionWindows {
		if err := errors.Join(window(ctx, one.w, &one.took), window(ctx, two.w, &two.took)); err != nil {
			return err
		}
		one, two = two, one
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// stepper does steps in its own store.
type stepper struct {
	site site
	st   *local.Store
	w    *local.Writer
	took sample
}

// newStepper makes a store with an executing session that has steps for the given number
// of windows.
func (b *bench) newStepper(ctx context.Context, name string, windows int) (*stepper, error) {
	s, err := b.newSite(name, nil)
	if err != nil {
		return nil, err
	}
	x := &stepper{site: s}
	if x.st, err = openStore(ctx, s.home()); err != nil {
		return nil, err
	}
	if x.w, err = newSession(ctx, x.st, windows*besideSteps+1); err == nil {
		err = start(ctx, x.w, 0)
	}
	if err != nil {
		return nil, errors.Join(err, x.st.Close())
	}
	return x, nil
}

func (x *stepper) close() error { return errors.Join(x.w.Close(), x.st.Close()) }

// cutOff returns an error unless a syncer found the server offline and delivered nothing.
// Nothing else shows that the measured situation happened.
func (x *stepper) cutOff(ctx context.Context) error {
	h, _, pending, err := x.st.Sync(ctx)
	if err == nil && (h.State != session.SyncOffline || pending.Events != x.w.Session().LastSeq) {
		err = fmt.Errorf("the network was not gone: %s, %d events pending of %d", h.State, pending.Events, x.w.Session().LastSeq)
	}
	return err
}
