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
		Use: "check FILE", Short: "Check a plan file: all its errors, and what to look at before it runs", Args: cobra.ExactArgs(1),
		Long: "Check a plan file: all its errors at once. Where it has none, warn of ${NAME} that nothing\ngives a value, of pipelines whose failures are ignored, of commands that cannot be parsed,\nand of commands whose outcome can become unknown and that have no check. - is standard\ninput. The exit status is 2 with errors, and 0 with warnings alone.",
		RunE: func(_ *cobra.Command, args []string) error { return i.checkFile(args[0]) },
	}
}

// checkJSON is what check found, for scripts.
type checkJSON struct {
	V        int         `json:"v"`
	File     string      `json:"file"`
	Errors   []foundJSON `json:"errors"`
	More     bool        `json:"more"` // there are more errors than are listed
	Warnings []foundJSON `json:"warnings"`
}

type foundJSON struct {
	Place   string `json:"place"`
	TaskID  string `json:"task_id,omitempty"`
	StepID  string `json:"step_id,omitempty"`
	Message string `json:"message"`
	Next    string `json:"next"`
}

// checkFile reads a plan and says what is wrong with it. It needs no workspace and no store.
func (i *Invocation) checkFile(file string) error {
	if file == "-" {
		file = "/dev/stdin"
	}
	data, err := plan.ReadFile(file)
	if err != nil {
		return err
	}
	r := plan.Check(file, data)
	status := 0
	if len(r.Errors) > 0 {
		status = exitFor(session.ErrPlan)
	}
	if i.JSON {
		err = terminal.JSON(i.Out, i.newCheckJSON(file, r))
	} else {
		_, err = fmt.Fprint(i.Out, i.checkText(file, r))
	}
	return errors.Join(err, quietExit(status))
}

func (i *Invocation) newCheckJSON(file string, r plan.Report) checkJSON {
	out := checkJSON{V: 1, File: file, Errors: []foundJSON{}, Warnings: []foundJSON{}, More: r.More}
	for _, err := range r.Errors {
		f := foundJSON{Message: err.Error()}
		var e *session.Error
		if errors.As(err, &e) {
			message, _, _ := strings.Cut(e.Message, "\n") // what follows shows the line to people
			f = foundJSON{Place: e.Place, Message: message, Next: i.Spell(e.Next)}
		}
		out.Errors = append(out.Errors, f)
	}
	for _, w := range r.Warnings {
		out.Warnings = append(out.Warnings, foundJSON{Place: w.Place, TaskID: w.Step.Task, StepID: w.Step.Step, Message: w.Message, Next: w.Next})
	}
	return out
}

func (i *Invocation) checkText(file string, r plan.Report) string {
	var b strings.Builder
	for _, err := range r.Errors {
		b.WriteString(err.Error() + "\n")
		var e *session.Error
		if errors.As(err, &e) && !e.Next.IsZero() {
			fmt.Fprintf(&b, "hint: %s\n", i.Spell(e.Next))
		}
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(&b, "%s: warning: %s: %s\n", terminal.Clean(w.Place), w.Step, terminal.Clean(w.Message))
		if w.Next != "" {
			fmt.Fprintf(&b, "hint: %s\n", terminal.Clean(w.Next))
		}
	}
	switch errs := terminal.Plural(len(r.Errors), "error"); {
	case r.More:
		fmt.Fprintf(&b, "%s: the first %s of more\n", terminal.Clean(file), errs)
	case len(r.Errors) > 0:
		fmt.Fprintf(&b, "%s: %s\n", terminal.Clean(file), errs)
	case len(r.Warnings) > 0:
		fmt.Fprintf(&b, "%s: no errors, %s\n", terminal.Clean(file), terminal.Plural(len(r.Warnings), "warning"))
	default:
		fmt.Fprintf(&b, "%s: no errors, no warnings\n", terminal.Clean(file))
	}
	return b.String()
}
