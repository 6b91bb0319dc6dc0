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

// maxProcesses is how often acode is started in one trial before it counts as stuck: the
// run, three killed resumes, the one after the approval, and an answer for each kill.
const maxProcesses = 16

// kill is where one process of a trial is killed. Process 0 is the run, process 1 the first
// resume, and so on.
type kill struct {
	process int
	point   crash.Point
	names   bool // only calls that change a directory of the workspace count
}

// String names the kill in reports.
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
	traced bool // approvals too are traced, for a complete recording
	strict bool // no power was cut: what was printed before an uncertain outcome must be there
	// restored: files have been judged already, but have other inodes and times than acode
	// knows, because an image keeps neither. A person tells acode so.
	restored bool
	boot     string // file with the id of another boot, which acode shall see; empty for none
	tracer   *crash.Tracer
	printed  strings.Builder // all that acode printed
	answers  map[string]bool // captures declared done
	killed   map[int]bool    // pids
	excused  map[string]bool // keys of commands whose outcome no one could know
	ended    []crash.Result  // of each process
}

// run carries the trial out from the plan to the end of the session.
func (t *trial) run(ctx context.Context) error {
	return t.carry(ctx, []string{"run", "--plan", t.PlanFile()})
}

// carry starts acode with args and then whatever a person would type, until nothing is left.
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

// over says whether the session has come to its end. Nothing is left to resume, too, when
// the kill came between the last commit and the exit.
func (t *trial) over(ctx context.Context, res crash.Result) (bool, error) {
	if res.ExitCode != scene.ExitNoneToCarry {
		return res.ExitCode == scene.ExitDone || res.ExitCode == scene.ExitFailed && t.Fails != "" && !t.Broken(), nil
	}
	s, err := t.readStore(ctx)
	return s.state == t.End(), err
}

// process runs acode once and looks at what it left.
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
		// The call was a survivor's, and its victim had not even begun.
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

// argv is how acode is started, after a power cut in another boot of the machine.
func (t *trial) argv(args []string) []string {
	argv := append([]string{t.Acode}, args...)
	if t.boot == "" {
		return argv
	}
	return append([]string{"/proc/self/exe", rebootSwitch, t.boot}, argv...)
}

// at gives the point of the nth process. One that brings an answer is left in peace: killed
// before it has recorded that, it would be asked again, which counts as stuck.
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

// renamesIn tells the calls that change what a directory of a workspace holds.
func renamesIn(workspace string) func(crash.Call) bool {
	return func(c crash.Call) bool {
		return slices.Contains([]crash.Kind{crash.KindRename, crash.KindUnlink, crash.KindLink, crash.KindMkdir}, c.Kind) &&
			strings.HasPrefix(c.Path, workspace+"/")
	}
}

// compareJournal checks that each step that acode said was done is done in the store as it is
// at this moment.
func (t *trial) compareJournal(ctx context.Context) error {
	s, err := t.readStore(ctx)
	if err != nil {
		return err
	}
	for name := range told(t.printed.String()) {
		if !s.done[name] {
			t.Breach("told of %s, but the journal has no receipt", name)
		}
	}
	if n := strings.Count(t.printed.String(), approved); n > s.approvals {
		t.Breach("told of %d approvals, but the journal has %d", n, s.approvals)
	}
	return nil
}

// doneLine is what acode prints when a step is done. The name is the step's own.
var doneLine = regexp.MustCompile(`(?m)^\s*✓ Task \d+, Step \d+: (\S+) \(`)

// approved is what acode prints when it has recorded an approval.
const approved = "Recorded: approve"

// told gives the steps that a text says are done.
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

// aside runs acode for a person who answers; nobody kills that.
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

// finish waits for what acode left behind and judges the end, or how far it came.
func (t *trial) finish(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, scene.ProcessLimit)
	defer cancel()
	if _, err := t.tracer.Wait(limited); err != nil {
		alive, _ := t.tracer.Survivors() // closed: none
		t.Breach("processes that do not end: %v", slices.Collect(maps.Values(alive)))
	}
	if t.Stuck != "" {
		return t.judgeStuck(ctx)
	}
	return t.judge(ctx)
}
