package resume_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
)

// One line names the variables that differ, without a question. A missing secret is
// refused, except in a dry run.
func TestInputs(t *testing.T) {
	many := []string{"A"}
	for range 30 {
		many = append(many, "B")
	}
	for name, c := range map[string]struct {
		in   resume.Inputs
		dry  bool
		said string
		err  string
	}{
		"equal":          {in: resume.Inputs{}},
		"differ":         {in: resume.Inputs{Differ: []string{"A", "B"}}, said: "warning: variables that differ from the start or are missing: A, B; if a script needs one, declare it in inputs"},
		"many":           {in: resume.Inputs{Differ: many}, said: "B and 11 more; if a script needs one"},
		"missing":        {in: resume.Inputs{Missing: []string{"TOKEN", "KEY"}}, err: "secrets that were set at the start, and that remaining steps need, are missing: TOKEN, KEY; acode never records secrets; the session is unchanged"},
		"missing_dry":    {in: resume.Inputs{Missing: []string{"TOKEN"}}, dry: true, said: "warning: secrets that were set at the start, and that remaining steps need, are missing: TOKEN"},
		"renewed":        {in: resume.Inputs{Renew: true, Renewed: []string{"A"}}, said: "info: The present environment replaces the recorded one: A"},
		"renewed_equals": {in: resume.Inputs{Renew: true}, said: "info: The present environment replaces the recorded one; no recorded value differs."},
	} {
		t.Run(name, func(t *testing.T) {
			b := paused(t)
			b.r.Options.Inputs, b.r.Options.DryRun = c.in, c.dry
			_, err := b.r.Resume(t.Context())
			if c.err == "" && err != nil || c.err != "" && (!errors.Is(err, session.ErrEnvironment) || err.Error() != c.err) {
				t.Errorf("Resume: got %v, want %q", err, c.err)
			}
			var said []string
			for _, n := range b.notices {
				if n.Kind == session.NoticeWarning || n.Kind == session.NoticeInfo {
					said = append(said, string(n.Kind)+": "+n.Text)
				}
			}
			if found := slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, c.said) }); !found && c.said != "" || len(said) > 1 || c.said == "" && len(said) > 0 {
				t.Errorf("notices: got %q, want %q", said, c.said)
			}
		})
	}
}
