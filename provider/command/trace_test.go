//go:build linux

package command_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/session"
)

// unclaim removes the claim of key.
func (s *stage) unclaim(key string) {
	s.t.Helper()
	if err := os.Remove(command.ClaimPath(s.dir, key)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) trace(key string, want session.CommandState) session.CommandRecord {
	s.t.Helper()
	rec, err := s.runner(2).Trace(s.ctx(), key)
	if err != nil || rec.State != want {
		s.t.Errorf("Trace: got %+v, %v, want %s", rec, err, want)
	}
	return rec
}

// C1: the claim of a running command was removed. Its supervisor knows the key and makes
// the claim again, so that the next acode attaches to the command and takes its result.
func TestTraceOfARemovedClaim(t *testing.T) { each(t, traceOfARemovedClaim) }

func traceOfARemovedClaim(t *testing.T, s *stage) {
	// no other command has the key
	k := t.TempDir()
	req := s.sh(k, "touch up; until test -e go; do sleep 0.01; done; echo ran >> ledger")
	t.Cleanup(func() { s.touch("go") })
	s.begin(s.Runner, req, "up")
	want, err := s.Look(s.ctx(), k)
	if err != nil {
		t.Fatal(err)
	}
	s.unclaim(k)
	if got := s.trace(k, session.CommandRunning); got.PID != want.PID {
		t.Errorf("Trace: got pid %d, want %d", got.PID, want.PID)
	}
	s.touch("go")
	rec, err := s.runner(2).Run(s.ctx(), later(req))
	if err != nil || rec.State != session.CommandFinished || rec.Exit != 0 || s.ledger() != wrote {
		t.Errorf("Run: got %+v, %v, ledger %q", rec, err, s.ledger())
	}
}

// C1: if the claim was removed after the end of its command, a living supervisor still
// knows that the command was started.
func TestTraceOfAClaimRemovedAfterTheEnd(t *testing.T) {
	// no other command has the key k
	s, k := newStage(t), t.TempDir()
	s.run(s.sh(k, "echo ran >> ledger"))
	t.Cleanup(func() { s.touch("go") })
	// its supervisor stays
	done := s.begin(s.Runner, s.sh(s.key+"-next", "touch up; until test -e go; do sleep 0.01; done"), "up")
	s.unclaim(k)
	if rec := s.trace(k, session.CommandUnknown); rec.Why == "" {
		t.Errorf("Trace: got %+v, want a reason", rec)
	}
	s.trace("never", session.CommandUnclaimed)
	s.touch("go")
	<-done
}

// C1: without a supervisor the command is found by its key. It was started, so it is not
// started again.
func TestTraceWithoutASupervisor(t *testing.T) {
	// no other command has the key k
	s, k := newStage(t), t.TempDir()
	t.Cleanup(func() { s.touch("go") })
	s.begin(s.Runner, s.sh(k, "touch up; until test -e go; do sleep 0.01; done"), "up")
	rec, err := s.Look(s.ctx(), k)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(s.supervisorPID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.supervisorGone()
	s.unclaim(k)
	if got := s.trace(k, session.CommandLingering); !names(got.Left, rec.PID) || got.Why == "" {
		t.Errorf("Trace: got %+v, want %d listed", got, rec.PID)
	}
	s.touch("go")
	eventually(t, "the command to end", func() bool { return !running(rec.PID) })
	s.trace(k, session.CommandUnclaimed)
}

// C1: output of a command proves that it was started.
func TestTraceOfWhatWasWritten(t *testing.T) {
	// no other command has the key k
	s, k := newStage(t), t.TempDir()
	s.run(s.sh(k, "echo hello"))
	_ = s.Close()
	s.supervisorGone()
	s.unclaim(k)
	s.trace(k, session.CommandUnknown)
}

// A living supervisor that cannot be asked may have claimed the key: Trace returns an
// error.
func TestTraceOfAFrozenSupervisor(t *testing.T) {
	s := newStage(t)
	s.run(s.sh(s.key+"-a", "true"))
	s.freeze()
	ctx, cancel := timeoutCause(s)
	defer cancel()
	if rec, err := s.runner(2).Trace(ctx, s.key+"-b"); !errors.Is(err, errPatience) {
		t.Errorf("Trace: got %+v, %v, want the context's cause", rec, err)
	}
}

// A supervisor that was killed before its claim had a name started nothing: the key is
// still free, and Trace finds no trace.
func TestTraceOfWhatNeverStarted(t *testing.T) {
	for _, point := range []string{"asked", "claim-written"} {
		t.Run(point, func(t *testing.T) {
			tmp := t.TempDir()
			s, k := newStageIn(t, tmp), tmp
			cmd := s.client([]session.CommandRequest{s.sh(k, "echo ran >> ledger")}, "CMDTEST_CLIENT_KILL=connected",
				"CMDTEST_SUPERVISOR_KILL="+point, "CMDTEST_ONCE="+filepath.Join(tmp, "once"))
			// it is killed
			_ = cmd.Wait()
			s.supervisorGone()
			s.trace(k, session.CommandUnclaimed)
			if rec, err := s.runner(2).Run(s.ctx(), later(s.sh(k, "echo ran >> ledger"))); err != nil || rec.State != session.CommandFinished {
				t.Errorf("Run: got %+v, %v", rec, err)
			}
			if s.ledger() != wrote {
				t.Errorf("ledger %q, want one line: %s", s.ledger(), fmt.Sprint(cmd.Stdout))
			}
		})
	}
}
