package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/plan"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

func (i *Invocation) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use: "check FILE", Short: "Check a plan file for errors and risks before it runs", Args: cobra.ExactArgs(1),
		Long: "Check a plan file and print all its errors at once. Without errors, it warns of ${NAME} that\nnothing gives a value, of pipelines whose failures are ignored and of commands that cannot be\nparsed. It also warns of commands without a check whose outcome can become unknown. - is\nstandard input. The exit status is 2 with errors, and 0 with warnings alone.",
		RunE: func(_ *cobra.Command, args []string) error { return i.checkFile(args[0]) },
	}
}

// checkJSON is the result of check for scripts.
type checkJSON struct {
	V      int       `json:"v"`
	File   string    `json:"file"`
	Errors []finding `json:"errors"`
	// More is set when there are more errors than Errors lists.
	More     bool      `json:"more"`
	Warnings []finding `json:"warnings"`
}

type finding struct {
	Place   string `json:"place"`
	TaskID  string `json:"task_id,omitempty"`
	StepID  string `json:"step_id,omitempty"`
	Message string `json:"message"`
	Next    string `json:"next"`
	// text is the finding as check prints it.
	text string
}

// checkFile reads a plan and reports its errors and warnings. It needs no workspace and
// no store.
func (i *Invocation) checkFile(file string) error {
	file = input(file)
	data, err := plan.ReadFile(file)
	if err != nil {
		return err
	}
	found := i.findings(file, plan.Check(file, data))
	status := 0
	if len(found.Errors) > 0 {
		status = exitFor(session.ErrPlan)
	}
	if i.JSON {
		err = terminal.JSON(i.Out, found)
	} else {
		_, err = fmt.Fprint(i.Out, found.text())
	}
	return errors.Join(err, quietExit(status))
}

func (i *Invocation) findings(file string, r plan.Report) checkJSON {
	out := checkJSON{V: 1, File: file, Errors: []finding{}, Warnings: []finding{}, More: r.More}
	for _, err := range r.Errors {
		f := finding{Message: err.Error(), text: err.Error()}
		var e *session.Error
		if errors.As(err, &e) {
			// The lines after the first quote the plan for people.
			f.Message, _, _ = strings.Cut(e.Message, "\n")
			f.Place, f.Next = e.Place, i.Spell(e.Next)
		}
		out.Errors = append(out.Errors, f)
	}
	for _, w := range r.Warnings {
		text := fmt.Sprintf("%s: warning: %s: %s", terminal.Clean(w.Place), w.Step, terminal.Clean(w.Message))
		out.Warnings = append(out.Warnings, finding{w.Place, w.Step.Task, w.Step.Step, w.Message, w.Next, text})
	}
	return out
}

func (c checkJSON) text() string {
	text := ""
	for _, f := range append(c.Errors, c.Warnings...) {
		text += f.text + "\n"
		if f.Next != "" {
			text += "hint: " + terminal.Clean(f.Next) + "\n"
		}
	}
	text += terminal.Clean(c.File) + ": "
	switch errs := terminal.Plural(len(c.Errors), "error"); {
	case c.More:
		return text + "the first " + errs + " of more\n"
	case len(c.Errors) > 0:
		return text + errs + "\n"
	case len(c.Warnings) > 0:
		return text + "no errors, " + terminal.Plural(len(c.Warnings), "warning") + "\n"
	}
	return text + "no errors, no warnings\n"
}
