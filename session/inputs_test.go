package session_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/session"
)

// environ returns an environment in which a command reads each of its words that begins
// with $.
func environ(vars map[string]string) session.Environment {
	return session.Environment{
		Vars: vars, Secret: func(name string) bool { return strings.HasSuffix(name, "TOKEN") },
		Digest: func(name, value string) string { return "digest of " + name + value },
		Reads: func(r *session.Run) (names []string) {
			for _, word := range strings.Fields(r.Shell + " " + r.Check) {
				if name, ok := strings.CutPrefix(word, "$"); ok {
					names = append(names, name)
				}
			}
			return names
		},
	}
}

func text(s string) *string { return &s }

// inputsPlan returns a plan with a capture, a variable of its own, params and inputs.
func inputsPlan() *session.Plan {
	run := func(id, shell, check, capture string, env map[string]string) session.Step {
		return session.Step{ID: id, Kind: session.KindRun, Run: &session.Run{Shell: shell, Check: check, Capture: capture, Env: env}}
	}
	return &session.Plan{
		Params: []session.Param{{Name: "P"}, {Name: "FREE"}, {Name: "S", Secret: true}}, Inputs: []string{"LISTED", "LISTED_TOKEN"},
		Tasks: []session.Task{
			{ID: "one", Steps: []session.Step{
				run("a", "cmd $A $P $FREE $TERM $V", "", "V", nil),
				run("b", "cmd $V $OWN $B_TOKEN", "check $C", "", map[string]string{"OWN": "x"}),
				run("c", "cmd $ABSENT $S", "", "", nil),
			}},
			{ID: "two", Steps: []session.Step{run("a", "cmd $V", "", "", nil)}},
		},
	}
}

func TestRecord(t *testing.T) {
	p := inputsPlan()
	vars := map[string]string{"A": "a", "P": "env", "FREE": "free", "TERM": "xterm", "V": "outer", "OWN": "own", "B_TOKEN": "b", "C": "", "LISTED": "l", "OTHER": "o", "S": "secret", "PATH": "/bin", "SHLVL": "1"}
	in := session.Record(p, map[string]string{"P": "param"}, environ(vars))
	want := &session.Inputs{
		Params:  map[string]string{"P": "param"},
		Env:     map[string]*string{"A": text("a"), "FREE": text("free"), "C": text(""), "ABSENT": nil, "LISTED": text("l"), "V": text("outer")},
		Secrets: map[string]bool{"B_TOKEN": true, "LISTED_TOKEN": false, "S": true},
		Others:  map[string]string{"OTHER": "digest of OTHERo", "PATH": "digest of PATH/bin", "OWN": "digest of OWNown"},
	}
	if diff := cmp.Diff(want, in); diff != "" {
		t.Errorf("Record (-want +got):\n%s", diff)
	}

	// Another process has other values. It keeps its own values only of secrets and of
	// variables that the plan does not use.
	got := in.Environ([]string{"A=other", "B_TOKEN=now", "ABSENT=set", "OTHER=now", "P=other", "TERM=dumb"}, map[string]string{"B_TOKEN": "now", "S": "given"})
	if diff := cmp.Diff([]string{"OTHER=now", "TERM=dumb", "A=a", "B_TOKEN=now", "C=", "FREE=free", "LISTED=l", "P=param", "S=given", "V=outer"}, got); diff != "" {
		t.Errorf("Environ (-want +got):\n%s", diff)
	}
	values := in.Values(p, map[string]string{"S": "given"})
	if diff := cmp.Diff(map[string]string{"P": "param", "FREE": "free", "S": "given", "LISTED": "l", "LISTED_TOKEN": ""}, values); diff != "" {
		t.Errorf("Values (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"B_TOKEN": "***", "LISTED_TOKEN": "***", "S": "***"}, in.Masked()); diff != "" {
		t.Errorf("Masked (-want +got):\n%s", diff)
	}

	now := environ(map[string]string{"A": "new", "OTHER": "new", "PATH": "/bin", "NEW": "new", "TERM": "dumb"})
	if got := in.Differ(now); !slices.Equal(got, []string{"OTHER", "OWN"}) {
		t.Errorf("Differ: got %v", got)
	}
	next, changed := in.Renew(p, now)
	if !slices.Equal(changed, []string{"A", "C", "FREE", "LISTED", "V"}) || next.Params["P"] != "param" || !next.Secrets["S"] || next.Secrets["B_TOKEN"] {
		t.Errorf("Renew: got %v, %+v", changed, next)
	}
}

// A secret is missing if it was set and is not available now, and it is declared or a
// remaining step reads it.
func TestMissingSecrets(t *testing.T) {
	p := inputsPlan()
	in := &session.Inputs{Secrets: map[string]bool{"B_TOKEN": true, "LISTED_TOKEN": true, "S": true, "NEVER_TOKEN": false, "UNUSED_TOKEN": true}}
	none := func(string) bool { return false }
	for name, c := range map[string]struct {
		have func(string) bool
		done func(session.StepID) bool
		want []string
	}{
		"all_left":  {none, func(session.StepID) bool { return false }, []string{"B_TOKEN", "LISTED_TOKEN", "S"}},
		"step_done": {none, func(id session.StepID) bool { return id.Step == "b" }, []string{"LISTED_TOKEN", "S"}},
		"at_hand":   {func(name string) bool { return name == "LISTED_TOKEN" }, func(session.StepID) bool { return true }, []string{"S"}},
		"all_there": {func(string) bool { return true }, func(session.StepID) bool { return false }, nil},
	} {
		if got := in.Missing(p, environ(nil), c.have, c.done); !slices.Equal(got, c.want) {
			t.Errorf("Missing %s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestNoInputs(t *testing.T) {
	var in *session.Inputs
	if got := in.Environ([]string{"A=a"}, map[string]string{"B": "b"}); !slices.Equal(got, []string{"A=a"}) || in.Values(inputsPlan(), nil) != nil || in.Masked() != nil {
		t.Errorf("Environ: got %v, want its argument", got)
	}
}

// The guide has the only list of names that are never recorded.
func TestUnrecordedNames(t *testing.T) {
	guide, err := os.ReadFile("../docs/guide.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range session.UnrecordedNames() {
		if !strings.Contains(string(guide), "`"+name+"`") {
			t.Errorf("docs/guide.md does not name %s", name)
		}
	}
	for name, want := range map[string]bool{"ACODE_HOME": true, "PWD": true, "TERM": true, "SSH_AUTH_SOCK": true, "XDG_SESSION_ID": true, "BASH_ENV": true,
		"TARGET": false, "PATH": false, "HOME": false, "SSH_HOST": false, "TERMINAL": false, "ENV": false, "LINES_MAX": false} {
		if got := session.Unrecorded(name); got != want {
			t.Errorf("Unrecorded(%s): got %v, want %v", name, got, want)
		}
	}
}
