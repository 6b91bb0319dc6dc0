package command_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/session"
)

// starvedMain looks at a record and its output with no free descriptor, then with one,
// two and so on. It prints each result.
func starvedMain() int {
	r, key := command.NewRunner(config(os.Getenv("CMDTEST_DIR"), 1)), os.Getenv("CMDTEST_KEY")
	// now the runtime has opened its own descriptors
	if _, err := r.Look(context.Background(), key); err != nil {
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
		rec, err := r.Look(context.Background(), key)
		if err == nil {
			said = append(said, string(rec.State))
		} else {
			said = append(said, "error")
		}
		out, errOut, err := r.Output(key)
		if errors.Is(err, session.ErrCorrupt) {
			said = append(said, "lost")
		}
		if err == nil {
			// they were only opened
			_, _ = out.Close(), errOut.Close()
		}
	}
	fmt.Print(strings.Join(said, " "))
	return 0
}

// C3, C6: a look without a free descriptor to examine a process reports that. It never
// takes it for the end of the command, or an output that it cannot open for a lost one.
func TestStarvedLookGuessesNothing(t *testing.T) {
	s := newStage(t)
	s.run(s.sh(s.key, "true"))
	look := func(want string) {
		t.Helper()
		got := strings.Fields(mustRun(t, "starved", "CMDTEST_DIR="+s.dir, "CMDTEST_KEY="+s.key))
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
	done := s.begin(s.Runner, s.sh(s.key, `touch up; until [ -e go ]; do sleep 0.02; done`), "up")
	look("running")
	if err := syscall.Kill(s.supervisorPID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.supervisorGone()
	look("unattended")
	s.touch("go")
	<-done
}

// lacking returns a hook for the spec "point:n". At the first time of the point, this
// process can open no descriptor from the nth on. By then the runtime has opened its own.
func lacking(spec string) func(string) {
	point, n, _ := strings.Cut(spec, ":")
	limit, _ := strconv.ParseUint(n, 10, 64)
	return firstTime(point, func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: 1 << 10}) })
}

// C1, C4: a supervisor without a free descriptor reports that at every point. The command
// is not at fault. Before its claim it can start later under the same key; after it the
// record has the limit that kept it from starting. A command that has ended keeps its
// result.
func TestStarvedSupervisorBlamesNoCommand(t *testing.T) {
	s := newStage(t, "CMDTEST_FILES=asked:3")
	req := s.sh(s.key, "echo ran >> ledger")
	rec, err := s.Run(s.ctx(), req)
	if !errors.Is(err, syscall.EMFILE) || session.CodeOf(err) != session.ErrInternal || s.ledger() != "" {
		t.Errorf("got %+v, %v, ledger %q, want an error that says EMFILE", rec, err, s.ledger())
	}
	if rec, err := s.Look(s.ctx(), s.key); err != nil || rec.State != session.CommandUnclaimed {
		t.Errorf("Look: got %+v, %v, want unclaimed", rec, err)
	}
	_ = s.Close()
	s.supervisorGone()
	s.Runner = s.runner(2)
	if rec := s.run(later(req)); rec.Exit != 0 || rec.StartError != "" || s.ledger() != "ran\n" {
		t.Errorf("run again: got %+v, ledger %q", rec, s.ledger())
	}
	for _, spec := range []string{"claimed:3", "forking:3", "forking:21"} {
		s := newStage(t, "CMDTEST_FILES="+spec)
		if rec := s.run(s.sh(s.key, "echo ran >> ledger")); !rec.Starved || rec.StartError == "" || s.ledger() != "" {
			t.Errorf("%s: got %+v, ledger %q, want that a limit kept it from starting", spec, rec, s.ledger())
		}
	}
	s = newStage(t, "CMDTEST_FILES=ended:3")
	if rec := s.run(s.sh(s.key, "echo ran >> ledger; exit 3")); rec.State != session.CommandFinished || rec.Exit != 3 {
		t.Errorf("at its end: got %+v, want its result", rec)
	}
}

// C3: an epoch file that cannot be read is not taken for an empty one.
func TestUnreadableEpochAdmitsNobody(t *testing.T) {
	s := newStage(t)
	if err := s.Announce(s.ctx()); err != nil {
		t.Fatal(err)
	}
	if err := command.AdmitUnreadable(s.dir, 1); !errors.Is(err, session.ErrStoreIO) {
		t.Errorf("got %v, want ErrStoreIO", err)
	}
}
