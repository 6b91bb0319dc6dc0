// Command demo is the agent of `make demo-tools`: it makes a fixed list of calls, keeps a
// transcript of their answers, and continues from it after a kill, as real agents do.
//
// Its arguments are the transcript and the command line of the server of tools.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/acode-dev/acode/internal/caller"
)

// call is a call of the list.
type call struct {
	tool string
	args map[string]any
}

func run(text string) call { return call{"run_command", map[string]any{"command": text}} }

func calls() []call {
	return []call{
		{"write_file", map[string]any{"path": "NOTES.md", "content": "Shop 1.4\n"}},
		run("echo built >>ledger; sleep 3; echo shop.tar is ready"),
		{"edit_file", map[string]any{"path": "NOTES.md", "old_string": "1.4", "new_string": "1.4: faster"}},
		run("echo deployed >>ledger; sleep 3; echo deployed to production"),
		run("echo announced >>ledger; cat NOTES.md"),
	}
}

func main() {
	if err := work(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// thinking is how long the agent reads an answer, as a model would.
const thinking = 600 * time.Millisecond

// work makes the calls whose answers the transcript lacks.
func work(transcript string, server []string) error {
	kept, err := os.ReadFile(transcript)
	if err != nil {
		return err
	}
	cmd := exec.Command(server[0], server[1:]...)
	cmd.Stderr = os.Stderr
	c, err := caller.Start(cmd)
	if err == nil {
		err = c.Hello("demo", nil)
	}
	if err != nil {
		return err
	}
	out, err := os.OpenFile(transcript, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	for n, want := range calls() {
		if n < strings.Count(string(kept), "\n") {
			continue
		}
		answer, err := carryOut(c, want)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%d %s\n", n+1, answer.Structured.Operation); err != nil {
			return err
		}
	}
	return c.End()
}

// carryOut makes a call until it has a result.
func carryOut(c *caller.Client, want call) (caller.Result, error) {
	for {
		<-time.After(thinking)
		fmt.Println("  →", want)
		r, err := c.Call(want.tool, want.args)
		if err != nil {
			return r, err
		}
		for line := range strings.Lines(r.Structured.Text) {
			if line = strings.TrimSpace(line); line != "" {
				fmt.Println("  ←", line)
			}
		}
		switch r.Structured.Outcome {
		case "done":
			return r, nil
		case "told":
		case "running":
			want = call{"wait_command", map[string]any{"handle": r.Structured.Handle}}
		default:
			return r, fmt.Errorf("%s: %s", want, r.Structured.Outcome)
		}
	}
}

// String returns a call as the demo shows it.
func (c call) String() string {
	for _, name := range []string{"command", "path", "handle"} {
		if v, ok := c.args[name]; ok {
			return fmt.Sprint(c.tool, "  ", v)
		}
	}
	return c.tool
}
