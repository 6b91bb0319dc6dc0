package local_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
)

// appendAt reads wall clock times from standard input. It appends an event at each of
// them and prints the event's time.
func appendAt(home string) {
	ctx := context.Background()
	c := newClock()
	s, err := local.Open(ctx, local.Options{Home: home, Now: c.now})
	if err != nil {
		panic(err)
	}
	w, err := s.Load(ctx, session.ID(os.Getenv("LOCAL_TEST_SESSION")))
	if err != nil {
		panic(err)
	}
	in := bufio.NewReader(os.Stdin)
	for {
		var us int64
		if _, err := fmt.Fscan(in, &us); err != nil {
			os.Exit(0) // the parent needs no more
		}
		c.at = time.UnixMicro(us)
		es, err := w.Append(ctx, session.Draft{Type: session.CheckpointCreated, Data: session.CheckpointCreatedData{Why: "tick"}})
		if err != nil {
			panic(err)
		}
		fmt.Println(es[0].TimeUS)
	}
}

// ticker is a process that runs appendAt.
type ticker struct {
	in  io.Writer
	out *bufio.Reader
}

func startTicker(t *testing.T, home string, id session.ID) ticker {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "LOCAL_TEST_HOME="+home, "LOCAL_TEST_SESSION="+string(id), "LOCAL_TEST_CLOCK=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // this ends it
		if err := cmd.Wait(); err != nil {
			t.Errorf("a process that appends: %v", err)
		}
	})
	return ticker{in, bufio.NewReader(out)}
}

func (p ticker) at(t *testing.T, us int64) (got int64) {
	t.Helper()
	if _, err := fmt.Fprintln(p.in, us); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fscanln(p.out, &got); err != nil {
		t.Fatalf("read a time: %v", err)
	}
	return got
}

// L3: two processes write sessions, one of them two, and their wall clocks step back and
// forth. Each event is later than every event before it of any process.
func TestClockOfTwoProcessesNeverStepsBack(t *testing.T) {
	o := options(t)
	s := open(t, o)
	ids := []session.ID{create(t, s, 1).Session().ID, create(t, s, 1).Session().ID}
	own := create(t, s, 1)
	last := own.Session().LastUS
	ps := []ticker{startTicker(t, o.Home, ids[0]), startTicker(t, o.Home, ids[1])}
	wall := newClock().at.UnixMicro()
	for i, who := range []int{0, 1, 0, 0, 1, 1, 2, 0, 2, 2, 1, 0, 0, 2, 1} {
		at := wall + int64(i%4-2)*int64(time.Hour/time.Microsecond)
		var got int64
		if who < 2 {
			got = ps[who].at(t, at)
		} else {
			got = appendAll(t, own, session.Draft{Type: session.CheckpointCreated, Data: session.CheckpointCreatedData{Why: "tick"}})[0].TimeUS
		}
		if got <= last || got < at && who < 2 {
			t.Errorf("event %d, of process %d, at %d: time %d after %d", i, who, at, got, last)
		}
		last = got
	}
}

// L3: beside another process, a commit takes the clock from the session of the last
// commit, however many sessions there are. It looks at all sessions only if the turn
// names none.
func TestClockBesideAnotherProcessIsThatOfTheLastCommit(t *testing.T) {
	o := options(t)
	s := open(t, o)
	idle, other, own := create(t, s, 1).Session().ID, create(t, s, 1).Session().ID, create(t, s, 1)
	// a time that only a look at every session finds
	const far = 1 << 52
	exec := func(query string, args ...any) {
		t.Helper()
		if err := s.Exec(t.Context(), query, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`UPDATE sessions SET last_us = ? WHERE id = ?`, far, string(idle))
	p := startTicker(t, o.Home, other)
	last := own.Session().LastUS
	both := func() (theirs, ours int64) {
		theirs = p.at(t, last-1)
		ours = appendAll(t, own, session.Draft{Type: session.CheckpointCreated, Data: session.CheckpointCreatedData{Why: "tick"}})[0].TimeUS
		if theirs <= last || ours <= theirs {
			t.Errorf("times %d and %d after %d", theirs, ours, last)
		}
		last = ours
		return theirs, ours
	}
	for range 3 {
		if _, ours := both(); ours >= far {
			t.Fatalf("time %d: every session was looked at", ours)
		}
	}
	exec(`UPDATE sync SET turn = 4711`)
	if theirs, _ := both(); theirs <= far {
		t.Errorf("time %d after a turn that names no session: not every session was looked at", theirs)
	}
}

// A damaged time of one session is found before another session executes anything.
func TestDamagedTimeOfAnotherSessionIsRefused(t *testing.T) {
	s := open(t, options(t))
	one, other := create(t, s, 1).Session().ID, create(t, s, 1).Session().ID
	load(t, s, one)
	if err := s.Exec(t.Context(), `UPDATE sessions SET last_us = 9223372036854775807 WHERE id = ?`, string(other)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(t.Context(), one); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("Load: got %v, want ErrCorrupt", err)
	}
	if err := tryCreate(t, s); !errors.Is(err, session.ErrCorrupt) { // a new session would get that time and then be refused
		t.Errorf("Create: got %v, want ErrCorrupt", err)
	}
	if r := verify(t, s); len(r.Problems) == 0 {
		t.Error("Verify: found nothing")
	}
}
