package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/acode-dev/acode/internal/caller"
)

// scriptedSwitch is the first argument of this program when it is the scripted agent of
// `make demo-tools`. It makes the calls of the demonstration, keeps a transcript of their
// answers, and continues from it after a kill, as real agents do. Then follow the
// transcript and the command line of the server of tools.
const scriptedSwitch = "agent"

// reading is how long the scripted agent reads an answer, as a model would.
const reading = 600 * time.Millisecond

// scriptedMain makes the calls whose answers the transcript lacks.
func scriptedMain(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("agent: got %d arguments, want a transcript and a server", len(args))
	}
	kept, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Stderr = os.Stderr
	c, err := caller.Start(cmd)
	if err == nil {
		err = c.Hello("demo", nil)
	}
	if err != nil {
		return err
	}
	out, err := os.OpenFile(args[0], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	for n, want := range demo() {
		if n < strings.Count(string(kept), "\n") {
			continue
		}
		answer, err := carryOutScripted(c, want)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%d %s\n", n+1, answer.Structured.Operation); err != nil {
			return err
		}
	}
	return c.End()
}

// carryOutScripted makes a call until it has a result.
func carryOutScripted(c *caller.Client, want call) (caller.Result, error) {
	for {
		<-time.After(reading)
		showCall(want.tool, want.args)
		r, err := c.Call(want.tool, want.args)
		if err != nil {
			return r, err
		}
		showAnswer(r.Structured.Text)
		switch r.Structured.Outcome {
		case "done":
			return r, nil
		case "told":
		case "running":
			want = call{tool: "wait_command", args: map[string]any{"handle": r.Structured.Handle}}
		default:
			return r, fmt.Errorf("%s: %s", want.tool, r.Structured.Outcome)
		}
	}
}
