package cli

import (
	"os"
	"os/exec"
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

// Apart returns a process that executes a session apart from this one. It prints one line
// of JSON, about its end. confined runs the commands of a fresh session in a sandbox.
func (i *Invocation) Apart(o app.Apart, confined bool) (*exec.Cmd, error) {
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
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = os.Environ()
	if o.Fresh && confined {
		cmd.Env = append(cmd.Env, "ACODE_SANDBOX=on") // a flag would hold for this process only
	}
	return cmd, nil
}
