package outbox

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/acode-dev/acode/session"
)

// gauge is a metric that is read from a snapshot. each replaces read if the metric has a
// value per label.
type gauge struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(n Snapshot) float64
	each func(n Snapshot) map[string]float64
}

// gauges returns a collector of the metrics that are read from a snapshot.
func (m *Metrics) gauges() reader {
	plain := func(name, help string, read func(n Snapshot) float64) gauge {
		return gauge{desc: prometheus.NewDesc(name, help, nil, nil), kind: prometheus.GaugeValue, read: read}
	}
	byState := func(name, help string, each func(n Snapshot) map[string]float64) gauge {
		return gauge{desc: prometheus.NewDesc(name, help, []string{"state"}, nil), kind: prometheus.GaugeValue, each: each}
	}
	enqueued := plain("acode_sync_enqueued_total", "Events of the store, acknowledged or pending.", func(n Snapshot) float64 { return float64(n.Enqueued) })
	enqueued.kind = prometheus.CounterValue
	all := []gauge{
		plain("acode_sync_pending_events", "Events that are not acknowledged: ready, backing off, in flight and behind a parked one.", func(n Snapshot) float64 { return float64(n.Backlog.Events) }),
		plain("acode_sync_oldest_pending_timestamp_seconds", "Commit time of the oldest pending event; 0: nothing is pending.", func(n Snapshot) float64 { return seconds(n.Backlog.OldestUS) }),
		plain("acode_sync_late", "1 when the oldest pending event is older than sync.late_after, by the clock of this machine.", func(n Snapshot) float64 { return truth(n.Late) }),
		enqueued,
		plain("acode_sync_parked_events", "Events that the server refused and that wait for a person.", func(n Snapshot) float64 { return float64(n.Lanes[session.SyncParked]) }),
		byState("acode_sync_lanes", "Sessions by state of their delivery.", laneCounts),
		plain("acode_sync_backoff_seconds", "Length of the current wait; 0 if there is none.", func(n Snapshot) float64 { return n.Backoff.Seconds() }),
		plain("acode_sync_last_success_timestamp_seconds", "When the server last acknowledged, or no event was pending; 0: never.", func(n Snapshot) float64 { return seconds(n.Heartbeat.LastUS) }),
		plain("acode_sync_last_attempt_timestamp_seconds", "When the server was last called; 0: never.", func(n Snapshot) float64 { return seconds(n.Heartbeat.AttemptUS) }),
		plain("acode_sync_next_attempt_timestamp_seconds", "When the current wait ends; 0 if there is none.", func(n Snapshot) float64 { return seconds(n.Heartbeat.NextUS) }),
		plain("acode_sync_remote_up", "1 when the server answered the last call.", func(n Snapshot) float64 { return truth(n.Up) }),
		byState("acode_sync_state", "1 for the state that delivery is in, the worst of connection and sessions.", oneHot),
		plain("acode_sync_leader", "1 when this process is the store's drainer.", func(n Snapshot) float64 { return truth(n.Leader) }),
		plain("acode_sync_fenced_lanes", "Sessions that were taken over elsewhere.", func(n Snapshot) float64 { return float64(n.Lanes[session.SyncFenced]) }),
		plain("acode_sync_forked_lanes", "Sessions of which the server has another history.", func(n Snapshot) float64 { return float64(n.Lanes[session.SyncForked]) }),
	}
	r := reader{read: func(out chan<- prometheus.Metric) {
		if m.look == nil {
			return
		}
		n := m.look()
		for _, g := range all {
			if g.read != nil {
				out <- prometheus.MustNewConstMetric(g.desc, g.kind, g.read(n))
				continue
			}
			for label, value := range g.each(n) {
				out <- prometheus.MustNewConstMetric(g.desc, g.kind, value, label)
			}
		}
	}}
	for _, g := range all {
		r.descs = append(r.descs, g.desc)
	}
	return r
}

// laneStates are the states of a lane.
var laneStates = []session.SyncState{
	session.SyncSynced, session.SyncPending, session.SyncRetrying, session.SyncParked, session.SyncFenced, session.SyncForked,
}

func laneCounts(n Snapshot) map[string]float64 {
	out := map[string]float64{}
	for _, state := range laneStates {
		out[string(state)] = float64(n.Lanes[state])
	}
	return out
}

func oneHot(n Snapshot) map[string]float64 {
	out := map[string]float64{}
	for _, state := range session.SyncStates {
		out[string(state)] = truth(state == n.State())
	}
	return out
}

func seconds(us int64) float64 { return float64(us) / 1e6 }

func truth(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
