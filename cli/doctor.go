package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/terminal"
)

func (i *Invocation) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Show what the sandbox of commands enforces on this machine", Args: cobra.NoArgs,
		Long: `Starts a command in a real sandbox, lets it try what a sandbox must refuse, and prints
what became of each act. The sandbox is that of commands that agents run, and of plans
with sandbox: on. The exit status is 1 if an act was not refused although the sandbox
promises it, and 3 if this machine cannot confine commands.`,
		RunE: func(*cobra.Command, []string) error {
			setup, err := i.setupIn("", nil)
			if err != nil {
				return err
			}
			d, err := setup.Examine()
			if err != nil {
				return err
			}
			return i.showDiagnosis(d)
		},
	}
}

func (i *Invocation) showDiagnosis(d app.Diagnosis) error {
	if i.JSON {
		if err := terminal.JSON(i.Out, d); err != nil {
			return err
		}
	} else if _, err := fmt.Fprint(i.Out, diagnosisText(d)); err != nil {
		return err
	}
	if !d.OK {
		return quietExit(1)
	}
	return nil
}

func diagnosisText(d app.Diagnosis) string {
	text := fmt.Sprintf("Commands of agents run in a sandbox (%s).\n", d.Enforced)
	for _, f := range d.Findings {
		word := "allowed"
		switch {
		case f.Refused:
			word = "refused"
		case f.Promised:
			word = "NOT REFUSED"
		}
		text += fmt.Sprintf("  %-11s  %s", word, f.Act)
		if f.Error != "" {
			text += ": " + terminal.Clean(f.Error)
		}
		text += "\n"
	}
	return text
}
