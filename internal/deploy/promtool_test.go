package deploy_test

import (
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// promtool runs promtool in dir. Debian has it in its package of Prometheus, whose
// service need not run.
func promtool(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program(t, "promtool", "apt-get install prometheus"), args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Prometheus accepts its configuration, and each alert passes its unit tests.
func TestPromtool(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(root, "deploy", "prometheus")
	for name, args := range map[string][]string{
		"check_config": {"check", "config", "prometheus.yml"},
		"check_rules":  {"check", "rules", "alerts.yml"},
		"test_rules":   {"test", "rules", "alerts_test.yml"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := promtool(t, dir, args...)
			if err != nil || !strings.Contains(out, "SUCCESS") {
				t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
			}
		})
	}
}

// The unit tests of the alerts notice an alert that never fires, never ends, does not
// wait, or lost its last condition.
func TestRuleTestsFindBrokenAlerts(t *testing.T) {
	t.Parallel()
	for name, breakIt := range map[string]func(*alert){
		"never_fires":   func(a *alert) { a.Expr = "vector(0) > 1" },
		"never_ends":    func(a *alert) { a.Expr = "(" + a.Expr + ") or vector(1)" },
		"does_not_wait": func(a *alert) { a.For = "" },
		"loses_a_clause": func(a *alert) {
			a.Expr = regexp.MustCompile(`(?s)^(.*) (and|or|unless) .*$`).ReplaceAllString(a.Expr, "$1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := promtool(t, brokenRules(t, breakIt), "test", "rules", "alerts_test.yml")
			if err == nil {
				t.Fatalf("test rules: passed, want it to fail\n%s", out)
			}
			for _, a := range alerts(t) {
				before := a
				if breakIt(&a); !reflect.DeepEqual(a, before) && !strings.Contains(out, "alertname: "+a.Alert+",") {
					t.Errorf("%s: broken, and no unit test noticed", a.Alert)
				}
			}
		})
	}
}

// The rules pass after an unchanged round trip, so the test above finds only the change.
func TestUnbrokenRulesPass(t *testing.T) {
	t.Parallel()
	out, err := promtool(t, brokenRules(t, func(*alert) {}), "test", "rules", "alerts_test.yml")
	if err != nil {
		t.Errorf("test rules: %v\n%s", err, out)
	}
}

// brokenRules makes a directory of rules in which every alert is changed.
func brokenRules(t *testing.T, breakIt func(*alert)) string {
	t.Helper()
	var r rules
	decode(t, &r, "deploy", "prometheus", "alerts.yml")
	for _, g := range r.Groups {
		for i := range g.Rules {
			breakIt(&g.Rules[i])
		}
	}
	data, err := yaml.Dump(r)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, dir, "alerts.yml", string(data))
	write(t, dir, "alerts_test.yml", read(t, "deploy", "prometheus", "alerts_test.yml"))
	return dir
}
