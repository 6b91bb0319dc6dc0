package agent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/cli"
	"github.com/acode-dev/acode/cli/install"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

func (p *program) installCommand() *cobra.Command {
	return p.clientCommand("install", install.Add, "Add acode's tools to the configuration of an agent",
		`Shows the change that adds acode's tools to the configuration of Claude Code or Codex. It
switches off the agent's own tools that change something, and makes the agent ask before
commands, deletions and moves. --write makes the change. Other entries, their order and
comments stay as they are.`)
}

func (p *program) uninstallCommand() *cobra.Command {
	return p.clientCommand("uninstall", install.Remove, "Remove acode's tools from the configuration of an agent",
		`Shows the change that removes the entries that "acode install" added to the configuration
of Claude Code or Codex. --write makes the change. Every other byte stays.`)
}

type planner func(install.Client, install.Place) (install.Plan, error)

func (p *program) clientCommand(verb string, plan planner, short, long string) *cobra.Command {
	write, allow := false, []string{"files", "commands", "git"}
	var names []string
	for _, c := range install.Clients() {
		names = append(names, c.Name)
	}
	c := &cobra.Command{
		Use: verb + " " + strings.Join(names, "|"), Short: short, Long: long, Args: cobra.ExactArgs(1), ValidArgs: names,
		RunE: func(_ *cobra.Command, args []string) error {
			i := slices.Index(names, args[0])
			if i < 0 {
				return &session.Error{Code: session.ErrUsage, Message: fmt.Sprintf("%q is not an agent that acode knows; nothing was changed", args[0]),
					Next: session.Words("acode " + verb + " " + strings.Join(names, "|"))}
			}
			return p.configure(verb, install.Clients()[i], plan, write, allow)
		},
	}
	c.Flags().BoolVar(&write, "write", false, "change the files")
	if verb == "install" {
		c.Flags().StringSliceVar(&allow, "allow", allow, "what the agent may do without a question: "+cli.AllowUsage)
	}
	return c
}

// configure shows a plan, and carries it out with write.
func (p *program) configure(verb string, c install.Client, plan planner, write bool, allow []string) error {
	setup, err := p.SetupAllowing(allow)
	if err != nil {
		return err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return err
	}
	path, err := programPath()
	if err != nil {
		return err
	}
	planned, err := plan(c, install.Place{Home: home, Getenv: os.Getenv, Program: path, Allow: strings.Join(allow, ","), Records: setup.Settings.Config.Store.Home})
	if err != nil {
		return err
	}
	if write {
		if err := planned.Write(); err != nil {
			return err
		}
	}
	if p.JSON {
		return terminal.JSON(p.Out, planJSON(c, planned, write, setup.Redactor.String))
	}
	_, err = fmt.Fprint(p.Out, terminal.CleanLines(setup.Redactor.String(planText(verb, c, planned, write))))
	return err
}

// programPath returns the path of acode. The path in PATH comes first if it is this
// acode: it stays the same when a package manager installs another version.
func programPath() (string, error) {
	beside, err := cli.Supervisor()
	if err != nil {
		return "", err
	}
	if found, err := exec.LookPath("acode"); err == nil && same(found, beside) {
		beside = found
	}
	return filepath.Abs(beside)
}

func same(a, b string) bool {
	one, err := os.Stat(a)
	other, berr := os.Stat(b)
	return err == nil && berr == nil && os.SameFile(one, other)
}

// planText is the plan for a person.
func planText(verb string, c install.Client, plan install.Plan, written bool) string {
	diff := ""
	for _, change := range plan.Changes {
		diff += change.Diff()
	}
	if diff == "" {
		return "The configuration of " + c.Title + " needs no change.\n"
	}
	var b strings.Builder
	if verb == "install" {
		fmt.Fprintf(&b, "These checks of %s do not apply to acode's tools:\n", c.Title)
		bullets(&b, c.Unchecked)
		b.WriteString("\nThe change:\n")
		bullets(&b, c.Proposed)
		b.WriteString("\n")
	}
	b.WriteString(diff + "\n")
	switch {
	case !written:
		fmt.Fprintf(&b, "Nothing was changed. Make the change with: acode %s %s --write\n", verb, c.Name)
	case verb == "install":
		fmt.Fprintf(&b, "Written. Start %s again; `%s` shows acode. Undo it with: acode uninstall %s --write\n", c.Title, c.Then, c.Name)
	default:
		fmt.Fprintf(&b, "Written. Start %s again.\n", c.Title)
	}
	return b.String()
}

func bullets(b *strings.Builder, lines []string) {
	for _, line := range lines {
		fmt.Fprintf(b, "  - %s\n", line)
	}
}

// planned is the plan for scripts.
type planned struct {
	V       int       `json:"v"`
	Client  string    `json:"client"`
	Written bool      `json:"written"`
	Files   []changed `json:"files"`
}

type changed struct {
	Path string `json:"path"`
	Diff string `json:"diff"`
}

func planJSON(c install.Client, plan install.Plan, written bool, mask func(string) string) planned {
	out := planned{V: 1, Client: c.Name, Written: written, Files: []changed{}}
	for _, change := range plan.Changes {
		if diff := change.Diff(); diff != "" {
			out.Files = append(out.Files, changed{change.Path, mask(diff)})
		}
	}
	return out
}
