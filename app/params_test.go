package app_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
)

// A given value counts before a default. Only secrets may come from the environment.
func TestNewParams(t *testing.T) {
	south := "south"
	p := &session.Plan{Params: []session.Param{
		{Name: "TARGET", Choices: []string{"a", "b"}}, {Name: "REGION", Default: &south}, {Name: "TOKEN", Secret: true}, {Name: "FREE"},
	}}
	environment := func(name string) (string, bool) { return "of the environment", name != "OTHER" }
	for name, c := range map[string]struct {
		given             map[string]string
		recorded, secrets map[string]string
		err               string
	}{
		"nothing":   {nil, map[string]string{"REGION": "south"}, map[string]string{"TOKEN": "of the environment"}, ""},
		"all":       {map[string]string{"TARGET": "b", "REGION": "", "TOKEN": "given", "FREE": "x"}, map[string]string{"TARGET": "b", "REGION": "", "FREE": "x"}, map[string]string{"TOKEN": "given"}, ""},
		"unknown":   {map[string]string{"OTHER": "x"}, nil, nil, "the plan has no param OTHER; nothing was changed"},
		"no_choice": {map[string]string{"TARGET": "c"}, nil, nil, `the param TARGET is one of a, b, not "c"; nothing was changed`},
		"nul":       {map[string]string{"FREE": "a\x00b"}, nil, nil, "the value of the param FREE holds a NUL byte; nothing was changed"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := app.NewParams(p, c.given, environment)
			if c.err != "" {
				if !errors.Is(err, session.ErrUsage) || err.Error() != c.err {
					t.Errorf("NewParams: got %v, want %s", err, c.err)
				}
				return
			}
			if diff := cmp.Diff(app.Params{Recorded: c.recorded, Secrets: c.secrets}, got); err != nil || diff != "" {
				t.Errorf("NewParams: %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// Complete asks only for secrets without a value.
func TestCompleteParams(t *testing.T) {
	p := &session.Plan{Params: []session.Param{
		{Name: "GIVEN", Secret: true}, {Name: "ASKED", Secret: true, Required: true}, {Name: "SILENT", Secret: true, Required: true},
		{Name: "OPTIONAL", Secret: true}, {Name: "PLAIN", Required: true}, {Name: "CHOSEN", Secret: true, Choices: []string{"a"}},
	}}
	for name, c := range map[string]struct{ chosen, missing, err string }{
		"asked":     {"a", "SILENT PLAIN", ""},
		"no_choice": {"s3cret", "", "the param CHOSEN is one of a, not the given value; nothing was changed"},
	} {
		t.Run(name, func(t *testing.T) {
			v := app.Params{Recorded: map[string]string{}, Secrets: map[string]string{"GIVEN": "x"}}
			var asked, missing []string
			left, err := v.Complete(t.Context(), p, func(_ context.Context, name, _ string) (string, error) {
				asked = append(asked, name)
				return map[string]string{"ASKED": "y", "CHOSEN": c.chosen}[name], nil
			})
			for _, param := range left {
				missing = append(missing, param.Name)
			}
			if c.err != "" && (err == nil || err.Error() != c.err) || c.err == "" && err != nil || strings.Join(missing, " ") != c.missing {
				t.Errorf("Complete: got %v, %v, want %q, %q", missing, err, c.missing, c.err)
			}
			if !slices.Equal(asked, []string{"ASKED", "SILENT", "OPTIONAL", "CHOSEN"}) || v.Secrets["ASKED"] != "y" {
				t.Errorf("Complete: asked for %v, and has %v", asked, v.Secrets)
			}
		})
	}
}
