package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/plan"
	"github.com/acode-dev/acode/session"
)

func TestParams(t *testing.T) {
	p, err := plan.Parse("plan.yml", []byte(`
version: 1
task: t
params:
  - {name: TARGET, default: staging, required: true, choices: [staging, production], description: Where to}
  - {name: TOKEN, secret: true, required: true}
  - {name: NOTE, default: ""}
inputs: [REGION, VERSION, PATH]
tasks: [{steps: [{run: x, capture: VERSION}]}]
`))
	if err != nil {
		t.Fatal(err)
	}
	staging, empty := "staging", ""
	want := []session.Param{
		{Name: "TARGET", Default: &staging, Required: true, Choices: []string{"staging", "production"}, Description: "Where to"},
		{Name: "TOKEN", Secret: true, Required: true},
		{Name: "NOTE", Default: &empty},
	}
	if diff := cmp.Diff(want, p.Params); diff != "" {
		t.Errorf("Params (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"REGION", "VERSION", "PATH"}, p.Inputs); diff != "" {
		t.Errorf("Inputs (-want +got):\n%s", diff)
	}
}

func TestTooManyParams(t *testing.T) {
	var names []string
	for i := range 1001 {
		names = append(names, fmt.Sprintf("{name: P%d}", i))
	}
	_, err := plan.Parse("plan.yml", []byte("version: 1\ntask: t\nparams: ["+strings.Join(names, ", ")+"]\ntasks: [{steps: [{run: x}]}]\n"))
	if err == nil || !strings.Contains(err.Error(), "more than 1000 params") {
		t.Errorf("Parse: got %.100v, want a refusal", err)
	}
}

// A file of params may hold secrets, so its errors do not contain its text.
func TestValues(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want map[string]string
		err  string
	}{
		"yaml":     {"A: staging\nB: 'a b'\n", map[string]string{"A": "staging", "B": "a b"}, ""},
		"json":     {`{"A": "1", "B": ""}`, map[string]string{"A": "1", "B": ""}, ""},
		"empty":    {"# nothing\n", map[string]string{}, ""},
		"number":   {"TOKEN: 4711\n", nil, `p.yml:1:8: the value of "TOKEN" is not text`},
		"nothing":  {"TOKEN:\n", nil, `p.yml:1:1: the value of "TOKEN" is not text`},
		"twice":    {"A: 4711a\nA: b\n", nil, `p.yml:2:1: key "A" occurs twice, first on line 1`},
		"list":     {"[4711a]", nil, "p.yml:1:1: a file of params is a mapping of keys to values, not a list"},
		"nul":      {`A: "4711a\0"`, nil, `p.yml:1:4: "A" holds a NUL byte`},
		"not_yaml": {"A: \"4711a", nil, "p.yml:1:4: this \" is never closed"},
		"large":    {strings.Repeat("#", plan.MaxBytes+1), nil, "p.yml: the file is larger than 16 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := plan.Values("p.yml", []byte(c.in))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("Values (-want +got):\n%s", diff)
			}
			if text := fmt.Sprint(err); c.err != "" && (!strings.HasPrefix(text, c.err) || strings.Contains(text, "4711")) {
				t.Errorf("Values: got %v, want %s", err, c.err)
			}
		})
	}
}
