package plan_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/rogpeppe/go-internal/txtar"
	"go.yaml.in/yaml/v4"
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

// The schema accepts every plan that Parse accepts.
func TestSchemaAccepts(t *testing.T) {
	schema := resolved(t)
	for _, file := range []string{"testdata/kinds.yml", "../examples/demo.yml", "../examples/first.yml", "../examples/release.yml"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		v, err := decode(data)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); err != nil {
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

// decode converts YAML to the values of JSON. It returns an error for a value that JSON
// does not have.
func decode(data []byte) (v any, err error) {
	if err := yaml.Unmarshal(data, &v); err != nil {
		return nil, err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return v, json.Unmarshal(b, &v)
}

// beyond lists the mistakes that a schema cannot see, or that disappear when the YAML is
// decoded.
var beyond = []string{
	"approve_control", "cycle", "cycle_long", "depends_on_itself", "depends_on_unknown",
	"depends_on_unknown_of_many", "glob_malformed", "move_onto_itself", "path_directory", "path_workspace", "run_list_nul", "run_nul",
	"env_value_nul", "search_not_re2", "step_id_twice", "step_position_is_id", "tag_local", "text_lost", "task_id_is_position", "task_id_twice",
	"timeout_long", "timeout_zero", "title_lines", "param_of_terminal", "param_twice", "param_is_capture", "param_default_no_choice", "input_is_param",
}

// The schema refuses the plans that Parse refuses, as far as a schema can.
func TestSchemaRefuses(t *testing.T) {
	schema := resolved(t)
	archive, err := txtar.ParseFile("testdata/errors.txt")
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for _, f := range archive.Files {
		v, err := decode(f.Data)
		if strings.HasSuffix(f.Name, ".error") || err != nil || v == nil {
			continue
		}
		looked++
		err = schema.Validate(v)
		if seen := !slices.Contains(beyond, f.Name); seen != (err != nil) {
			t.Errorf("Validate(%s): got %v, want an error: %v", f.Name, err, seen)
		}
	}
	if looked < 60 {
		t.Errorf("looked at %d plans, want at least 60", looked)
	}
}

// Every property has a description or refers to a definition that has one.
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
