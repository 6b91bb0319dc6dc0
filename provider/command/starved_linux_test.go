package command_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/session"
)

// starvedMain looks at a record and its output with room for no more file, one more, and so on, and prints what
// it makes of it.
func starvedMain() int {
	r := command.NewRunner(config(os.Getenv("CMDTEST_DIR"), 1))
	if _, err := r.Look(context.Background(), "k"); err != nil { // whatever the runtime opens is open
		return 1
	}
	var was unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &was) != nil {
		return 2
	}
	var said []string
	for n := uint64(3); n < 24; n++ {
		if unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: was.Max}) != nil {
			return 3
		}
		rec, err := r.Look(context.Background(), "k")
		if err == nil {
			said = append(said, string(rec.State))
		} else {
			said = append(said, "error")
		}
		out, errOut, err := r.Output("k")
		if errors.Is(err, session.ErrCorrupt) {
			said = append(said, "lost")
		}
		if err == nil {
			_, _ = out.Close(), errOut.Close() // only opened
		}
	}
	fmt.Print(strings.Join(said, " "))
	return 0
}

// C3, C6: who has no descriptor left to look at a process with says so. It never takes that for the
// end of the command, nor an output that it cannot open for one that is lost.
func TestStarvedLookGuessesNothing(t *testing.T) {
	s := newStage(t)
	s.run(s.sh("k", "true"))
	look := func(want string) {
		t.Helper()
		got := strings.Fields(mustRun(t, "starved", "CMDTEST_DIR="+s.dir))
		for _, state := range got {
			if state != want && state != "error" {
				t.Errorf("Look: got %q among %q, want %q or an error", state, got, want)
			}
		}
		if got[0] != "error" || got[len(got)-1] != want {
			t.Errorf("Look: got %q, want an error at first and %q in the end", got, want)
		}
	}
	look("finished")
	s = newStage(t)
	done := s.begin(s.Runner, s.sh("k", `touch up; until [ -e go ]; do sleep 0.02; done`), "up")
	look("running")
	if err := syscall.Kill(s.supervisorPID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.supervisorGone()
	look("unattended")
	s.touch("go")
	<-done
}
