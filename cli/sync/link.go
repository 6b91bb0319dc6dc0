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

// link is a store and a server, with everything between them.
type link struct {
	*app.Site
	// of Site
	store  *local.Store
	outbox *local.Outbox
	server *remote.Server
	syncer *outbox.Syncer
}

// remoteOptions say which server is configured.
func remoteOptions(s *app.Setup) remote.Options {
	c := s.Settings.Config.Sync
	return remote.Options{URL: c.URL, Now: s.Now, AllowPlaintext: c.AllowPlaintext}
}

// open opens store and server; nothing is connected yet. Close it.
func (p *program) open(ctx context.Context, command string, o outbox.Options) (*link, error) {
	setup, err := p.Setup()
	if err != nil {
		return nil, err
	}
	return open(ctx, setup, command, o)
}

// linked opens store and server for f.
func (p *program) linked(ctx context.Context, command string, o outbox.Options, f func(*link) error) error {
	l, err := p.open(ctx, command, o)
	if err != nil {
		return err
	}
	return errors.Join(f(l), l.close())
}

func open(ctx context.Context, setup app.Setup, command string, o outbox.Options) (l *link, err error) {
	l = &link{}
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
	// what is known of the server outlives who found it out
	if o.Heartbeat, _, waiting, err = l.store.Sync(ctx); err != nil {
		return nil, errors.Join(err, l.close())
	}
	boundMemory(waiting.Sessions)
	o.Heartbeat.PID, o.Heartbeat.StartedUS = os.Getpid(), l.Now().UnixMicro()
	o.Heartbeat.Command, o.Heartbeat.Address = command, l.server.Address()
	l.syncer = outbox.New(o)
	return l, nil
}

func (l *link) close() error {
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
