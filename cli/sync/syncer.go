package syncer

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/cli"
	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/remote"
	"github.com/acode-dev/acode/session"
)

// syncerFlags are the flags of syncer.
type syncerFlags struct{ once, pprof bool }

func (p *program) syncerCommand() *cobra.Command {
	var f syncerFlags
	c := &cobra.Command{
		Use: "syncer", Short: "Deliver sessions for as long as it runs, with metrics and health", Args: cobra.NoArgs,
		Long: "Deliver sessions for as long as it runs. Serves /metrics, /healthz and /readyz at sync.listen.\nSIGHUP reads the configuration again; SIGTERM ends it within 5 seconds. While another process\ndelivers from this store, it waits, and takes over when that process ends.",
		RunE: func(cmd *cobra.Command, _ []string) error { return p.serve(cmd.Context(), f) },
	}
	c.Flags().BoolVar(&f.once, "once", false, "deliver pending events and exit")
	c.Flags().BoolVar(&f.pprof, "pprof", false, "serve /debug/pprof too")
	return c
}

// serve runs one syncer after another, a new one for each configuration.
func (p *program) serve(ctx context.Context, f syncerFlags) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	for {
		again, err := p.serveOnce(ctx, f, reload)
		if !f.once && errors.Is(err, context.Canceled) && ctx.Err() != nil {
			// a signal came while the store was opened
			return nil
		}
		if err != nil || !again {
			return err
		}
	}
}

// serveOnce runs a syncer until ctx ends. It returns again when the configuration must be
// read again.
func (p *program) serveOnce(ctx context.Context, f syncerFlags, reload <-chan os.Signal) (again bool, err error) {
	metrics := outbox.NewMetrics(cli.Version, runtime.Version())
	d := &daemon{program: p, metrics: metrics, turned: make(chan struct{}, 1)}
	setup, err := p.Setup()
	if err != nil {
		return false, err
	}
	setup.KeepLog = true
	if d.endpoints, err = open(ctx, setup, "syncer", outbox.Options{Metrics: metrics, OnState: d.changed, OnLane: d.troubled}); err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	d.files = newStoreMetrics(d.store)
	d.outbox.Observe(d.files.observer())
	metrics.Watch(func() outbox.Snapshot { return d.snapshot(ctx) })
	metrics.WatchWork(func() (session.Work, error) { return d.store.Work(ctx) })
	if f.once {
		return false, d.deliver(ctx, 0)
	}
	return d.run(ctx, f, reload)
}

// daemon is the syncer as a service.
type daemon struct {
	*program
	*endpoints
	metrics *outbox.Metrics
	files   *storeMetrics
	// turned receives a value when the state changed.
	turned chan struct{}
}

func (d *daemon) run(ctx context.Context, f syncerFlags, reload <-chan os.Signal) (again bool, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	l, err := listenAt(d.Settings.Config.Sync.Listen)
	if err != nil {
		return false, err
	}
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	all.Go(func() { d.web(ctx, l, f.pprof) })
	all.Go(func() { d.beatSystemd(ctx) })
	all.Go(func() { d.endpoints.listen(ctx) })
	all.Go(func() { d.drain(ctx) })
	replaced := make(chan struct{})
	all.Go(func() { d.watchStore(ctx, replaced) })
	d.Log.Info("started", "event", "syncer_started", "address", d.server.Address(), "listen", l.Addr().String())
	for {
		select {
		case <-ctx.Done():
			tellSystemd(systemd.SdNotifyStopping)
			d.Log.Info("stopped", "event", "syncer_stopped")
			return false, nil
		case <-replaced:
			err := &session.Error{Code: session.ErrStoreIO, Message: "the store was replaced while it was being delivered; delivery from the old store has stopped", Next: session.Words("start the syncer again to deliver from the new store")}
			d.Log.Error("ending", "event", "syncer_store", "error", err.Error())
			return false, err
		case <-reload:
			if err = d.usable(); err == nil {
				// Not stopping: systemd kills a service that announces its end and
				// continues.
				tellSystemd(systemd.SdNotifyReloading)
				d.Log.Info("reading the configuration again", "event", "syncer_reload")
				return true, nil
			}
			d.Log.Error("the new configuration is wrong; the old one stays", "event", "syncer_reload", "error", err.Error())
		}
	}
}

// storeSettles is how long another store must be unchanged before it counts as restored.
// While it is being copied, no process may write to it.
const storeSettles = 10 * time.Second

// watchStore closes replaced when another store has taken the place of the delivered one,
// for example from a backup. A syncer that starts again opens the new store.
func (d *daemon) watchStore(ctx context.Context, replaced chan<- struct{}) {
	var seen fs.FileInfo
	var since time.Time
	for ; ctx.Err() == nil; pause(ctx, time.Second) {
		now := d.outbox.Replaced()
		if now == nil || seen == nil || !os.SameFile(now, seen) || now.Size() != seen.Size() || !now.ModTime().Equal(seen.ModTime()) {
			seen, since = now, time.Now()
			continue
		}
		if time.Since(since) >= storeSettles {
			close(replaced)
			return
		}
	}
}

// usable reads the configuration again and returns the error that a syncer would start
// with. It accepts a configuration without a server: the start refuses it, and delivery
// must end then.
func (d *daemon) usable() error {
	setup, err := d.program.Setup()
	if err != nil {
		return err
	}
	server, err := remote.Open(remoteOptions(&setup))
	switch {
	case errors.Is(err, session.ErrSyncOff):
		return nil
	case err != nil:
		return err
	}
	err = server.Close()
	if where := setup.Settings.Config.Sync.Listen; err == nil && where != d.Settings.Config.Sync.Listen {
		var l net.Listener
		if l, err = listenAt(where); err == nil {
			err = l.Close()
		}
	}
	return err
}

// drain delivers whenever no other process does.
func (d *daemon) drain(ctx context.Context) {
	for ctx.Err() == nil {
		release, err := d.lead(ctx, "acode syncer")
		if err != nil {
			if ctx.Err() == nil {
				d.Log.Error("cannot drain", "event", "syncer_lock", "error", err.Error())
				pause(ctx, time.Second)
			}
			continue
		}
		// Run fails only with its context.
		_ = d.syncer.Run(ctx)
		// The end of this process releases the lock too.
		_ = release()
	}
}

func pause(ctx context.Context, t time.Duration) {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// snapshot returns the state of delivery: of this process while it delivers, or else from
// the records of the delivering process in the store.
func (d *daemon) snapshot(ctx context.Context) outbox.Snapshot {
	n := d.syncer.Snapshot()
	if !n.Leader {
		if seen, err := look(ctx, d.Site); err == nil {
			return seen
		}
	}
	n.Late = late(d.Site, n)
	return n
}

// changed logs each change of the connection's state.
func (d *daemon) changed(h session.Heartbeat) {
	level := slog.LevelInfo
	if h.State != session.SyncSynced && h.State != session.SyncPending {
		level = slog.LevelWarn
	}
	d.Log.Log(context.Background(), level, "delivery", "event", "sync_state", "state", string(h.State), "reason", h.Reason)
	select {
	case d.turned <- struct{}{}:
	default:
		// A change is announced already.
	}
}

// troubled logs a session that needs a person.
func (d *daemon) troubled(l session.Lane) {
	d.Log.Warn("a session needs a person", "event", "sync_lane", "session_id", string(l.Session), "state", string(l.State), "seq", l.Parked, "reason", l.Reason)
}
