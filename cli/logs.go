package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

func (i *Invocation) logsCommand() *cobra.Command {
	var o app.Logs
	cmd := &cobra.Command{
		Use: "logs [ID] [TASK/STEP]", Short: "Show the output of commands",
		Long: "Show all output of the commands of a session, standard output and standard error in their order,\nalso while they run. Secrets are masked. Without a step, each command's output follows its name.\nWith --json each line is an object. It has the time at which acode read the line, if acode read\nit while the command ran.",
		Args: cobra.MaximumNArgs(2), ValidArgsFunction: i.completeSession(anySession),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, a := range args {
				if strings.Contains(a, "/") {
					o.Step = a
				} else {
					o.Ref = a
				}
			}
			return i.reading(func(ctx context.Context, s *app.Site, _ string) error {
				to := io.Writer(i.Out)
				if term.IsTerminal(int(os.Stdout.Fd())) {
					to = &cleanWriter{to: to}
				}
				if i.JSON {
					return i.logLines(ctx, s, o)
				}
				if o.Step == "" {
					o.Begin = func(step session.StepID, attempt int) error {
						_, err := fmt.Fprintf(i.Out, "==> %s, attempt %d <==\n", step, attempt)
						return err
					}
				}
				return s.Logs(ctx, o, to)
			})(cmd, nil)
		},
	}
	cmd.Flags().BoolVarP(&o.Follow, "follow", "f", false, "continue with new output until the session stops")
	cmd.Flags().IntVar(&o.Attempt, "attempt", 0, "the attempt of this `number` instead of the latest one")
	return cmd
}

// logLines prints each line of the commands as run --json does.
func (i *Invocation) logLines(ctx context.Context, s *app.Site, o app.Logs) error {
	d := i.screen(s, true)
	d.printer = d.newPrinter(ctx.Done(), app.Delivery{})
	defer d.close()
	o.Tell = d.printer.Notice
	return s.Logs(ctx, o, nil)
}

// cleanWriter keeps control characters in the output of a command from reaching a
// terminal.
type cleanWriter struct {
	to io.Writer
	// rest is the beginning of an incomplete character.
	rest []byte
}

// Write implements io.Writer.
func (c *cleanWriter) Write(p []byte) (int, error) {
	b := append(c.rest, p...)
	end := len(b)
	for k := 1; k < utf8.UTFMax && k <= len(b); k++ {
		if at := len(b) - k; utf8.RuneStart(b[at]) {
			if !utf8.FullRune(b[at:]) {
				end = at
			}
			break
		}
	}
	c.rest = append([]byte(nil), b[end:]...)
	_, err := io.WriteString(c.to, terminal.CleanLines(string(b[:end])))
	return len(p), err
}
