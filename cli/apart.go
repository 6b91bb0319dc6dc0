package cli

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/app"
)

// Flags for Apart. People do not type them.
const (
	sessionFlag = "session-id"
	afterFlag   = "after-epoch"
)

// hide hides a flag of cmd from people.
func hide(cmd *cobra.Command, flag string) { _ = cmd.Flags().MarkHidden(flag) } // the flag exists

// Apart returns the command line of a process that executes a session apart from this
// one. It prints one line of JSON, about its end.
func (i *Invocation) Apart(o app.Apart) ([]string, error) {
	program, err := otherProgram("acode")
	if err != nil {
		return nil, err
	}
	args := []string{program, "run", "-", "--" + sessionFlag, string(o.Session)}
	if !o.Fresh {
		changes := "abort"
		if o.Override {
			changes = app.ContinueOnChanges
		}
		args = []string{program, "resume", string(o.Session), "--" + afterFlag, strconv.FormatUint(o.After, 10), "--on-changes", changes}
	}
	if o.Params != "" {
		args = append(args, "--params", o.Params)
	}
	args = append(args, "--json", "--quiet", "--no-input", "-C", o.Workspace)
	if i.config != "" {
		args = append(args, "--config", i.config)
	}
	for _, dir := range i.allow {
		args = append(args, "--allow-workspace", dir)
	}
	return args, nil
}
