package cli

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"github.com/acode-dev/acode/session"
)

// FR-063, AC-061: the table repeats the exit status of every code, and of no other.
func TestExitOfEveryCode(t *testing.T) {
	want := map[string]int{
		"ACODE-RESUME-001": 14, "ACODE-RESUME-002": 15, "ACODE-RESUME-003": 16, "ACODE-RESUME-004": 17,
		"ACODE-RESUME-005": 18, "ACODE-RESUME-006": 19, "ACODE-RESUME-007": 20,
		"LOCK-001": 16, "LOCK-002": 16, "LOCK-003": 16, "CKPT-001": 18, "FILE-001": 17,
		"ACODE-JOURNAL-001": 18, "ACODE-JOURNAL-002": 18,
		"ACODE-STORE-001": 3, "ACODE-STORE-002": 3, "ACODE-STORE-003": 3, "ACODE-STORE-004": 1, "ACODE-STORE-005": 1, "ACODE-STORE-006": 1,
		"ACODE-KEY-001": 3, "ACODE-FENCE-001": 23, "ACODE-PLAN-001": 2, "ACODE-CONFIG-001": 3,
		"ACODE-WORKSPACE-001": 3, "ACODE-WORKSPACE-002": 22,
		"ACODE-STEP-001": 22, "ACODE-STEP-002": 22, "ACODE-STEP-003": 11, "ACODE-STEP-004": 20, "ACODE-STEP-005": 22, "ACODE-STEP-006": 22,
		"ACODE-MODEL-001": 1, "ACODE-LIMIT-001": 21,
		"ACODE-APPROVAL-001": 10, "ACODE-APPROVAL-002": 12, "ACODE-SESSION-001": 15,
		"ACODE-USAGE-001": 2, "ACODE-USAGE-002": 2, "ACODE-USAGE-003": 2, "ACODE-INTERNAL-001": 1,
		"ACODE-FENCE-002": 23, "ACODE-SYNC-001": 1, "ACODE-SYNC-002": 3, "ACODE-SYNC-003": 3, "ACODE-SYNC-004": 3,
		"ACODE-SYNC-005": 1, "ACODE-SYNC-006": 1, "ACODE-SYNC-007": 3,
	}
	codes := declaredCodes(t)
	for _, code := range codes {
		err := fmt.Errorf("wrapped: %w", &session.Error{Code: session.Code(code), Message: "m"})
		got, hint := new(Invocation).verdict(err)
		if w, ok := want[code]; !ok || got != w {
			t.Errorf("exitOf(%s): got %d, want %d", code, got, w)
		}
		if hint == "" {
			t.Errorf("verdict(%s): no hint (FR-064)", code)
		}
	}
	if len(codes) != len(want) {
		t.Errorf("session declares %d codes, the test knows %d", len(codes), len(want))
	}
}

// FR-063: codes and results lead only to the documented exit statuses, and to each of
// them.
func TestExitStatuses(t *testing.T) {
	want := []int{0, 1, 2, 3, 10, 11, 12, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 129, 130, 143}
	var got []int
	for _, m := range exitCodes() {
		got = append(got, m.Exit)
		if m.Meaning == "" {
			t.Errorf("exit status %d: no meaning", m.Exit)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("exitCodes: got %v, want %v", got, want)
	}
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"nothing": {nil, 0}, "no_code": {errors.New("broken"), 1}, "other_code": {&session.Error{Code: "ACODE-NONE-001"}, 1},
		"deadline": {context.DeadlineExceeded, 11}, "said": {quietExit(17), 17},
	} {
		if got := exitOf(c.err); got != c.want {
			t.Errorf("exitOf %s: got %d, want %d", name, got, c.want)
		}
	}
	for name, c := range map[string]struct {
		result session.Result
		want   int
	}{
		"done": {session.Result{State: session.Completed}, 0}, "HUP": {session.Result{Signal: 1}, 129}, "INT": {session.Result{Signal: 2}, 130}, "TERM": {session.Result{Signal: 15}, 143},
		"failed": {session.Result{State: session.Failed, Code: session.ErrStoreIO}, 22}, "task": {session.Result{State: session.Paused, Reason: session.ReasonTaskFailed, Code: session.ErrCommand}, 22},
		"time": {session.Result{State: session.Paused, Reason: session.ReasonTaskFailed, Code: session.ErrTimeout}, 11}, "disk": {session.Result{State: session.Paused, Code: session.ErrDiskFull}, 1},
	} {
		if got := exitOfResult(c.result); got != c.want {
			t.Errorf("exitOfResult %s: got %d, want %d", name, got, c.want)
		}
	}
}

// declaredCodes reads the codes from the source of session, so that a new one cannot be
// forgotten.
func declaredCodes(t *testing.T) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "../session/code.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Code" && len(spec.Values) == 1 {
			code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			codes = append(codes, code)
		}
		return true
	})
	return codes
}

// FR-063: the exit status of a stopped session.
func TestExitOfResult(t *testing.T) {
	for name, c := range map[string]struct {
		result session.Result
		want   int
	}{
		"completed":           {session.Result{State: session.Completed}, 0},
		"failed_step":         {session.Result{State: session.Paused, Reason: session.ReasonTaskFailed, Code: session.ErrEscape}, 22},
		"failed_session":      {session.Result{State: session.Failed, Code: session.ErrFileStep}, 22},
		"step_out_of_time":    {session.Result{State: session.Paused, Reason: session.ReasonTaskFailed, Code: session.ErrTimeout}, 11},
		"failed_out_of_time":  {session.Result{State: session.Failed, Reason: session.ReasonTaskFailed, Code: session.ErrTimeout}, 22},
		"session_out_of_time": {session.Result{State: session.Paused, Reason: session.ReasonTimeout, Code: session.ErrTimeout}, 11},
		"signal":              {session.Result{State: session.Paused, Signal: 15}, 143},
		"denied":              {session.Result{State: session.Paused, Code: session.ErrDenied}, 12},
		"file_changed":        {session.Result{State: session.Paused, Reason: session.ReasonEnvironment, Code: session.ErrFileChanged}, 17},
		"disk_full":           {session.Result{State: session.Paused, Reason: session.ReasonDiskFull, Code: session.ErrDiskFull}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := exitOfResult(c.result); got != c.want {
				t.Errorf("exitOfResult: got %d, want %d", got, c.want)
			}
		})
	}
	for err, want := range map[error]int{nil: 0, context.DeadlineExceeded: 11, quietExit(23): 23, errors.New("odd"): 1} {
		if got := exitOf(err); got != want {
			t.Errorf("exitOf(%v): got %d, want %d", err, got, want)
		}
	}
}
