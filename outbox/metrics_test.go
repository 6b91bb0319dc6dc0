package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/session"
)

// gather reads metrics as a scrape does.
func gather(t *testing.T, m *outbox.Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(m); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*dto.MetricFamily{}
	for _, f := range families {
		out[f.GetName()] = f
	}
	return out
}

// value returns the one series of name with these label values, or -1 if there is none.
func value(families map[string]*dto.MetricFamily, name string, labels ...string) float64 {
	for _, m := range families[name].GetMetric() {
		var have []string
		for _, l := range m.GetLabel() {
			have = append(have, l.GetValue())
		}
		if !slices.Equal(have, labels) {
			continue
		}
		switch {
		case m.Counter != nil:
			return m.GetCounter().GetValue()
		case m.Histogram != nil:
			return float64(m.GetHistogram().GetSampleCount())
		}
		return m.GetGauge().GetValue()
	}
	return -1
}

// metricNames lists the metrics, sorted; a histogram by its base name.
func metricNames() []string {
	names := []string{
		"acode_sync_delivered_total", "acode_sync_rejected_total", "acode_sync_batches_total", "acode_sync_errors_total", "acode_sync_retries_total",
		"acode_sync_batch_duration_seconds", "acode_sync_batch_events", "acode_sync_batch_bytes", "acode_sync_ack_delay_seconds",
		"acode_sync_pending_events", "acode_sync_late", "acode_sync_oldest_pending_timestamp_seconds", "acode_sync_enqueued_total",
		"acode_sync_parked_events", "acode_sync_lanes", "acode_sync_backoff_seconds", "acode_sync_last_success_timestamp_seconds",
		"acode_sync_last_attempt_timestamp_seconds", "acode_sync_next_attempt_timestamp_seconds", "acode_sync_remote_up", "acode_sync_state",
		"acode_sync_leader", "acode_sync_fenced_lanes", "acode_sync_forked_lanes", "acode_build_info",
		"acode_work_steps_total", "acode_work_resumes_total", "acode_work_lock_acquisitions_total", "acode_work_resume_phase_duration_seconds",
	}
	slices.Sort(names)
	return names
}

// Every metric in the list exists from the start, and no other; label sets are closed.
func TestMetricNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := outbox.NewMetrics("v1", "go1")
		syncer(newStore(), newServer(), func(o *outbox.Options) { o.Metrics = m })
		m.WatchWork(func() (session.Work, error) { return session.Work{}, nil })
		families := gather(t, m)
		var names []string
		for n := range families {
			names = append(names, n)
		}
		slices.Sort(names)
		if want := metricNames(); !slices.Equal(names, want) {
			t.Errorf("metrics: got %v, want %v", names, want)
		}
		if got := len(families["acode_sync_state"].GetMetric()); got != len(session.SyncStates) {
			t.Errorf("states: got %d series, want %d", got, len(session.SyncStates))
		}
		if value(families, "acode_build_info", "go1", "v1") != 1 || value(families, "acode_sync_state", "pending") != 1 {
			t.Errorf("build info and state: got %v", families["acode_sync_state"])
		}
		for n, f := range families {
			if f.GetHelp() == "" || len(f.GetMetric()) == 0 {
				t.Errorf("%s: without help or series", n)
			}
		}
		if got := families["acode_sync_batch_events"].GetMetric()[0].GetHistogram(); len(got.GetBucket()) == 0 || got.Schema == nil {
			t.Errorf("histogram: got %v, want native and classic", got)
		}
	})
}

// The metrics agree with the events: deliveries, retries, refusals, and the begin, length
// and end of an outage.
func TestMetricsFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		f.commit(name(1), 2000)
		f.commit(name(2), 3)
		poisoned(sv, name(2), 3)
		m := outbox.NewMetrics("v1", "go1")
		s := syncer(f, sv, func(o *outbox.Options) { o.Metrics = m })
		if err := s.Drain(t.Context()); !errors.Is(err, session.ErrParked) {
			t.Fatal(err)
		}
		families := gather(t, m)
		for _, c := range []struct {
			want   float64
			name   string
			labels []string
		}{
			{2002, "acode_sync_delivered_total", []string{"inserted"}},
			{0, "acode_sync_delivered_total", []string{"duplicate"}},
			{2003, "acode_sync_enqueued_total", nil},
			{1, "acode_sync_pending_events", nil},
			{1, "acode_sync_parked_events", nil},
			{1, "acode_sync_lanes", []string{"parked"}},
			{1, "acode_sync_lanes", []string{"synced"}},
			{1, "acode_sync_state", []string{"parked"}},
			{0, "acode_sync_state", []string{"synced"}},
			{4, "acode_sync_rejected_total", nil}, // the batch, then the row three times
			{4, "acode_sync_errors_total", []string{"refused"}},
			{1, "acode_sync_retries_total", []string{"halved"}},
			{1, "acode_sync_remote_up", nil},
			{4, "acode_sync_batches_total", []string{"refused"}},
			{0, "acode_sync_leader", nil},
		} {
			if got := value(families, c.name, c.labels...); got != c.want {
				t.Errorf("%s%v: got %v, want %v", c.name, c.labels, got, c.want)
			}
		}
		if value(families, "acode_sync_ack_delay_seconds") < 2 {
			t.Error("acknowledgement delay: got nothing")
		}
		taken := value(families, "acode_sync_batches_total", "ok")
		for _, name := range []string{"acode_sync_batch_duration_seconds", "acode_sync_batch_events", "acode_sync_batch_bytes"} {
			if got := value(families, name); got != taken {
				t.Errorf("%s: got %v batches, want the %v that were taken", name, got, taken)
			}
		}
		oldest := value(families, "acode_sync_oldest_pending_timestamp_seconds")

		down(sv)
		stop := running(t, s)
		s.Kick()
		time.Sleep(time.Hour)
		synctest.Wait()
		families = gather(t, m)
		if value(families, "acode_sync_remote_up") != 0 || value(families, "acode_sync_leader") != 1 || value(families, "acode_sync_errors_total", "offline") < 60 {
			t.Errorf("in an outage: got up %v, leader %v, errors %v", value(families, "acode_sync_remote_up"), value(families, "acode_sync_leader"), families["acode_sync_errors_total"])
		}
		if got := value(families, "acode_sync_oldest_pending_timestamp_seconds"); got != oldest || oldest == 0 {
			t.Errorf("oldest pending: got %v, want %v as before: its age rises", got, oldest)
		}
		last, next := value(families, "acode_sync_last_attempt_timestamp_seconds"), value(families, "acode_sync_next_attempt_timestamp_seconds")
		if value(families, "acode_sync_backoff_seconds") <= 0 || next < last {
			t.Errorf("backoff: got %v, last attempt %v, next %v", value(families, "acode_sync_backoff_seconds"), last, next)
		}
		stop()
	})
}

// Look shows a store's lanes as the syncer shows them.
func TestLook(t *testing.T) {
	lanes := []session.Lane{
		{LastSeq: 5, Acked: 5, State: session.SyncSynced},
		{LastSeq: 7, Acked: 5},
		{LastSeq: 9, Acked: 1, State: session.SyncForked},
		{LastSeq: 9, Acked: 1, State: session.SyncParked, Parked: 2},
		{LastSeq: 9, Acked: 8, State: session.SyncSynced},
	}
	n := outbox.Look(session.Heartbeat{State: session.SyncPending}, lanes, session.Backlog{Events: 18}, 105, map[string]uint64{"a": 1000, "b": 20})
	if n.State() != session.SyncForked || n.Enqueued != 1038 || !n.Up || n.Leader {
		t.Errorf("Look: got %+v in state %s", n, n.State())
	}
	for state, want := range map[session.SyncState]int{session.SyncSynced: 101, session.SyncPending: 2, session.SyncForked: 1, session.SyncParked: 1} {
		if n.Lanes[state] != want {
			t.Errorf("lanes in %s: got %d, want %d", state, n.Lanes[state], want)
		}
	}
	m := outbox.NewMetrics("v1", "go1")
	m.Watch(func() outbox.Snapshot { return n })
	if got := value(gather(t, m), "acode_sync_forked_lanes"); got != 1 {
		t.Errorf("forked lanes: got %v, want 1", got)
	}
}

// No message for a person holds a row's content or is empty. The deadline of a call is
// not that of the command, which has its own exit status.
func TestEnvelope(t *testing.T) {
	for _, class := range []session.SyncFaultClass{session.FaultOffline, session.FaultServer, session.FaultReadOnly, session.FaultDiskFull, session.FaultAuth, session.FaultUnmigrated, session.FaultTooNew, session.FaultRefused} {
		var e *session.Error
		err := outbox.Envelope(&session.SyncFault{Class: class, Cause: fmt.Errorf("%w: %w", errNet, context.DeadlineExceeded)})
		said := strings.Contains(err.Error(), errNet.Error()) && !strings.Contains(err.Error(), string(class)+": ")
		if !errors.As(err, &e) || !strings.Contains(e.Message, "kept") || e.Next.IsZero() || !said || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Envelope of %s: got %#v", class, err)
		}
	}
	if got := outbox.Envelope(errNet); got != errNet {
		t.Errorf("Envelope of another error: got %v", got)
	}
}
