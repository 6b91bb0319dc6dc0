package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v4"
)

const root = "../.."

// read returns a file of the repository. path is relative to its root.
func read(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, filepath.Join(path...)))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// decode reads a YAML file of the repository. A key that into does not have is an error.
func decode(t *testing.T, into any, path ...string) {
	t.Helper()
	if err := yaml.Load([]byte(read(t, path...)), into, yaml.WithKnownFields()); err != nil {
		t.Fatalf("%s: %v", filepath.Join(path...), err)
	}
}

// loose is like decode but ignores unknown keys.
func loose(t *testing.T, into any, path ...string) {
	t.Helper()
	if err := yaml.Load([]byte(read(t, path...)), into); err != nil {
		t.Fatalf("%s: %v", filepath.Join(path...), err)
	}
}

// rules is alerts.yml.
type rules struct {
	Groups []group `yaml:"groups"`
}

type group struct {
	Name  string  `yaml:"name"`
	Rules []alert `yaml:"rules"`
}

type alert struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// alerts returns every alert. It fails if there are fewer than the known ones, because
// the file was then read wrongly.
func alerts(t *testing.T) []alert {
	t.Helper()
	var r rules
	decode(t, &r, "deploy", "prometheus", "alerts.yml")
	var out []alert
	for _, g := range r.Groups {
		out = append(out, g.Rules...)
	}
	if len(out) < 8 {
		t.Fatalf("alerts.yml: got %d alerts, want 8 or more", len(out))
	}
	return out
}

// program finds a program that a test needs, or fails the test.
func program(t *testing.T, name, install string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is missing: install it with `%s`", name, install)
	}
	return path
}

// write puts a file into dir.
func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
