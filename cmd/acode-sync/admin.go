package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/remote"
	"github.com/acode-dev/acode/terminal"
)

func (p *program) adminCommand() *cobra.Command {
	return group("admin", "Look after the server: migrate, devices, verify, prune", p.migrateCommand())
}

func (p *program) migrateCommand() *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use: "migrate", Short: "Bring the server's schema to this program's version", Args: cobra.NoArgs,
		Long: "Bring the server's schema to this program's version. Needs a role that may create a schema\nand roles. Laptops never do this by themselves.",
		RunE: func(cmd *cobra.Command, _ []string) error { return p.migrate(cmd.Context(), dryRun) },
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print the SQL and change nothing")
	return c
}

func (p *program) migrate(ctx context.Context, dryRun bool) error {
	s, err := p.Site()
	if err != nil {
		return err
	}
	var sql io.Writer
	if dryRun {
		sql = p.Out()
	}
	m, err := remote.Migrate(ctx, remoteOptions(s), sql)
	if err != nil || dryRun {
		return err
	}
	if p.JSON() {
		return terminal.JSON(p.Out(), map[string]any{"v": 1, "from": m.From, "to": m.To})
	}
	if m.From == m.To {
		_, err = fmt.Fprintf(p.Out(), "The schema is at version %d already.\n", m.To)
	} else {
		_, err = fmt.Fprintf(p.Out(), "Migrated the schema from version %d to %d.\n", m.From, m.To)
	}
	return err
}
