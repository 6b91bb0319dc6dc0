package crash_test

import (
	"context"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"github.com/acode-dev/acode/internal/crash"
	"github.com/google/go-cmp/cmp"
)

func TestSendsAreCalls(t *testing.T) {
	b := newBench(t)
	_, calls := b.run(b.spec("talk"))
	var got []string
	for _, c := range calls {
		if c.Kind == crash.KindSend {
			got = append(got, c.Name+" "+string(c.Data))
		}
	}
	want := []string{"bind ", "connect ", "write by write", "sendto by sendto", "sendmsg by sendmsg"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sends (-want +got):\n%s", diff)
	}
}

// A call that a signal interrupts and the kernel restarts is one call. The tracer does
// not disturb stops of job control.
func TestSignalsChangeNoCount(t *testing.T) {
	b := newBench(t)
	res, calls := b.run(b.spec("signals"))
	if res.ExitCode != 0 {
		t.Fatalf("toy: exit %d", res.ExitCode)
	}
	locks := 0
	for _, c := range calls {
		if c.Kind == crash.KindLock {
			locks++
		}
	}
	// One lock is taken, one waited for, one given up.
	if locks != 3 {
		t.Errorf("locks: got %d, want 3", locks)
	}
}

// The call of a killed thread is recorded as interrupted.
func TestInterruptedCallIsRecorded(t *testing.T) {
	b := newBench(t)
	spec := b.spec("blocked")
	spec.Role = func(crash.Process) string { return "toy" }
	// The calls are two opens, two locks, open and write.
	spec.At = crash.Point{Role: "toy", N: 6, When: crash.After}
	res, calls := b.run(spec)
	endings := map[crash.Kind]crash.Ending{}
	for _, c := range calls {
		endings[c.Kind] = c.Ending
	}
	want := map[crash.Kind]crash.Ending{crash.KindOpen: crash.Returned, crash.KindLock: crash.Interrupted,
		crash.KindWrite: crash.Interrupted}
	delete(endings, crash.KindAck)
	if diff := cmp.Diff(want, endings); diff != "" || res.Signal != syscall.SIGKILL {
		t.Errorf("last ending of each kind (-want +got):\n%s%+v", diff, res)
	}
}

// A thread that executes a program becomes the leader, and its process stays the root.
func TestExecFromAThread(t *testing.T) {
	b := newBench(t)
	res, calls := b.run(b.spec("replace"))
	if res.ExitCode != 0 || state(t, b.dir)["by"] != "replaced\n" {
		t.Fatalf("toy: got %+v", res)
	}
	last := calls[len(calls)-1]
	if last.Kind != crash.KindWrite || last.PID != res.PID || last.Role != crash.RoleAcode {
		t.Errorf("last call: got %+v, want a write of the root", last)
	}
}

func TestLegacyCallsReplay(t *testing.T) {
	b := newBench(t)
	before := snapshot(t, b.dir)
	res, calls := b.run(b.spec("legacy"))
	got, err := crash.Replay(before, calls)
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("Replay: %v, toy: %+v", err, res)
	}
	if diff := got.Differences(snapshot(t, b.dir)); len(diff) > 0 || len(got.Files) < 2 {
		t.Errorf("Replay: differs at %v", diff)
	}
}

// Tracers run side by side and do not wait for each other's children.
func TestTracersKeepApart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hanging := newBench(t)
	started := make(chan struct{}, 1)
	spec := hanging.spec("hang")
	spec.Role = func(crash.Process) string {
		started <- struct{}{}
		return "hanging"
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := hanging.Run(ctx, spec); err == nil {
			t.Error("Run: a program that hangs ended by itself")
		}
	})
	<-started
	for range 2 {
		wg.Go(func() {
			b := newBench(t)
			if res, _ := b.run(b.spec("threads")); res.Calls[crash.RoleAcode] != threads*(1+writes) {
				t.Errorf("Calls: got %v", res.Calls)
			}
		})
	}
	for range 20 {
		if err := exec.Command("/bin/true").Run(); err != nil {
			t.Errorf("os/exec: %v", err)
		}
	}
	if _, err := hanging.Wait(doneContext(t)); err == nil {
		t.Error("Wait: no process was left")
	}
	cancel()
	wg.Wait()
}

// A tracer may get a thread that has started processes before. These are not children of
// the tracer.
func TestTracerTakesNoChildren(t *testing.T) {
	type child struct {
		cmd   *exec.Cmd
		stdin io.Closer
	}
	children := make(chan child, 40)
	var wg sync.WaitGroup
	for range cap(children) {
		wg.Go(func() {
			cmd := exec.Command("/bin/cat")
			stdin, err := cmd.StdinPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Error(err)
				return
			}
			children <- child{cmd, stdin}
		})
	}
	wg.Wait()
	close(children)
	b := newBench(t)
	var started []child
	for c := range children {
		// This ends the child.
		_ = c.stdin.Close()
		started = append(started, c)
	}
	b.run(b.spec("threads"))
	for _, c := range started {
		if err := c.cmd.Wait(); err != nil {
			t.Errorf("wait for a child of the harness: %v", err)
		}
	}
}

func doneContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestDefaultRole(t *testing.T) {
	tests := map[string]struct {
		p    crash.Process
		want string
	}{
		"root":                {crash.Process{Root: true, Argv: []string{"acode", "supervise"}}, crash.RoleAcode},
		"supervisor":          {crash.Process{Parent: crash.RoleAcode, Argv: []string{"acode", "supervise"}}, crash.RoleSupervisor},
		"orphaned_supervisor": {crash.Process{Argv: []string{"acode", "supervise"}}, crash.RoleSupervisor},
		"command":             {crash.Process{Parent: crash.RoleSupervisor, Argv: []string{"sh"}}, crash.RoleCommand},
		"below_a_command":     {crash.Process{Parent: crash.RoleCommand, Argv: []string{"sh", "supervise"}}, crash.RoleCommand},
		"helper":              {crash.Process{Parent: crash.RoleAcode, Argv: []string{"git", "status"}}, crash.RoleOther},
		"unknown":             {crash.Process{}, crash.RoleOther},
	}
	for name, tt := range tests {
		if got := crash.DefaultRole(tt.p); got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
	}
}
