package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/acode-dev/acode/internal/crash"
	"github.com/acode-dev/acode/internal/torture/scene"
)

// maxProcesses is how often a trial starts acode before it counts as stuck: the run,
// three killed resumes, the one after the approval, and an answer for each kill.
const maxProcesses = 16

// kill is the kill of one process of a trial. Process 0 is the run, process 1 the first
// resume, and so on.
type kill struct {
	process int
	point   crash.Point
	// names counts only calls that change a directory of the workspace.
	names bool
}

// String returns the kill for reports.
func (k kill) String() string {
	what := "call"
	if k.names {
		what = "change of a directory"
	}
	return fmt.Sprintf("process %d, %s %s %d, %s, killing %s", k.process, k.point.Role, what, k.point.N, k.point.When, k.point.Victim)
}

// trial is one session from its run to its end.
type trial struct {
	scene.Case
	kills  []kill
	record func(crash.Call)
	// traced also traces approvals, for a complete recording.
	traced bool
	// strict means that no power was cut: output before an uncertain outcome must exist.
	strict bool
	// restored means that the files were judged but have new inodes and times, because an
	// image keeps neither. A person tells acode so.
	restored bool
	// boot is the file with the id of another boot for acode, or "".
	boot   string
	tracer *crash.Tracer
	// printed is all output of acode.
	printed strings.Builder
	// answers holds the captures declared done.
	answers map[string]bool
	// killed is by pid.
	killed map[int]bool
	// excused holds the keys of commands with an unknowable outcome.
	excused map[string]bool
	// ended holds the result of each process.
	ended []crash.Result
}

// run executes the trial from the plan to the end of the session.
func (t *trial) run(ctx context.Context) error {
	return t.carry(ctx, []string{"run", "--plan", t.PlanFile()})
}

// carry starts acode with args, and then with the arguments that a person would type,
// until the session is over.
func (t *trial) carry(ctx context.Context, args []string) error {
	t.tracer = crash.NewTracer()
	defer t.tracer.Close()
	t.answers, t.killed, t.excused = map[string]bool{}, map[int]bool{}, map[string]bool{}
	for n := range maxProcesses {
		res, stderr, err := t.process(ctx, n, args)
		if err != nil {
			return err
		}
		if t.Stuck != "" {
			return t.finish(ctx)
		}
		over, err := t.over(ctx, res)
		if err != nil {
			return err
		}
		if over {
			return t.finish(ctx)
		}
		if args, err = t.next(ctx, args, res, stderr); err != nil {
			return err
		}
		if t.Stuck != "" {
			return t.finish(ctx)
		}
	}
	t.Stuck = fmt.Sprintf("not at its end after %d processes", maxProcesses)
	return t.finish(ctx)
}

// over reports whether the session has ended. If the kill came between the last commit
// and the exit, there is nothing left to resume either.
func (t *trial) over(ctx context.Context, res crash.Result) (bool, error) {
	if res.ExitCode != scene.ExitNoneToCarry {
		return res.ExitCode == scene.ExitDone || res.ExitCode == scene.ExitFailed && t.Fails != "" && !t.Broken(), nil
	}
	s, err := t.readStore(ctx)
	return s.state == t.End(), err
}

// process runs acode once and checks its results.
func (t *trial) process(ctx context.Context, n int, args []string) (crash.Result, string, error) {
	var out, stderr bytes.Buffer
	k := t.at(n, args)
	spec := crash.Spec{Argv: t.argv(args), Env: t.Environ(), Dir: t.Workspace(),
		Roots: []string{t.Root}, Stdout: &out, Stderr: &stderr, At: k.point, Record: t.record}
	if k.names {
		spec.Counts = renamesIn(t.Workspace())
	}
	limited, cancel := context.WithTimeout(ctx, scene.ProcessLimit)
	defer cancel()
	res, err := t.tracer.Run(limited, spec)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		t.Stuck = fmt.Sprintf("acode %s took longer than %v", strings.Join(args, " "), scene.ProcessLimit)
		return crash.Result{ExitCode: 1}, "", nil
	}
	if err != nil && spec.At.Role != crash.RoleAcode && strings.Contains(err.Error(), "launcher ended early") {
		// The call belonged to a survivor, and its victim had not begun.
		res, err = crash.Result{ExitCode: scene.ExitKilled, Struck: true}, nil
	}
	if err != nil {
		return res, "", fmt.Errorf("trace acode %s: %w", args[0], err)
	}
	t.ended = append(t.ended, res)
	t.printed.Write(out.Bytes())
	if res.Struck {
		t.Killed++
		for _, pid := range res.Killed {
			t.killed[pid] = true
		}
	}
	return res, stderr.String(), t.compareJournal(ctx)
}

// argv returns the arguments that start acode, after a power cut in another boot of the
// machine.
func (t *trial) argv(args []string) []string {
	argv := append([]string{t.Acode}, args...)
	if t.boot == "" {
		return argv
	}
	return append([]string{"/proc/self/exe", rebootSwitch, t.boot}, argv...)
}

// at returns the point of the nth process. It does not disturb a process that brings an
// answer. If that one were killed before it recorded the answer, acode would ask again,
// which counts as stuck.
func (t *trial) at(n int, args []string) kill {
	i := slices.IndexFunc(t.kills, func(k kill) bool { return k.process == n })
	if i < 0 {
		return kill{}
	}
	if slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--uncertain") || a == "--capture" }) {
		for j := range t.kills[i:] {
			t.kills[i+j].process++
		}
		return kill{}
	}
	return t.kills[i]
}

// renamesIn returns a test for the calls that change a directory of a workspace.
func renamesIn(workspace string) func(crash.Call) bool {
	return func(c crash.Call) bool {
		return slices.Contains([]crash.Kind{crash.KindRename, crash.KindUnlink, crash.KindLink, crash.KindMkdir}, c.Kind) &&
			strings.HasPrefix(c.Path, workspace+"/")
	}
}

// compareJournal checks that the store now records as done each step that acode reported
// done.
func (t *trial) compareJournal(ctx context.Context) error {
	s, err := t.readStore(ctx)
	if err != nil {
		return err
	}
	for name := range told(t.printed.String()) {
		if !s.done[name] {
			t.Breach("reported done: %s, but the journal has no receipt", name)
		}
	}
	if n := strings.Count(t.printed.String(), approved); n > s.approvals {
		t.Breach("reported %d approvals, but the journal has %d", n, s.approvals)
	}
	return nil
}

// doneLine matches the line that acode prints for a completed step. It captures the name
// of the step.
var doneLine = regexp.MustCompile(`(?m)^\s*✓ Task \d+, Step \d+: (\S+) \(`)

// approved is acode's output after it has recorded an approval.
const approved = "Recorded: approve"

// told returns the steps that a text reports as done.
func told(text string) map[string]bool {
	names := map[string]bool{}
	for _, m := range doneLine.FindAllStringSubmatch(text, -1) {
		names[m[1]] = true
	}
	return names
}

// command prepares acode as a person starts it, untraced.
func (t *trial) command(ctx context.Context, args ...string) *exec.Cmd {
	return t.Program(ctx, t.argv(args))
}

// aside runs acode for a person who answers. It is never killed.
func (t *trial) aside(ctx context.Context, args ...string) error { return t.byHand(ctx, t.argv(args)) }

// byHand runs a program for a person.
func (t *trial) byHand(ctx context.Context, argv []string) error {
	var text bytes.Buffer
	var err error
	if t.traced {
		var res crash.Result
		res, err = t.tracer.Run(ctx, crash.Spec{Argv: argv, Env: t.Environ(), Dir: t.Workspace(),
			Roots: []string{t.Root}, Stdout: &text, Stderr: &text, Record: t.record})
		if err == nil && res.ExitCode != 0 {
			err = errors.New("exit status " + strconv.Itoa(res.ExitCode))
		}
	} else {
		cmd := t.Program(ctx, argv)
		cmd.Stdout, cmd.Stderr = &text, &text
		err = cmd.Run()
	}
	if err != nil {
		t.Stuck = fmt.Sprintf("%s: %v: %s", strings.Join(argv, " "), err, text.String())
	}
	return nil
}

// finish waits for the remaining processes of acode and judges the end, or the progress
// so far.
func (t *trial) finish(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, scene.ProcessLimit)
	defer cancel()
	if _, err := t.tracer.Wait(limited); err != nil {
		// A closed tracer has no survivors.
		alive, _ := t.tracer.Survivors()
		t.Breach("processes that do not end: %v", slices.Collect(maps.Values(alive)))
	}
	if t.Stuck != "" {
		return t.judgeStuck(ctx)
	}
	return t.judge(ctx)
}
