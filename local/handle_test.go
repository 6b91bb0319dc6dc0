package local_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
)

// rivalHome makes the test binary another process with the same session. Its value is the
// home of the store.
const rivalHome = "LOCAL_TEST_RIVAL"

// rivalProcess changes the session as each line of its input says.
func rivalProcess(home string) {
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	ctx := context.Background()
	s, err := local.Open(ctx, local.Options{Home: home, Now: newClock().now})
	check(err)
	id := session.ID(os.Getenv("LOCAL_TEST_SESSION"))
	for in := bufio.NewScanner(os.Stdin); in.Scan(); fmt.Println("done") {
		switch in.Text() {
		case "ask":
			check(s.Ask(ctx, session.Request{Session: id, Kind: session.RequestCancel, By: "rival"}))
		case "take over":
			w, err := s.Load(ctx, id)
			check(err)
			_, err = w.Append(ctx, acquire(s))
			check(err)
		}
	}
	os.Exit(0)
}

// startRival returns a function that lets another process do something and waits for it.
func startRival(t *testing.T, home string, id session.ID) func(what string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), rivalHome+"="+home, "LOCAL_TEST_SESSION="+string(id))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	lines := bufio.NewScanner(out)
	return func(what string) {
		t.Helper()
		if _, err := fmt.Fprintln(in, what); err != nil || !lines.Scan() {
			t.Fatalf("the other process ended: %v", err)
		}
	}
}

// L5: a writer does not read again while no one else commits. As soon as another process
// commits, the writer sees its requests and its takeover.
func TestCommitsOfAnotherProcessAreSeen(t *testing.T) {
	o := options(t)
	w := create(t, open(t, o), 10)
	do := startRival(t, o.Home, w.Session().ID)
	look := func(want int) []session.Request {
		t.Helper()
		must(t, w.Fence(t.Context()))
		asked, err := w.Requests(t.Context())
		if err != nil || len(asked) != want {
			t.Fatalf("Requests: got %v, %v, want %d", asked, err, want)
		}
		return asked
	}
	for i := range 3 { // only the first commit reads
		look(0)
		appendAll(t, w, started(w, i, 1), completed(w, i, 1))
	}
	do("ask")
	look(1)
	appendAll(t, w, started(w, 3, 1))
	look(1)
	do("ask")
	for range 2 { // the second time no other commit came between
		appendAll(t, w, tick())
	}
	asked := look(2)
	if _, err := w.AppendAnswering(t.Context(), asked[0].ID, completed(w, 3, 1)); err != nil {
		t.Fatal(err)
	}
	if left := look(1); left[0].ID != asked[1].ID {
		t.Errorf("Requests after an answer: got %v, want %v", left, asked[1:])
	}
	do("take over")
	if err := w.Fence(t.Context()); !errors.Is(err, session.ErrFenced) {
		t.Errorf("Fence after a takeover: got %v, want %v", err, session.ErrFenced)
	}
	if err := w.Fence(t.Context()); !errors.Is(err, session.ErrFenced) {
		t.Errorf("Fence again: got %v, want %v", err, session.ErrFenced)
	}
}

// L5: the same with one connection for both.
func TestCommitsOfTheSameProcessAreSeen(t *testing.T) {
	s := open(t, options(t))
	w := create(t, s, 3)
	other := load(t, s, w.Session().ID)
	for range 2 {
		must(t, w.Fence(t.Context()))
		if asked, err := w.Requests(t.Context()); err != nil || len(asked) != 0 {
			t.Fatalf("Requests: got %v, %v", asked, err)
		}
	}
	must(t, s.Ask(t.Context(), session.Request{Session: w.Session().ID, Kind: session.RequestCancel}))
	if asked, err := w.Requests(t.Context()); err != nil || len(asked) != 1 {
		t.Errorf("Requests: got %v, %v, want the one that was just asked", asked, err)
	}
	appendAll(t, other, acquire(s))
	if err := w.Fence(t.Context()); !errors.Is(err, session.ErrFenced) {
		t.Errorf("Fence: got %v, want %v", err, session.ErrFenced)
	}
}

// A value of another type than its column reads the same but cannot be written back. A
// session with such a value does not load.
func TestValuesOfAnotherTypeAreRefused(t *testing.T) {
	for column, change := range map[string]string{
		"sessions": `UPDATE sessions SET head = CAST(head AS TEXT)`,
		"steps":    `UPDATE steps SET task = CAST(task AS BLOB)`,
		"code":     `UPDATE steps SET code = CAST('x' AS BLOB)`,
		"files":    `UPDATE files SET path = CAST(path AS BLOB)`,
		"number":   `UPDATE files SET size = 0.5`,
	} {
		t.Run(column, func(t *testing.T) {
			o, want := closedSample(t)
			loosely(t, o, change)
			_, err := loadOnce(t, o, want.ID)
			if !errors.Is(err, session.ErrCorrupt) {
				t.Errorf("Load: got %v, want %v", err, session.ErrCorrupt)
			}
		})
	}
}

// loosely changes rows without the checks of the schema.
func loosely(t *testing.T, o local.Options, change string) {
	t.Helper()
	script := `PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql = replace(replace(sql, ') STRICT', ')'), 'CHECK (length', 'CHECK (1 OR length') WHERE type = 'table';
		PRAGMA writable_schema = RESET; ` + change + `; PRAGMA wal_checkpoint(TRUNCATE)`
	if out, err := exec.Command("sqlite3", filepath.Join(o.Home, "acode.db"), script).CombinedOutput(); err != nil {
		t.Fatalf("sqlite3: %v: %s", err, out)
	}
}

// An argument of a type that no statement uses is an error. A skipped statement would
// look as if it had run.
func TestStrangeArgumentsAreRefused(t *testing.T) {
	s := open(t, options(t))
	for _, arg := range []any{0.5, struct{}{}, session.Hash{}} {
		if err := s.Exec(t.Context(), `DELETE FROM outbox WHERE session_no = ?`, arg); err == nil {
			t.Errorf("a statement with %T: it was said to have run", arg)
		}
	}
}

// A column is stored only in a variable of a matching type.
func TestAssign(t *testing.T) {
	var h session.Hash
	for _, tt := range []struct {
		dst  any
		from any
		ok   bool
	}{
		{new(string), "a", true}, {new(string), []byte("a"), false}, {new(string), nil, false}, {new(session.State), "executing", true},
		{new(session.State), int64(1), false}, {new([]byte), "a", true}, {new([]byte), []byte("a"), true}, {new([]byte), nil, true}, {new([]byte), 0.5, false},
		{new(int64), int64(-1), true}, {new(int64), "1", false}, {new(int64), 1.0, false}, {new(int), int64(3), true}, {new(uint64), int64(3), true},
		{new(uint64), int64(-1), false}, {new(uint32), int64(1) << 32, false}, {new(uint32), int64(7), true}, {new(bool), int64(1), true}, {new(bool), int64(2), false},
		{&h, make([]byte, 32), true}, {&h, "a", false}, {new(any), 0.5, true}, {new(float64), 0.5, false},
	} {
		if err := local.Assign(tt.dst, tt.from); (err == nil) != tt.ok {
			t.Errorf("%T from %T %v: got %v, want ok: %v", tt.dst, tt.from, tt.from, err, tt.ok)
		}
	}
}

// The directory of a session is checked before a process enters it.
func TestWorkspaceIsWhatWasSigned(t *testing.T) {
	o, want := closedSample(t)
	s := open(t, o)
	if dir, short, err := s.Workspace(t.Context(), want.ID); err != nil || dir != want.Workspace || short != want.Short {
		t.Errorf("Workspace: got %q, %q, %v", dir, short, err)
	}
	if _, _, err := s.Workspace(t.Context(), "unknown"); !errors.Is(err, session.ErrUnknownID) {
		t.Errorf("Workspace of no session: got %v", err)
	}
	must(t, s.Close())
	for _, change := range []string{
		`UPDATE sessions SET workspace = '/wt'`, `UPDATE sessions SET short = 'zzzzzz'`, `UPDATE sessions SET row_digest = zeroblob(32)`,
		`PRAGMA foreign_keys = 0; DELETE FROM sessions`,
	} {
		bad := o
		bad.Home = filepath.Join(t.TempDir(), "copy")
		copyHome(t, o.Home, bad.Home)
		tamper(t, bad, change)
		if dir, _, err := openRead(t, bad).Workspace(t.Context(), want.ID); !errors.Is(err, session.ErrTampered) || strings.Contains(dir, "wt") {
			t.Errorf("Workspace after %s: got %q, %v, want %v", change, dir, err, session.ErrTampered)
		}
	}
}
