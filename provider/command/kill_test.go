//go:build linux

package command_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/session"
)

const wrote = "ran\n"

// C1, C4: a supervisor is killed at each point; only the ledger decides. The points after
// the start are the control for the points before it.
func TestSupervisorKilledAtEachPoint(t *testing.T) {
	for point, want := range map[string]struct {
		state  session.CommandState
		ledger string
	}{
		// nothing was claimed, so the next supervisor starts it
		"asked":         {session.CommandFinished, wrote},
		"claim-written": {session.CommandFinished, wrote},
		"claim-named":   {session.CommandUnknown, ""},
		"claimed":       {session.CommandUnknown, ""},
		"forking":       {session.CommandUnknown, ""},
		// the command was followed to its end
		"forked":   {session.CommandUnknown, wrote},
		"started":  {session.CommandUnknown, wrote},
		"ended":    {session.CommandUnknown, wrote},
		"drained":  {session.CommandUnknown, wrote},
		"synced":   {session.CommandUnknown, wrote},
		"recorded": {session.CommandFinished, wrote},
		"unlocked": {session.CommandFinished, wrote},
	} {
		t.Run(point, func(t *testing.T) {
			tmp := t.TempDir()
			s := newStageIn(t, tmp, "CMDTEST_KILL="+point, "CMDTEST_ONCE="+filepath.Join(tmp, "once"))
			// no other command has this key, in any test
			req := s.sh(tmp, "printf 'ran\\n' >> ledger")
			req.Volatile = false
			rec := s.run(req)
			if rec.State != want.state || s.ledger() != want.ledger {
				t.Fatalf("got %+v, ledger %q, want %s, %q", rec, s.ledger(), want.state, want.ledger)
			}
			if rec.State == session.CommandUnknown && !strings.Contains(rec.Why, "supervisor was killed") {
				t.Errorf("Why: got %q", rec.Why)
			}
			if again := s.run(req); again.State != want.state || s.ledger() != want.ledger {
				t.Errorf("again: got %+v, ledger %q", again, s.ledger())
			}
			if rec := s.run(s.sh(s.key+"-next", "echo next >> ledger")); rec.State != session.CommandFinished || s.ledger() != want.ledger+"next\n" {
				t.Errorf("next key: got %+v, ledger %q", rec, s.ledger())
			}
			entries, err := os.ReadDir(s.dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if strings.HasSuffix(e.Name(), ".tmp") {
					t.Errorf("left over: %s", e.Name())
				}
			}
		})
	}
}

// client runs reqs in its own process and returns once that has ended by itself, or as
// env says.
func (s *stage) client(reqs []session.CommandRequest, env ...string) *exec.Cmd {
	s.t.Helper()
	b, err := json.Marshal(reqs)
	if err != nil {
		s.t.Fatal(err)
	}
	file := filepath.Join(s.t.TempDir(), "reqs")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), "CMDTEST_ROLE=client", "GORACE=atexit_sleep_ms=0", "CMDTEST_DIR="+s.dir, "CMDTEST_REQS="+file), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	return cmd
}

func (s *stage) three() []session.CommandRequest {
	var reqs []session.CommandRequest
	for i := range 3 {
		reqs = append(reqs, s.sh(fmt.Sprintf("k%d", i), fmt.Sprintf("sleep 0.02; echo %d >> ledger", i)))
	}
	return reqs
}

// C1: acode, or its process group, is killed at counted points: each effect happens once,
// and no outcome is unknown.
func TestClientKilledAtEachPoint(t *testing.T) {
	points := []string{"announced:1", "spawned:1", "looked:4", "never"}
	for n := 1; n <= 3; n++ {
		for _, p := range []string{"looked", "connected", "waiting", "over"} {
			points = append(points, fmt.Sprintf("%s:%d", p, n))
		}
	}
	killed := 0
	for _, point := range points {
		s := newStage(t)
		cmd := s.client(s.three(), "CMDTEST_CLIENT_KILL="+point)
		if err := cmd.Wait(); err != nil {
			killed++
		}
		// the supervisor is not in this process group
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		later := s.runner(2)
		for _, req := range s.three() {
			req.Epoch = 2
			if rec, err := later.Run(s.ctx(), req); err != nil || rec.State != session.CommandFinished || rec.Exit != 0 {
				t.Errorf("%s: %s: got %+v, %v", point, req.Key, rec, err)
			}
		}
		if s.ledger() != "0\n1\n2\n" {
			t.Errorf("%s: ledger %q", point, s.ledger())
		}
	}
	if killed < len(points)-3 {
		t.Errorf("%d of %d clients were killed", killed, len(points))
	}
}

// C1: acode and its supervisor are killed: each effect happens at most once, no effect is
// reported that did not happen, and at most one outcome is unknown.
func TestBothKilled(t *testing.T) {
	unknown := 0
	for _, sup := range []string{"asked:1", "claimed:1", "forked:1", "ended:1", "recorded:1", "claimed:2", "ended:2"} {
		for _, client := range []string{"waiting:1", "looked:3"} {
			s := newStage(t)
			cmd := s.client(s.three(), "CMDTEST_CLIENT_KILL="+client, "CMDTEST_SUPERVISOR_KILL="+sup,
				"CMDTEST_ONCE="+filepath.Join(t.TempDir(), "once"))
			_ = cmd.Wait()
			later := s.runner(2)
			here := 0
			for i, req := range s.three() {
				req.Epoch = 2
				rec, err := later.Run(s.ctx(), req)
				lines := strings.Count(s.ledger(), fmt.Sprintf("%d\n", i))
				switch {
				case err != nil:
					t.Errorf("%s, %s: %v", sup, client, err)
				case rec.State == session.CommandFinished && lines != 1, lines > 1:
					t.Errorf("%s, %s: %+v, but %d lines", sup, client, rec, lines)
				case rec.State == session.CommandUnknown:
					here++
				}
			}
			if here > 1 {
				t.Errorf("%s, %s: %d unknown", sup, client, here)
			}
			unknown += here
		}
	}
	if unknown == 0 {
		t.Error("no kill hit a command: the series shows nothing")
	}
}

// C2, C5: the supervisor dies under a living acode. The command continues with its
// output, acode follows it to its end, and its outcome is unknown.
func TestSupervisorDiesUnderClient(t *testing.T) {
	s := newStage(t)
	done := s.begin(s.Runner, s.sh(s.key, "echo a; touch up; until test -e go; do sleep 0.01; done; echo b; echo ran >> ledger"), "up")
	if err := syscall.Kill(s.supervisorPID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "unattended", func() bool {
		rec, err := s.Look(s.ctx(), s.key)
		return err == nil && rec.State == session.CommandUnattended && rec.PID > 0
	})
	select {
	case r := <-done:
		t.Fatalf("Run came back while the command runs: %+v", r)
	default:
	}
	s.touch("go")
	r := <-done
	if r.err != nil || r.rec.State != session.CommandUnknown || r.rec.Why == "" {
		t.Fatalf("got %+v", r)
	}
	outs, err := filepath.Glob(filepath.Join(s.dir, "*.out"))
	if err != nil || len(outs) != 1 {
		t.Fatalf("outputs: got %v, %v", outs, err)
	}
	wroteAt, err := os.Stat(outs[0])
	if err != nil || r.rec.AliveUS != wroteAt.ModTime().UnixMicro() || r.rec.AliveUS <= r.rec.StartedUS {
		t.Errorf("last sign of life: got %d of %+v, want that of its output at %v, %v", r.rec.AliveUS, r.rec, wroteAt.ModTime(), err)
	}
	if out, _ := s.output(s.key); out != "a\nb\n" || s.ledger() != wrote {
		t.Fatalf("output %q, ledger %q", out, s.ledger())
	}
}

// letGo closes all inherited descriptors, as many scripts do with their own.
const letGo = `for f in /proc/$$/fd/*; do n=${f##*/}; test $n -lt 3 || eval "exec $n>&-"; done; `

// C2: a leader that closed the locked descriptor counts as alive, and can be ended like
// any other.
func TestUnattendedWithoutItsLock(t *testing.T) {
	for _, cancel := range []bool{false, true} {
		s := newStage(t)
		req := s.sh(s.key, "")
		req.Argv = []string{"/usr/bin/env", "-i", "/bin/bash", "-c", letGo + "> up; until test -e go; do /bin/sleep 0.01; done; echo ran >> ledger"}
		done := s.begin(s.Runner, req, "up")
		if err := syscall.Kill(s.supervisorPID(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		s.supervisorGone()
		if rec, err := s.Look(s.ctx(), s.key); err != nil || rec.State != session.CommandUnattended {
			t.Errorf("Look: got %+v, %v", rec, err)
		}
		if cancel {
			if err := s.Terminate(s.ctx(), s.key); err != nil {
				t.Fatal(err)
			}
		} else {
			s.touch("go")
		}
		// The look may fall between the end of the leader and that of its last child.
		if r := <-done; r.err != nil || r.rec.State != session.CommandUnknown && r.rec.State != session.CommandLingering {
			t.Errorf("got %+v", r)
		}
		if want := map[bool]string{false: wrote}[cancel]; s.ledger() != want {
			t.Errorf("ledger %q, want %q", s.ledger(), want)
		}
	}
}

// C2: a supervisor that is killed between fork and start block records no leader. The
// leader is still found by the lock that it holds, and followed to its end.
func TestKilledBeforeStartBlock(t *testing.T) {
	tmp := t.TempDir()
	s := newStageIn(t, tmp, "CMDTEST_KILL=forked", "CMDTEST_ONCE="+filepath.Join(tmp, "once"))
	done := make(chan result, 1)
	ctx := s.ctx()
	go func() {
		rec, err := s.Run(ctx, s.sh(tmp, "touch up; until test -e go; do sleep 0.01; done; echo ran >> ledger; sleep 304 &"))
		done <- result{rec, err}
	}()
	eventually(t, "unattended", func() bool {
		rec, err := s.Look(ctx, tmp)
		return s.has("up") && err == nil && rec.State == session.CommandUnattended && rec.PID == 0
	})
	s.touch("go")
	r := <-done
	if r.err != nil || r.rec.State != session.CommandLingering || len(r.rec.Left) != 1 || s.ledger() != wrote {
		t.Errorf("got %+v, ledger %q", r, s.ledger())
	}
	if err := s.Terminate(ctx, tmp); err != nil {
		t.Error(err)
	}
	if rec, err := s.Wait(ctx, tmp); err != nil || rec.State != session.CommandUnknown {
		t.Errorf("after Cancel: got %+v, %v", rec, err)
	}
}

// The leader and its supervisor are gone: their child is listed, and can be ended.
func TestLingering(t *testing.T) {
	s := newStage(t)
	done := s.begin(s.Runner, s.sh(s.key, "setsid sleep 300 & touch up; until test -e go; do sleep 0.01; done"), "up")
	if err := syscall.Kill(s.supervisorPID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.touch("go")
	r := <-done
	if r.err != nil || r.rec.State != session.CommandLingering || len(r.rec.Left) != 1 || !strings.Contains(r.rec.Left[0], "sleep 300") {
		t.Fatalf("got %+v", r)
	}
	if err := s.Terminate(s.ctx(), s.key); err != nil {
		t.Fatal(err)
	}
	if rec, err := s.Look(s.ctx(), s.key); err != nil || rec.State != session.CommandUnknown {
		t.Fatalf("after Terminate: got %+v, %v", rec, err)
	}
}

// C2: a command that closed its lock meanwhile is not taken for ended either: it carries
// its key.
func TestKilledBeforeStartBlockWithoutItsLock(t *testing.T) {
	tmp := t.TempDir()
	s := newStageIn(t, tmp, "CMDTEST_KILL=forked", "CMDTEST_ONCE="+filepath.Join(tmp, "once"))
	req := s.sh(tmp, "")
	req.Argv = []string{"/bin/bash", "-c", letGo + "touch up; until test -e go; do sleep 0.01; done; echo ran >> ledger"}
	done := make(chan result, 1)
	ctx := s.ctx()
	go func() {
		rec, err := s.Run(ctx, req)
		done <- result{rec, err}
	}()
	eventually(t, "the command to let go", func() bool { return s.has("up") })
	s.supervisorGone()
	if rec, err := s.Look(ctx, req.Key); err != nil || rec.State != session.CommandUnattended {
		t.Errorf("Look: got %+v, %v", rec, err)
	}
	s.touch("go")
	if r := <-done; r.err != nil || r.rec.State != session.CommandUnknown || s.ledger() != wrote {
		t.Errorf("got %+v, ledger %q", r, s.ledger())
	}
}

// C2: the supervisor and the leader were killed, and the leader had closed its inherited
// descriptors, so that no process holds the claim. Its child still runs. The child is
// found by the key that it carries or by the leader's process session, and is listed
// until it ends.
func TestChildrenWithoutTheLock(t *testing.T) {
	for name, child := range map[string]string{
		"key":     "setsid /bin/sh -c '%s' &",
		"session": "/usr/bin/env -i /bin/sh -c '%s' &",
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			const body = "echo $$ > child.t; /bin/mv child.t child; until test -e go; do /bin/sleep 0.01; done"
			// no other command has this key
			req := s.sh(t.TempDir(), "")
			req.Argv = []string{"/bin/bash", "-c", letGo + fmt.Sprintf(child, body) + " > up; while :; do /bin/sleep 1; done"}
			done := s.begin(s.Runner, req, "up")
			child := s.pidIn("child")
			rec, err := s.Look(s.ctx(), req.Key)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(syscall.Kill(s.supervisorPID(), syscall.SIGKILL), syscall.Kill(rec.PID, syscall.SIGKILL)); err != nil {
				t.Fatal(err)
			}
			if r := <-done; r.err != nil || r.rec.State != session.CommandLingering || !names(r.rec.Left, child) {
				t.Errorf("Run: got %+v, want %d listed", r, child)
			}
			if left, err := s.Left(s.ctx(), req.Key); err != nil || !names(left, child) {
				t.Errorf("Left: got %q, %v, want %d", left, err, child)
			}
			s.touch("go")
			eventually(t, "the child to be off the list", func() bool {
				rec, err := s.Look(s.ctx(), req.Key)
				left, leftErr := s.Left(s.ctx(), req.Key)
				return err == nil && leftErr == nil && rec.State == session.CommandUnknown && len(left) == 0
			})
		})
	}
}

// names reports whether pid is in left.
func names(left []string, pid int) bool {
	return slices.ContainsFunc(left, func(l string) bool { return strings.HasPrefix(l, fmt.Sprintf("%d ", pid)) })
}

// Cancel ends such children, and their own children.
func TestCancelChildrenWithoutTheLock(t *testing.T) {
	s := newStage(t)
	req := s.sh(t.TempDir(), "")
	req.Argv = []string{"/bin/bash", "-c", letGo + "/usr/bin/env -i /bin/sh -c 'echo $$ > child.t; /bin/mv child.t child; while :; do /bin/sleep 1; done' & > up; while :; do /bin/sleep 1; done"}
	done := s.begin(s.Runner, req, "up")
	child := s.pidIn("child")
	rec, err := s.Look(s.ctx(), req.Key)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(syscall.Kill(s.supervisorPID(), syscall.SIGKILL), syscall.Kill(rec.PID, syscall.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	<-done
	if err := s.Terminate(s.ctx(), req.Key); err != nil {
		t.Fatal(err)
	}
	if running(child) {
		t.Errorf("child %d runs on", child)
	}
}

// Cancel without a supervisor ends every process of the command, in other process
// sessions too.
func TestCancelUnattended(t *testing.T) {
	s := newStage(t)
	script := `trap "" INT TERM; (setsid sh -c 'trap "" INT TERM; echo $$ > orphan.t; mv orphan.t orphan; while :; do sleep 1; done' &) ; echo $$ > leader.t; mv leader.t leader; while :; do sleep 1; done`
	done := s.begin(s.Runner, s.sh(s.key, script), "leader")
	orphan, leader := s.pidIn("orphan"), s.pidIn("leader")
	if err := syscall.Kill(s.supervisorPID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "unattended", func() bool {
		rec, err := s.Look(s.ctx(), s.key)
		return err == nil && rec.State == session.CommandUnattended
	})
	if err := s.Terminate(s.ctx(), s.key); err != nil {
		t.Fatal(err)
	}
	// The look may fall between the end of the leader and that of the orphan.
	if r := <-done; r.err != nil || r.rec.State != session.CommandUnknown && r.rec.State != session.CommandLingering {
		t.Errorf("got %+v", r)
	}
	if rec, err := s.Look(s.ctx(), s.key); err != nil || rec.State != session.CommandUnknown {
		t.Errorf("after Terminate: got %+v, %v", rec, err)
	}
	if running(orphan) || running(leader) {
		t.Errorf("orphan runs: %v, leader runs: %v", running(orphan), running(leader))
	}
}

// C1, C6: a removed lock file leads to two supervisors; the claims still start each key
// once.
func TestLockFileRemoved(t *testing.T) {
	s := newStage(t)
	done := s.begin(s.Runner, s.sh(s.key+"-a", "echo a >> ledger; touch up; until test -e go; do sleep 0.01; done"), "up")
	first := s.supervisorPID()
	for _, name := range []string{"supervisor.lock", "s"} {
		if err := os.Remove(filepath.Join(s.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	second := s.runner(2)
	other := s.begin(second, func() session.CommandRequest {
		req := s.sh(s.key+"-b", "echo b >> ledger; touch up2")
		req.Epoch = 2
		return req
	}(), "up2")
	if r := <-other; r.err != nil || r.rec.State != session.CommandFinished {
		t.Errorf("b: got %+v", r)
	}
	if s.supervisorPID() == first {
		t.Error("the test did not make a second supervisor")
	}
	if rec, err := second.Look(s.ctx(), s.key+"-a"); err != nil || rec.State != session.CommandRunning {
		t.Errorf("a: got %+v, %v", rec, err)
	}
	s.touch("go")
	if r := <-done; r.err != nil || r.rec.State != session.CommandFinished {
		t.Errorf("a: got %+v", r)
	}
	if s.ledger() != "a\nb\n" {
		t.Errorf("ledger %q", s.ledger())
	}
}

// A supervisor's lock file that others could have changed is refused.
func TestLockFileSymlinked(t *testing.T) {
	s := newStage(t)
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(s.ws, "target")
	s.touch("target")
	if err := os.Symlink(target, filepath.Join(s.dir, "supervisor.lock")); err != nil {
		t.Fatal(err)
	}
	cfg := supervisorConfig(func(name string) string { return map[string]string{"CMDTEST_DIR": s.dir}[name] })
	if err := command.Supervise(s.ctx(), cfg); !errors.Is(err, session.ErrStoreIO) {
		t.Errorf("Supervise: got %v, want ErrStoreIO", err)
	}
}

// Files of a killed supervisor go when its session is over. Those of a living supervisor
// stay.
func TestForgetAllSweeps(t *testing.T) {
	s := newStage(t)
	done := s.begin(s.Runner, s.sh(s.key, "touch up; until test -e go; do sleep 0.01; done"), "up")
	forget := func() {
		t.Helper()
		if err := command.ForgetAll(s.dir); err != nil {
			t.Fatal(err)
		}
	}
	// new-1.tmp may belong to the supervisor
	for _, name := range []string{"void-1.tmp", "adopt-1.tmp", "new-1.tmp"} {
		if err := os.WriteFile(filepath.Join(s.dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if forget(); !s.serves() {
		t.Error("ForgetAll: removed the socket of a supervisor that lives")
	}
	if held, err := filepath.Glob(filepath.Join(s.dir, "*.tmp")); err != nil || len(held) != 1 || filepath.Base(held[0]) != "new-1.tmp" {
		t.Errorf("ForgetAll: %v is left beside a supervisor that lives, %v", held, err)
	}
	if err := errors.Join(syscall.Kill(s.supervisorPID(), syscall.SIGKILL), os.WriteFile(filepath.Join(s.dir, "new-claim"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	s.touch("go")
	if r := <-done; r.err != nil || r.rec.State != session.CommandUnknown {
		t.Errorf("got %+v", r)
	}
	// the lock may be held a moment longer than the process lives
	s.supervisorGone()
	forget()
	var left []string
	entries, err := os.ReadDir(s.dir)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	want := []string{filepath.Base(command.ClaimPath(s.dir, s.key)), "epoch", "supervisor.lock"}
	if slices.Sort(want); err != nil || !slices.Equal(left, want) {
		t.Errorf("ForgetAll: %v is left, %v; want %v", left, err, want)
	}
}
