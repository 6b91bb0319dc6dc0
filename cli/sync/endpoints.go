package syncer

import (
	"context"
	"errors"
	"os"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/remote"
	"github.com/acode-dev/acode/session"
)

// endpoints are an open store and the server that it delivers to.
type endpoints struct {
	*app.Site
	// store is the store of Site.
	store  *local.Store
	outbox *local.Outbox
	server *remote.Server
	syncer *outbox.Syncer
}

// remoteOptions returns the options for the configured server.
func remoteOptions(s *app.Setup) remote.Options {
	c := s.Settings.Config.Sync
	return remote.Options{URL: c.URL, Now: s.Now, AllowPlaintext: c.AllowPlaintext}
}

// open opens the store and the server for command. It does not connect yet. Close the
// result.
func (p *program) open(ctx context.Context, command string, o outbox.Options) (*endpoints, error) {
	setup, err := p.Setup()
	if err != nil {
		return nil, err
	}
	return open(ctx, setup, command, o)
}

// withEndpoints opens the store and the server, calls f and closes them.
func (p *program) withEndpoints(ctx context.Context, command string, o outbox.Options, f func(*endpoints) error) error {
	l, err := p.open(ctx, command, o)
	if err != nil {
		return err
	}
	return errors.Join(f(l), l.close())
}

func open(ctx context.Context, setup app.Setup, command string, o outbox.Options) (l *endpoints, err error) {
	l = &endpoints{}
	if l.server, err = remote.Open(remoteOptions(&setup)); err != nil {
		return nil, err
	}
	if l.Site, err = app.Open(ctx, setup); err == nil {
		l.store = l.Store()
		l.outbox, err = l.store.Outbox(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	o.Source, o.Remote, o.Now, o.Paused = l.outbox, l.server, l.Now, l.outbox.Paused
	o.OnParked = outbox.OnParked(l.Settings.Config.Sync.OnParked)
	o.WholeOutputs = l.Settings.Config.Sync.WholeOutputs
	var waiting session.Backlog
	// The heartbeat keeps the knowledge of earlier processes about the server.
	if o.Heartbeat, _, waiting, err = l.store.Sync(ctx); err != nil {
		return nil, errors.Join(err, l.close())
	}
	boundMemory(waiting.Sessions)
	o.Heartbeat.PID, o.Heartbeat.StartedUS = os.Getpid(), l.Now().UnixMicro()
	o.Heartbeat.Command, o.Heartbeat.Address = command, l.server.Address()
	l.syncer = outbox.New(o)
	return l, nil
}

func (l *endpoints) close() error {
	var errs []error
	if l.server != nil {
		errs = append(errs, l.server.Close())
	}
	if l.outbox != nil {
		errs = append(errs, l.outbox.Close())
	}
	if l.Site != nil {
		errs = append(errs, l.Site.Close())
	}
	return errors.Join(errs...)
}
