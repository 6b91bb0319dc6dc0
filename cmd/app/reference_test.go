package app

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var updateReference = flag.Bool("update-reference", false, "write docs/cli.md anew")

// docs/cli.md is generated from the program; `make docs` writes it.
func TestCLIReferenceIsTrue(t *testing.T) {
	const path = "../../docs/cli.md"
	want := reference()
	if *updateReference {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s is not what the program says (%v); run: make docs", path, err)
	}
}

func reference() string {
	root := (&app{}).root()
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
	for _, r := range exitTable() {
		fmt.Fprintf(&b, "| %s | %d | %s |\n", r.Code, r.Exit, strings.ReplaceAll(r.Hint, "|", "\\|"))
	}
	return b.String()
}

func describe(b *strings.Builder, c *cobra.Command) {
	for _, sub := range c.Commands() {
		if sub.Hidden || sub.Name() == "help" {
			continue
		}
		text := sub.Long
		if text == "" {
			text = sub.Short + "."
		}
		if sub.Runnable() {
			fmt.Fprintf(b, "\n## %s\n\n%s\n\n```\n%s\n", sub.CommandPath(), text, sub.UseLine())
			if flags := sub.NonInheritedFlags().FlagUsages(); flags != "" {
				fmt.Fprintf(b, "\n%s", flags)
			}
			b.WriteString("```\n")
		}
		describe(b, sub)
	}
}
