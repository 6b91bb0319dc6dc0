package people

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/acode-dev/acode/internal/torture/scene"
)

// typed is one command as a person typed it.
type typed struct {
	args     []string
	cmd      *exec.Cmd
	out, err bytes.Buffer
	// done is closed when the command has ended.
	done chan struct{}
	// failed is the error of starting or waiting; it is set once done is closed.
	failed error
	struck []syscall.Signal
	// person is at its terminal; nil means no person.
	person *dialogue
}

// outputLimit is how long the children of a process may keep its output open.
const outputLimit = 5 * time.Second

// begin starts acode with args in its own process group.
func (s *Scenario) begin(ctx context.Context, args []string) *typed {
	t := &typed{args: args, cmd: s.command(ctx, args...), done: make(chan struct{})}
	t.cmd.Stdout, t.cmd.Stderr, t.cmd.WaitDelay = &t.out, &t.err, outputLimit
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if t.failed = t.cmd.Start(); t.failed != nil {
		close(t.done)
		return t
	}
	go func() {
		defer close(t.done)
		t.failed = t.cmd.Wait()
	}()
	return t
}

// pause waits for d or until t has ended. It reports whether t has ended.
func (t *typed) pause(d time.Duration) (ended bool) {
	select {
	case <-t.done:
		return true
	case <-time.After(d):
		return false
	}
}

// signal sends sig to the process or to its group, unless the process has ended.
func (t *typed) signal(sig syscall.Signal, group bool) {
	select {
	case <-t.done:
		return
	default:
	}
	to := t.cmd.Process.Pid
	if group {
		to = -to
	}
	if syscall.Kill(to, sig) == nil {
		t.struck = append(t.struck, sig)
	}
}

// exit returns the exit status; it is exitKilled for a process that a signal ended.
func (t *typed) exit() int { return t.cmd.ProcessState.ExitCode() }

// killed reports whether a signal ended the process, even one that it could not handle
// yet.
func (t *typed) killed() bool { return t.exit() == scene.ExitKilled }

// executes reports whether the command executes a session.
func (t *typed) executes() bool {
	return (t.args[0] == "run" || t.args[0] == "resume") && !slices.Contains(t.args, "--dry-run")
}

// jsonFlag selects JSON Lines.
const jsonFlag = "--json"

// said returns the command and its result for a report.
func (t *typed) said() string {
	return fmt.Sprintf("acode %s: %v\n%s%s", strings.Join(t.args, " "), t.cmd.ProcessState, t.out.String(), t.err.String())
}

// unclean matches text that no output may contain: a crash of acode, or an unformatted
// value.
var unclean = regexp.MustCompile(`panic:|goroutine \d+ \[|runtime error|%!\w?\(|<nil>|0001-01-01|ACODE-INTERNAL`)

// statuses returns the allowed exit statuses of a command. A wrong configuration, a
// damaged journal and a general failure are not allowed.
func (t *typed) statuses() []int {
	switch {
	case t.executes():
		return []int{0, scene.ExitApproval, scene.ExitTimeout, scene.ExitDenied, scene.ExitNoneToCarry, scene.ExitOver, scene.ExitLocked, scene.ExitChanged, scene.ExitUncertain, scene.ExitFailed, 129, 130, 143}
	case t.args[0] == "resume":
		return []int{0, scene.ExitNoneToCarry, scene.ExitOver, scene.ExitLocked, scene.ExitChanged}
	case t.decides():
		return []int{0, scene.ExitUsage, scene.ExitOver}
	}
	return []int{0, scene.ExitUsage}
}

// decides reports whether the command decides about a session.
func (t *typed) decides() bool {
	return t.args[0] == "approve" || t.args[0] == "deny" || slices.Contains(t.args, "cancel")
}

// reads reports whether the command only reads.
func (t *typed) reads() bool { return !t.executes() && !t.decides() }

// judge checks the output and the end of a process.
func (t *typed) judge(breach func(string, ...any)) {
	if t.failed != nil && !errors.As(t.failed, new(*exec.ExitError)) {
		breach("acode %s: %v", t.args[0], t.failed)
	}
	if t.cmd.ProcessState == nil {
		return
	}
	text := t.out.String() + t.err.String()
	if m := unclean.FindString(text); m != "" {
		breach("acode %s says %q", t.args[0], m)
	}
	switch {
	case t.killed() && len(t.struck) == 0:
		breach("acode %s: %v", t.args[0], t.cmd.ProcessState)
	case !t.killed() && !slices.Contains(t.statuses(), t.exit()):
		breach("acode %s ends with %d", t.args[0], t.exit())
	}
	if slices.Contains(t.args, jsonFlag) && !t.killed() {
		if _, err := t.lines(); err != nil {
			breach("acode %s %s: %v", t.args[0], jsonFlag, err)
		}
	}
}

// result is the last of the JSON Lines of a process that executes.
type result struct {
	Type, State, Next string
	Exit              int
}

// lines reads the JSON Lines of a process and returns the last of them.
func (t *typed) lines() (last result, err error) {
	text := t.out.String()
	if !strings.HasSuffix(text, "\n") {
		return last, fmt.Errorf("no whole line: %q", text)
	}
	for line := range strings.Lines(text) {
		if !json.Valid([]byte(line)) {
			return last, fmt.Errorf("no JSON: %q", line)
		}
		if last.Type == "result" {
			return last, errors.New("a line follows the result")
		}
		last = result{}
		// Other kinds of lines have other fields.
		_ = json.Unmarshal([]byte(line), &last)
	}
	switch {
	case !t.executes() || t.exit() == scene.ExitUsage:
	case last.Type != "result":
		err = fmt.Errorf("the last line is no result: %q", last.Type)
	case last.Exit != t.exit():
		err = fmt.Errorf("the result says %d, the exit status is %d", last.Exit, t.exit())
	}
	return last, err
}
