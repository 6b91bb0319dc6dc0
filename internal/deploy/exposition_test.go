package deploy_test

import (
	"bytes"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/session"
)

// families returns the metrics that a new syncer serves, by name.
func families(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	m := outbox.NewMetrics("0.0.0", "go0")
	m.Watch(func() outbox.Snapshot { return outbox.Look(session.Heartbeat{}, nil, session.Backlog{}, 0, nil) })
	m.WatchWork(func() (session.Work, error) { return session.Work{}, nil })
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	list, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*dto.MetricFamily{}
	for _, f := range list {
		out[f.GetName()] = f
	}
	return out
}

// Prometheus's own lint finds no error in the served metrics.
func TestPromtoolChecksMetrics(t *testing.T) {
	t.Parallel()
	var page bytes.Buffer
	for _, f := range families(t) {
		if _, err := expfmt.MetricFamilyToText(&page, f); err != nil {
			t.Fatal(err)
		}
	}
	check := func(page string) (string, error) {
		cmd := exec.CommandContext(t.Context(), program(t, "promtool", "apt-get install prometheus"), "check", "metrics")
		cmd.Stdin = strings.NewReader(page)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := check(page.String()); err != nil || out != "" {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
	if out, err := check("# TYPE wrongCounter counter\nwrongCounter 1\n"); err == nil {
		t.Errorf("promtool check metrics: passes a counter that is named wrongly\n%s", out)
	}
}

var (
	promSelector = regexp.MustCompile(`\b([a-zA-Z_:][a-zA-Z0-9_:]*)\{([^}]*)\}`)
	promMatcher  = regexp.MustCompile(`(\w+)\s*(?:=~|!=|!~|=)\s*"([^"]*)"`)
)

// wrongLabels lists matchers that can never match: the metric does not have the label, or
// the label never has the value.
func wrongLabels(t *testing.T, expr string) []string {
	t.Helper()
	all := families(t)
	var wrong []string
	for _, selector := range promSelector.FindAllStringSubmatch(expr, -1) {
		name := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(selector[1], "")
		for _, matcher := range promMatcher.FindAllStringSubmatch(selector[2], -1) {
			label, values := matcher[1], strings.Split(matcher[2], "|")
			if label == "job" || label == "instance" || name == "ALERTS" {
				// Prometheus adds this label.
				continue
			}
			for _, value := range values {
				if all[name] == nil || !takes(all[name], label, value) {
					wrong = append(wrong, name+" "+label+"="+value)
				}
			}
		}
	}
	return wrong
}

func takes(f *dto.MetricFamily, label, value string) bool {
	return slices.ContainsFunc(f.GetMetric(), func(m *dto.Metric) bool {
		return slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == label && l.GetValue() == value })
	})
}

// Every matcher names a real state or class. A misspelt one would never fire.
func TestEveryLabelExists(t *testing.T) {
	for where, expr := range queries(t) {
		for _, wrong := range wrongLabels(t, expr) {
			t.Errorf("%s: there is no %s", where, wrong)
		}
	}
	for _, expr := range []string{`acode_sync_state{state=~"paused|auth_faild"} == 1`, `acode_sync_state{class="auth"}`} {
		if len(wrongLabels(t, expr)) != 1 {
			t.Errorf("wrongLabels(%s): found nothing", expr)
		}
	}
}
