package command_test

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/session"
)

// C1, C4: the name of a claim could not be made durable. The command was not started, and
// its record says so: it is no failed command. If the record cannot be written either,
// the outcome is unknown.
func TestClaimWithoutADurableName(t *testing.T) {
	for name, tt := range map[string]struct {
		calls []int
		want  session.CommandState
	}{
		"sync":       {[]int{unix.SYS_FSYNC}, session.CommandVoid},
		"everything": {[]int{unix.SYS_FSYNC, unix.SYS_PWRITE64}, session.CommandUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			s, k := newStage(t, strings.Replace(denial(unix.EIO, tt.calls...), "CMDTEST_DENY", "CMDTEST_NAMED", 1)), t.TempDir()
			rec, err := s.Run(s.ctx(), s.sh(k, "echo ran >> ledger"))
			if session.CodeOf(err) != session.ErrStoreIO || !strings.Contains(err.Error(), "the command was not started") {
				t.Errorf("Run: got %+v, %v, want %s", rec, err, session.ErrStoreIO)
			}
			rec, err = s.Look(s.ctx(), k)
			if err != nil || rec.State != tt.want || rec.Why == "" || rec.StartError != "" {
				t.Errorf("Look: got %+v, %v, want %s", rec, err, tt.want)
			}
			_ = s.Close()
			s.supervisorGone()
			if rec, err := s.runner(2).Run(s.ctx(), later(s.sh(k, "echo ran >> ledger"))); err != nil || rec.State != tt.want {
				t.Errorf("Run again: got %+v, %v, want %s", rec, err, tt.want)
			}
			if rec, err := s.runner(2).Run(s.ctx(), later(s.sh(k+"2", "echo ran >> ledger"))); err != nil || rec.State != session.CommandFinished {
				t.Errorf("Run under another key: got %+v, %v", rec, err)
			}
			if s.ledger() != wrote {
				t.Errorf("ledger %q, want one line", s.ledger())
			}
		})
	}
}

// denyNamed makes the calls of spec fail as soon as a claim has its name.
func denyNamed(spec string) func(string) {
	return firstTime("claim-named", func() {
		if deny(spec) != nil {
			os.Exit(2)
		}
	})
}
