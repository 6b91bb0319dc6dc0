package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/acode-dev/acode/plan"
	"github.com/acode-dev/acode/session"
)

// planFile is where the plan of file can be looked at again later; empty for a pipe and the like.
func planFile(file string) string {
	info, err := os.Stat(file)
	if file == "-" || err != nil || !info.Mode().IsRegular() || strings.HasPrefix(file, "/dev/") || strings.HasPrefix(file, "/proc/") {
		return ""
	}
	abs, err := filepath.Abs(file)
	if err != nil {
		return ""
	}
	return abs
}

// tellEdited tells of a plan file that was edited after a step had failed, as if that could mend it: the
// plan is in the store. What cannot be read any more says nothing.
func (w *work) tellEdited(ctx context.Context) {
	s := w.writer.Session()
	if s.Reason != session.ReasonTaskFailed {
		return
	}
	var created session.SessionCreatedData
	first, err := w.store.Events(ctx, s.ID, 0, 1)
	if err != nil || len(first) == 0 || first[0].Decode(&created) != nil {
		return
	}
	info, err := os.Stat(created.PlanFile)
	if err != nil || !info.Mode().IsRegular() || plan.Large(info.Size()) {
		return
	}
	if edited, err := plan.Load(created.PlanFile); err == nil && samePlan(edited, w.plan) {
		return
	}
	w.printer.Notice(session.Notice{Kind: session.NoticeWarning, Text: w.spelled(fmt.Sprintf(
		"%s has changed, and the session goes on with the plan that it began with; to begin anew: acode session cancel %s, then acode run --plan %s",
		created.PlanFile, s.Short, session.ShellQuote(created.PlanFile)))})
}

func samePlan(a, b *session.Plan) bool {
	plain := *b
	plain.Secrets = nil // which the store adds
	x, xerr := json.Marshal(a)
	y, yerr := json.Marshal(plain)
	return xerr == nil && yerr == nil && bytes.Equal(x, y)
}
