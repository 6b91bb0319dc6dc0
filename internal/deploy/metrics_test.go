package deploy_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/acode-dev/acode/session"
)

// ofStore lists the metrics of the store. The program serves them beside those of the
// outbox, which does not know how a store is kept.
func ofStore() []string {
	return []string{"acode_store_database_bytes", "acode_store_wal_bytes", "acode_store_checkpoint_failures_total"}
}

// exists reports whether Prometheus has a series with this name: one of ours, a part of a
// histogram of ours, or one that Prometheus makes itself.
func exists(t *testing.T, name string) bool {
	t.Helper()
	if name == "up" || name == "ALERTS" || slices.Contains(ofStore(), name) {
		return true
	}
	all := families(t)
	for _, part := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, part); ok && all[base].GetType() == dto.MetricType_HISTOGRAM {
			return true
		}
	}
	return all[name] != nil && all[name].GetType() != dto.MetricType_HISTOGRAM
}

// queries returns every expression of rules and panels by its place.
func queries(t *testing.T) map[string]string {
	t.Helper()
	out := panels(t)
	for _, a := range alerts(t) {
		out["alert "+a.Alert] = a.Expr
	}
	return out
}

// Every rule and panel uses existing metrics. A rule over a missing metric would never
// fire.
func TestEveryMetricExists(t *testing.T) {
	for where, expr := range queries(t) {
		names := metricsIn(expr)
		if len(names) == 0 {
			t.Errorf("%s: %s names no metric", where, expr)
		}
		for _, name := range names {
			if !exists(t, name) {
				t.Errorf("%s: %s is no metric of the syncer", where, name)
			}
		}
	}
}

// The check above can fail: it finds a name with one wrong letter.
func TestMissingMetricIsFound(t *testing.T) {
	for _, name := range []string{"acode_sync_pending_event", "acode_sync_enqueued_total_bucket", "node_load1", "acode_sync_batch_events", "acode_sync_state_count"} {
		if got := metricsIn("rate(" + name + "[5m]) > 0"); len(got) != 1 || exists(t, got[0]) {
			t.Errorf("exists(%s): got true, want false", name)
		}
	}
}

// The dashboard shows every metric.
func TestEveryMetricIsOnTheDashboard(t *testing.T) {
	var shown []string
	for _, expr := range panels(t) {
		shown = append(shown, metricsIn(expr)...)
	}
	for _, name := range append(slices.Collect(maps.Keys(families(t))), ofStore()...) {
		parts := []string{name, name + "_bucket", name + "_sum"}
		if name != "acode_build_info" && !slices.ContainsFunc(parts, func(p string) bool { return slices.Contains(shown, p) }) {
			t.Errorf("%s: on no panel", name)
		}
	}
}

// Metrics named in the unit tests of the alerts and in the documents exist too.
func TestEveryMetricInTextExists(t *testing.T) {
	metric := regexp.MustCompile(`\bacode_(?:sync|store|work|build)_[a-z_]+`)
	for _, path := range [][]string{{"deploy", "prometheus", "alerts_test.yml"}, {"docs", "operations.md"}} {
		found := metric.FindAllString(read(t, path...), -1)
		if len(found) == 0 {
			t.Errorf("%s: names no metric", path[len(path)-1])
		}
		for _, name := range found {
			if !exists(t, name) {
				t.Errorf("%s: %s is no metric of the syncer", path[len(path)-1], name)
			}
		}
	}
}

func states() []string {
	var out []string
	for _, s := range session.SyncStates {
		out = append(out, string(s))
	}
	return out
}

// An alert covers each lasting state. A new state must be added here.
func TestEveryStateIsTold(t *testing.T) {
	told := map[session.SyncState]string{
		// This is the normal state.
		session.SyncSynced: "",
		// The user chose this state.
		session.SyncDisabled: "",
		session.SyncPending:  "AcodeOutboxStale",
		session.SyncPaused:   "AcodeOutboxStale",
		session.SyncRetrying: "AcodeOutboxStale",
		session.SyncOffline:  "AcodeRemoteDown",
		session.SyncParked:   "AcodeEventsParked",
		session.SyncFenced:   "AcodeSessionFenced",
		session.SyncForked:   "AcodeSessionForked",
	}
	exprs := map[string]string{}
	for _, a := range alerts(t) {
		exprs[a.Alert] = a.Expr
	}
	for _, state := range session.SyncStates {
		name, other := told[state]
		refused := slices.Contains(statesIn(exprs["AcodeServerRefuses"]), string(state))
		switch {
		case other && name != "" && exprs[name] == "":
			t.Errorf("%s: there is no alert %s", state, name)
		case other == refused:
			t.Errorf("%s: by AcodeServerRefuses %v, by another or none %v: want one of them", state, refused, other)
		}
	}
}

// No alert reads the time of Prometheus, because the clocks of two machines differ.
func TestNoAlertSubtractsClocks(t *testing.T) {
	for _, a := range alerts(t) {
		if regexp.MustCompile(`\b(time|timestamp)\s*\(`).MatchString(a.Expr) {
			t.Errorf("%s: compares the clock of Prometheus with that of the syncer: %s", a.Alert, a.Expr)
		}
	}
}

// One cause fires one alert: a server that refuses is not reported as down as well.
func TestRefusalIsNotToldTwice(t *testing.T) {
	exprs := map[string]string{}
	for _, a := range alerts(t) {
		exprs[a.Alert] = a.Expr
	}
	want := append([]string{"disabled", "paused"}, statesIn(exprs["AcodeServerRefuses"])...)
	if got := statesIn(exprs["AcodeRemoteDown"]); !slices.Equal(got, want) {
		t.Errorf("AcodeRemoteDown: leaves out %q, want %q", got, want)
	}
}
