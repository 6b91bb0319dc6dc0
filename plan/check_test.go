package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/acode-dev/acode/plan"
)

// Check finds at least the error of Parse, for every mistake in the golden file.
func TestCheckFindsWhatParseFinds(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/errors.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.Files {
		if strings.HasSuffix(f.Name, ".error") {
			continue
		}
		_, want := plan.Parse("plan.yml", f.Data)
		found := false
		r := plan.Check("plan.yml", f.Data)
		for _, err := range r.Errors {
			found = found || err.Error() == want.Error()
		}
		if !found || r.Warnings != nil {
			t.Errorf("Check of %s: got %v, want among them %v", f.Name, r.Errors, want)
		}
	}
}

// Errors are in the order of the file, and their number is limited.
func TestCheckOrderAndLimit(t *testing.T) {
	file := "tasks: [{steps: [{run: x, timeout: 5}]}]\nparams: [{}]\nversion: 2x\n"
	var lines []string
	for _, err := range plan.Check("p", []byte(file)).Errors {
		line, _, _ := strings.Cut(err.Error(), "\n")
		lines = append(lines, line)
	}
	want := []string{
		`p:1:1: a plan needs the key "task"`,
		`p:1:36: "timeout" is a duration, not the number 5`,
		`p:2:10: a param needs the key "name"`,
		`p:3:10: "version" is the number 1, not text`,
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("Check (-want +got):\n%s", diff)
	}
	r := plan.Check("p", []byte("version: 1\ntask: t\ntasks: [{steps: ["+strings.Repeat("{rnu: x}, ", 1000)+"]}]\n"))
	if len(r.Errors) != 100 || !r.More {
		t.Errorf("Check: got %d errors, more: %v; want 100 and more", len(r.Errors), r.More)
	}
}

func TestCheckWarns(t *testing.T) {
	for name, c := range map[string]struct{ step, want string }{
		"none":              {`{run: x, check: y}`, ""},
		"list":              {`{run: [x], check: y}`, ""},
		"policy":            {`{run: x, on_interrupt: rerun}`, ""},
		"no_check":          {`{run: x}`, "has no check"},
		"asks_anyway":       {`{run: x, on_interrupt: ask}`, "has no check"},
		"pipeline":          {`{run: "a | b", check: y}`, "pipeline"},
		"pipeline_in_bash":  {`{run: "a | b", check: y, shell: bash}`, ""},
		"pipeline_in_list":  {`{run: [sh, -c, "a | b"], check: y}`, ""},
		"pipeline_own":      {`{run: "a | b", check: y, shell: [bash, -c]}`, "pipeline"},
		"pipeline_elsewise": {`{run: "a | b", check: y, shell: [python3, -c]}`, ""},
		"pipeline_of_check": {`{run: "a", check: "a | b"}`, ""},
		"broken":            {`{run: "if", check: y}`, "cannot be parsed, so acode does not see"},
		"broken_elsewise":   {`{run: "if", check: y, shell: [python3, -c]}`, ""},
		"broken_check":      {`{run: x, check: "if"}`, "its check cannot be parsed"},
		"content":           {`{write: {path: f, content: "${A} ${B} ${C} $${D}"}}`, ""},
		"content_unknown":   {`{edit: {path: f, old: x, new: "${D}"}}`, "${D} is not replaced: it is not a param"},
		"question_unknown":  {`{approve: "${D}?"}`, "${D} is not replaced: it is not a param"},
		"capture_unseen":    {`{approve: "${E}?"}`, "later/1 captures it, but this step cannot see the capture"},
	} {
		t.Run(name, func(t *testing.T) {
			file := "version: 1\ntask: t\nparams: [{name: A}]\ninputs: [B]\ntasks:\n" +
				"  - {id: one, steps: [{run: x, check: y, capture: C}, " + c.step + "]}\n  - {id: later, steps: [{run: x, check: y, capture: E}]}\n"
			r := plan.Check("p", []byte(file))
			if c.want == "" && len(r.Warnings) == 0 && len(r.Errors) == 0 {
				return
			}
			if len(r.Errors) > 0 || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0].Message, c.want) || r.Warnings[0].Place != "p:6:55" || c.want == "" {
				t.Errorf("Check: got %s, want one warning: %s", fmt.Sprint(r), c.want)
			}
		})
	}
}
