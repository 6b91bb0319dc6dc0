package resume

import (
	"fmt"
	"strings"

	"github.com/acode-dev/acode/session"
)

// Inputs describes how the environment of this process differs from the recorded inputs
// of the session.
type Inputs struct {
	// Differ lists variables of which only a digest is recorded.
	Differ []string
	// Missing lists secrets that remaining steps need.
	Missing []string
	// Renew replaces the recorded values by the present ones.
	Renew bool
	// Renewed lists the variables whose values this changes.
	Renewed []string
}

// namesShown is the greatest number of names on one line.
const namesShown = 20

// inputs reports the variables that differ, on one line and without a question. It
// returns ErrEnvironment if a secret is missing, because only this process can provide
// it.
func (r *Resumer) inputs(s *session.Session) error {
	in := r.Options.Inputs
	if len(in.Differ) > 0 {
		r.Notify(session.Notice{Kind: session.NoticeWarning, Text: fmt.Sprintf(
			"variables that differ from the start or are missing: %s; if a script needs one, declare it in inputs", session.Few(in.Differ, namesShown))})
	}
	if len(in.Differ)+len(in.Missing)+len(in.Renewed) > 0 {
		r.Log.Info("environment changed", "event", "environment_change", "session_id", s.Short, "variables", in.Differ, "missing", in.Missing, "renewed", in.Renewed)
	}
	if in.Renew {
		said := "The present environment replaces the recorded one; no recorded value differs."
		if len(in.Renewed) > 0 {
			said = "The present environment replaces the recorded one: " + session.Few(in.Renewed, namesShown)
		}
		r.Notify(session.Notice{Kind: session.NoticeInfo, Text: said})
	}
	if len(in.Missing) == 0 {
		return nil
	}
	missing := fmt.Sprintf("secrets that were set at the start, and that remaining steps need, are missing: %s", strings.Join(in.Missing, ", "))
	if r.Options.DryRun {
		r.Notify(session.Notice{Kind: session.NoticeWarning, Text: missing})
		return nil
	}
	return &session.Error{Code: session.ErrEnvironment, Message: missing + "; acode never records secrets; the session is unchanged",
		Next: r.again(s, "set them in the environment, then")}
}
