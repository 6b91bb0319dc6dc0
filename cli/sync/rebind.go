package syncer

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/outbox"
)

func (p *program) rebindCommand() *cobra.Command {
	var confirm string
	c := &cobra.Command{
		Use: "rebind", Short: "Accept another database as the server", Args: cobra.NoArgs,
		Long: "Accept the database at the configured address as the server, although another one acknowledged\nevents before. Everything is delivered to it from the beginning. Type the name of the database\nto confirm.",
		RunE: func(cmd *cobra.Command, _ []string) error { return p.rebind(cmd.Context(), confirm) },
	}
	c.Flags().StringVar(&confirm, "confirm", "", "`name` of the database, instead of typing it")
	return c
}

func (p *program) rebind(ctx context.Context, confirm string) error {
	return p.withEndpoints(ctx, "sync rebind", outbox.Options{}, func(l *endpoints) error {
		hello, err := l.server.Hello(ctx, l.outbox.Device())
		if err != nil {
			return outbox.Envelope(err)
		}
		if err := p.Confirm(hello.Remote.Database, confirm); err != nil {
			return err
		}
		if err := l.alone(ctx, func() error { return l.store.BindRemote(ctx, hello.Remote) }); err != nil {
			return err
		}
		return p.printStatus(ctx, l.Site)
	})
}
