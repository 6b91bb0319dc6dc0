package local_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
	"github.com/google/go-cmp/cmp"
)

// operated makes a session with operations of every status: n1 is done, n2 failed, n3 is
// unknown, n4 is settled and n5 is open.
func operated(t testing.TB, s *local.Store) *local.Writer {
	t.Helper()
	w := create(t, s, 3)
	appendAll(t, w, started(w, 0, 1))
	for n := 1; n <= 5; n++ {
		appendAll(t, w, operation(w, n))
	}
	for n, end := range map[int]session.Draft{
		1: {Type: session.OperationCompleted, Data: session.OperationCompletedData{}},
		2: {Type: session.OperationFailed, Data: session.OperationFailedData{Code: session.ErrCommand, Message: "it exited with status 1"}},
		3: {Type: session.OperationUnknown, Data: session.OperationUnknownData{Why: "its supervisor is gone"}},
		4: {Type: session.OperationCompleted, Data: session.OperationCompletedData{}},
	} {
		appendAll(t, w, ended(w, n, end))
	}
	appendAll(t, w, session.Draft{Type: session.OperationsSettled, Data: session.OperationsSettledData{StepID: stepID(0), Ops: []string{"n4"}}})
	return w
}

func operation(w *local.Writer, n int) session.Draft {
	id := session.CallID(stepID(0), n)
	return session.Draft{Type: session.OperationStarted, Data: session.OperationStartedData{
		StepID: id, Kind: session.KindRun, Key: session.KeyOf(w.Session().ID, id, 1).String(), Attempt: 1, Digest: "d",
		Call: &session.Call{Tool: "run_command", Digest: session.CallDigest("run_command", strings.Repeat("x", n)), Label: "Run make"}}}
}

// ended returns the receipt end for an operation.
func ended(w *local.Writer, n int, end session.Draft) session.Draft {
	id := session.CallID(stepID(0), n)
	key := session.KeyOf(w.Session().ID, id, 1).String()
	switch d := end.Data.(type) {
	case session.OperationCompletedData:
		d.StepID, d.Key, d.Attempt = id, key, 1
		end.Data = d
	case session.OperationFailedData:
		d.StepID, d.Key, d.Attempt = id, key, 1
		end.Data = d
	case session.OperationUnknownData:
		d.StepID, d.Key, d.Attempt = id, key, 1
		end.Data = d
	}
	return end
}

// Operations are loaded as they were left, and verify replays them.
func TestOperations(t *testing.T) {
	o := options(t)
	s := open(t, o)
	w := operated(t, s)
	want := w.Session()
	if n := len(want.Ops); n != 4 || want.Calls != 5 || want.Done != 0 {
		t.Fatalf("got %d operations, %d calls, %d done, want 4, 5, 0", n, want.Calls, want.Done)
	}
	for name, bad := range map[string]session.Draft{
		"the same again":             operation(w, 5),
		"far ahead":                  operation(w, 5+session.MostCalls+1),
		"a receipt of a settled":     ended(w, 4, session.Draft{Type: session.OperationCompleted, Data: session.OperationCompletedData{}}),
		"settling an open one":       {Type: session.OperationsSettled, Data: session.OperationsSettledData{StepID: stepID(0), Ops: []string{"n5"}}},
		"a step as an operation":     {Type: session.OperationStarted, Data: session.OperationStartedData{StepID: stepID(1), Key: key(w, 1, 1), Attempt: 1}},
		"an operation as a step":     {Type: session.StepStarted, Data: operation(w, 6).Data},
		"an end with it in progress": {Type: session.StateChanged, Data: session.StateChangedData{From: session.Executing, To: session.Cancelled}},
	} {
		if _, err := w.Append(t.Context(), bad); !errors.Is(err, session.ErrConflict) {
			t.Errorf("%s: got %v, want %s", name, err, session.ErrConflict)
		}
	}
	if err := errors.Join(w.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	got, err := loadOnce(t, o, want.ID)
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("Load: %v (-left +loaded)\n%s", err, d)
	}
	if problems(t, o) {
		t.Error("Verify: found a problem")
	}
}

// I6, L4: each byte of the rows of operations is flipped. A load refuses or returns the
// same session. Verify reports the byte, or every row still reads the same.
func TestFlippedOperations(t *testing.T) {
	t.Parallel()
	o := options(t)
	s := open(t, o)
	w := operated(t, s)
	want := w.Session()
	if err := errors.Join(s.Checkpoint(t.Context()), w.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(o.Home, "acode.db-wal"), 0); err != nil {
		t.Fatal(err)
	}
	db, err := os.ReadFile(filepath.Join(o.Home, "acode.db"))
	if err != nil {
		t.Fatal(err)
	}
	const page = 8192
	row := []byte("run_command" + session.CallDigest("run_command", "xx") + "failed")
	at := bytes.Index(db, row) / page * page
	if at <= 0 {
		t.Fatal("no page holds the rows")
	}
	before := dump(t, o)
	flipped := o
	flipped.Home = filepath.Join(t.TempDir(), "copy")
	copyHome(t, o.Home, flipped.Home)
	refused, named, flips := 0, 0, 0
	step := 5 // a sample; make torture flips all
	if long() {
		step = 1
	}
	for i := at + int(time.Now().UnixNano())%step; i < at+page; i += step {
		if db[i] == 0 && i%97 != 0 {
			continue // free space
		}
		flips++
		bad := slices.Clone(db)
		bad[i] ^= 1 << (i % 8)
		if err := os.WriteFile(filepath.Join(flipped.Home, "acode.db"), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := loadOnce(t, flipped, want.ID)
		if err != nil {
			refused++
			if code := session.CodeOf(err); code == session.ErrInternal {
				t.Errorf("byte %d: Load: refused without a code: %v", i-at, err)
			}
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("byte %d: Load: another session (-want +got)\n%s", i-at, diff)
		}
		if problems(t, flipped) {
			named++
		} else if after := dump(t, flipped); after != before {
			t.Errorf("byte %d: Verify: found nothing, and rows differ", i-at)
		}
	}
	t.Logf("%d flips: %d loads refused, %d named by verify", flips, refused, named)
	if refused < flips/2 || named < flips/2 {
		t.Errorf("%d flips: %d refused, %d named, want most of them", flips, refused, named)
	}
}
