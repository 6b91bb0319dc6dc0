package plan_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/rogpeppe/go-internal/txtar"
	"pgregory.net/rapid"

	"github.com/acode-dev/acode/plan"
)

func resolved(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal(plan.Schema(), &s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The schema accepts what Parse accepts.
func TestSchemaAccepts(t *testing.T) {
	schema := resolved(t)
	for _, file := range []string{"testdata/kinds.yml", "../examples/demo.yml", "../examples/first.yml", "../examples/release.yml"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := yaml.Unmarshal(data, &v); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(plain(t, v)); err != nil {
			t.Errorf("Validate(%s): %v", file, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		file := written(drawPlan(t))
		var v any
		if err := json.Unmarshal(file, &v); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); err != nil {
			t.Fatalf("Validate: %v\n%s", err, file)
		}
	})
}

// plain turns the numbers of YAML into those of JSON.
func plain(t *testing.T, v any) any {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// beyond are the mistakes that no schema can see, or that are none once the YAML is read.
var beyond = []string{
	"approve_control", "comment_in_text", "content_surrogate", "cycle", "cycle_long", "depends_on_itself", "depends_on_unknown",
	"depends_on_unknown_of_many", "glob_malformed", "move_onto_itself", "path_directory", "path_workspace", "run_list_nul", "run_nul",
	"env_value_nul", "escape_high", "escape_no_digits", "escape_short", "escape_surrogate", "escape_surrogates", "search_not_re2", "step_id_twice", "step_indented_too_far", "step_position_is_id", "tab_in_argument", "tab_in_double_quotes", "tab_in_text", "task_id_is_position", "task_id_twice",
	"timeout_long", "timeout_zero", "title_lines",
}

// The schema refuses what Parse refuses, as far as a schema can.
func TestSchemaRefuses(t *testing.T) {
	schema := resolved(t)
	archive, err := txtar.ParseFile("testdata/errors.txt")
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for _, f := range archive.Files {
		var v any
		if strings.HasSuffix(f.Name, ".error") || yaml.Unmarshal(f.Data, &v) != nil || v == nil {
			continue
		}
		looked++
		err := schema.Validate(plain(t, v))
		if seen := !slices.Contains(beyond, f.Name); seen != (err != nil) {
			t.Errorf("Validate(%s): got %v, want an error: %v", f.Name, err, seen)
		}
	}
	if looked < 60 {
		t.Errorf("looked at %d plans, want at least 60", looked)
	}
}

// Every property has a description, or refers to something that has one.
func TestSchemaDescribes(t *testing.T) {
	var s jsonschema.Schema
	if err := json.Unmarshal(plan.Schema(), &s); err != nil {
		t.Fatal(err)
	}
	if s.Schema != "https://json-schema.org/draft/2020-12/schema" {
		t.Errorf("$schema: got %q", s.Schema)
	}
	objects := map[string]*jsonschema.Schema{"plan": &s}
	for name, def := range s.Defs {
		objects[name] = def
		if def.Description == "" {
			t.Errorf("%s has no description", name)
		}
	}
	for name, o := range objects {
		for key, p := range o.Properties {
			if p.Description == "" && p.Ref == "" {
				t.Errorf("%s of %s has no description", key, name)
			}
		}
	}
}
