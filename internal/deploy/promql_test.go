package deploy_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	// The parts of PromQL around the names of metrics: strings, matchers, ranges, lists
	// of labels.
	promString = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'`)
	promAround = regexp.MustCompile(`\{[^}]*\}|\[[^\]]*\]|\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)`)

	// A word, and the parenthesis that makes it a function. A letter after a digit is a
	// unit.
	promWord  = regexp.MustCompile(`\$?\b[a-zA-Z_:][a-zA-Z0-9_:]*(\s*\()?`)
	promState = regexp.MustCompile(`\bstate=~?"([^"]*)"`)

	// Words that are not metrics: operators, and aggregations before their list of
	// labels.
	promReserved = strings.Fields("and or unless bool offset start end inf nan by without on ignoring group_left group_right " +
		"sum count min max avg group stddev stdvar topk bottomk quantile count_values")
)

// metricsIn lists the distinct metrics that a PromQL expression or a Grafana query names.
func metricsIn(expr string) []string {
	expr = promAround.ReplaceAllString(promString.ReplaceAllString(expr, `""`), " ")
	if inner, ok := strings.CutPrefix(strings.TrimSpace(expr), "label_values("); ok {
		// The second argument is a label.
		expr, _, _ = strings.Cut(inner, ",")
	}
	var out []string
	for _, word := range promWord.FindAllString(expr, -1) {
		isName := !strings.HasPrefix(word, "$") && !strings.HasSuffix(word, "(") && !slices.Contains(promReserved, strings.ToLower(word))
		if isName && !slices.Contains(out, word) {
			out = append(out, word)
		}
	}
	return out
}

// statesIn lists the states that the matchers of an expression name.
func statesIn(expr string) []string {
	var out []string
	for _, match := range promState.FindAllStringSubmatch(expr, -1) {
		out = append(out, strings.Split(match[1], "|")...)
	}
	return out
}

// metricsIn misses no name and returns only metrics.
func TestMetricsIn(t *testing.T) {
	for name, tc := range map[string]struct {
		expr string
		want []string
	}{
		"matchers":    {`a_total{state=~"x|y", job="b"} > 1e5`, []string{"a_total"}},
		"functions":   {`histogram_quantile(0.95, sum by (le, instance) (rate(a_bucket{x="}"}[$__rate_interval])))`, []string{"a_bucket"}},
		"operators":   {`a > 0 unless on (job, instance) b{s="c"} == 1 and c or vector(0)`, []string{"a", "b", "c"}},
		"after":       {`sum(rate(a[5m] offset 1h)) by (le) / ignoring(x) group_left(y) count(b)`, []string{"a", "b"}},
		"once":        {`a - a`, []string{"a"}},
		"variables":   {`label_values(a, instance)`, []string{"a"}},
		"no_metrics":  {`vector(1) + time()`, nil},
		"single":      {`ALERTS{x='y{"'} > bool 0`, []string{"ALERTS"}},
		"two_matched": {`absent(up{job="acode"}) or up{job="acode"} == 0`, []string{"up"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, metricsIn(tc.expr)); diff != "" {
				t.Errorf("metricsIn(%s): %s", tc.expr, diff)
			}
		})
	}
}
