package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// writeManual writes a page of section 1 for root and for each command below it. The
// other programs write the pages of their own commands.
func writeManual(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return eachPage(root, func(c *cobra.Command) error {
		return os.WriteFile(filepath.Join(dir, pageName(c)+".1"), []byte(page(c)), 0o644)
	})
}

// eachPage calls f for c and for each listed command below it.
func eachPage(c *cobra.Command, f func(*cobra.Command) error) error {
	if c.DisableFlagParsing {
		return nil
	}
	if err := f(c); err != nil {
		return err
	}
	for _, sub := range c.Commands() {
		if unlisted(sub) {
			continue
		}
		if err := eachPage(sub, f); err != nil {
			return err
		}
	}
	return nil
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// page returns the manual page of c. It carries no date, so equal programs write equal
// pages.
func page(c *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"acode %s\" \"acode manual\"\n", strings.ToUpper(roff(pageName(c))), roff(Version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(pageName(c)), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(c.UseLine()))
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s\n", paragraphs(explained(c)))
	see := []string{}
	if c.HasParent() {
		see = append(see, pageName(c.Parent()))
	}
	if c.HasAvailableSubCommands() {
		b.WriteString(".SH COMMANDS\n")
	}
	for _, sub := range c.Commands() {
		if unlisted(sub) {
			continue
		}
		fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(sub.CommandPath()), roff(sub.Short))
		see = append(see, pageName(sub))
	}
	options(&b, "OPTIONS", c.NonInheritedFlags())
	options(&b, "OPTIONS OF EVERY COMMAND", c.InheritedFlags())
	if !c.HasParent() {
		b.WriteString(".SH EXIT STATUS\n")
		for _, e := range exitCodes() {
			fmt.Fprintf(&b, ".TP\n.B %d\n%s\n", e.Exit, roff(e.Meaning))
		}
	}
	if len(see) > 0 {
		b.WriteString(".SH SEE ALSO\n")
		for at, name := range see {
			end := ","
			if at == len(see)-1 {
				end = ""
			}
			fmt.Fprintf(&b, ".BR %s (1)%s\n", roff(name), end)
		}
	}
	return b.String()
}

// options writes a section for the flags that are not hidden.
func options(b *strings.Builder, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	b.WriteString(".SH " + title + "\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "\\fB" + roff("--"+f.Name) + "\\fR"
		if f.Shorthand != "" {
			name = "\\fB" + roff("-"+f.Shorthand) + "\\fR, " + name
		}
		if value != "" {
			name += " \\fI" + roff(value) + "\\fR"
		}
		fmt.Fprintf(b, ".TP\n%s\n%s\n", name, roff(usage))
	})
}

// paragraphs returns text as roff. Blank lines separate paragraphs.
func paragraphs(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for at, line := range lines {
		if lines[at] = roff(line); line == "" {
			lines[at] = ".PP"
		}
	}
	return strings.Join(lines, "\n")
}

// roff escapes a line so that none of its characters is markup.
func roff(line string) string {
	line = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(line)
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		line = `\&` + line
	}
	return line
}
