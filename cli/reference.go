package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/app"
)

// referenceCommand prints the reference of the command line, from which docs/ is made, or
// writes it as manual pages.
func (i *Invocation) referenceCommand() *cobra.Command {
	var manual string
	c := &cobra.Command{Use: "reference", Hidden: true, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		if manual != "" {
			return writeManual(cmd.Root(), manual)
		}
		_, err := fmt.Fprint(i.Out, reference(cmd.Root()))
		return err
	}}
	c.Flags().StringVar(&manual, "man", "", "write a manual page for each command into this `directory`")
	return c
}

// reference describes every command of root and their common flags.
func reference(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# Command line reference\n\nGenerated from the program by `make docs`.\n\n## Flags of every command\n\n```\n")
	b.WriteString(root.PersistentFlags().FlagUsages())
	b.WriteString("```\n")
	describe(&b, root)
	b.WriteString("\n## Exit statuses\n\n| exit | meaning | codes |\n|---|---|---|\n")
	for _, c := range exitCodes() {
		names := make([]string, len(c.Codes))
		for i, code := range c.Codes {
			names[i] = string(code)
		}
		fmt.Fprintf(&b, "| %d | %s | %s |\n", c.Exit, c.Meaning, strings.Join(names, ", "))
	}
	b.WriteString("\n## What each code means to you\n\n| code | exit | what to do |\n|---|---|---|\n")
	for _, c := range exitCodes() {
		for _, code := range c.Codes {
			fmt.Fprintf(&b, "| %s | %d | %s |\n", code, c.Exit, strings.ReplaceAll(new(Invocation).Spell(app.Hint(code)), "|", "\\|"))
		}
	}
	return b.String()
}

func describe(b *strings.Builder, c *cobra.Command) {
	for _, sub := range c.Commands() {
		if unlisted(sub) {
			continue
		}
		text := explained(sub)
		if sub.Runnable() && !sub.HasSubCommands() {
			fmt.Fprintf(b, "\n## %s\n\n%s\n\n```\n%s\n", sub.CommandPath(), text, sub.UseLine())
			if flags := sub.NonInheritedFlags().FlagUsages(); flags != "" {
				fmt.Fprintf(b, "\n%s", flags)
			}
			b.WriteString("```\n")
		}
		describe(b, sub)
	}
}

// unlisted reports whether the reference leaves a command out.
func unlisted(c *cobra.Command) bool {
	return c.Hidden || c.Name() == "help" || c.Name() == "completion"
}

// explained returns the first paragraph of a command's help.
func explained(c *cobra.Command) string {
	if c.Long == "" {
		return c.Short + "."
	}
	return c.Long
}
