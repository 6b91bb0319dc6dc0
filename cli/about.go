package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/config"
	"github.com/acode-dev/acode/plan"
	"github.com/acode-dev/acode/terminal"
)

func (i *Invocation) configCommand() *cobra.Command {
	var origin bool
	show := &cobra.Command{Use: "show", Short: "Show every value in force", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		s, err := i.setup(nil)
		if err != nil {
			return err
		}
		settings := make([]terminal.Setting, len(s.Settings.Values))
		for at, v := range s.Settings.Values {
			settings[at] = terminal.Setting(v)
		}
		return i.Page().ConfigShow(settings, origin)
	}}
	show.Flags().BoolVar(&origin, "origin", false, "show where each value comes from")
	validate := &cobra.Command{Use: "validate", Short: "Check the configuration", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		s, err := i.setup(nil)
		if err != nil {
			return err
		}
		for _, w := range s.Settings.Warnings {
			fmt.Fprintln(i.Err, "warning: "+terminal.Clean(w))
		}
		if i.JSON {
			return terminal.JSON(i.Out, map[string]any{"v": 1, "valid": true, "warnings": s.Settings.Warnings})
		}
		_, err = fmt.Fprintln(i.Out, "Configuration valid")
		return err
	}}
	return Group("config", "Show and check the configuration", show, validate)
}

func (i *Invocation) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use: "schema plan|config|events", Short: "Print a JSON Schema", Args: cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"plan", "config", "events"},
		RunE: func(_ *cobra.Command, args []string) error {
			schema := map[string]func() []byte{"plan": plan.Schema, "config": config.Schema, "events": func() []byte { return []byte(eventsSchema) }}
			_, err := fmt.Fprintln(i.Out, string(schema[args[0]]()))
			return err
		},
	}
}

func (i *Invocation) exitCodesCommand() *cobra.Command {
	return &cobra.Command{Use: "exit-codes", Short: "List what each exit status means", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		return i.Page().ExitCodes(exitCodes())
	}}
}
