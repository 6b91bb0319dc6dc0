package outbox

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/acode-dev/acode/session"
)

// Reasons of retries; a closed set.
const (
	// retryFault is trouble of the whole server.
	retryFault = "fault"
	// retryLane is trouble of one session.
	retryLane = "lane"
	// retryRewound means that the server's mark went down.
	retryRewound = "rewound"
	// retryHalved means that a refused batch was cut in two.
	retryHalved = "halved"
)

// Outcomes of a batch; a closed set.
const (
	// outcomeOK means that the server has all of it.
	outcomeOK = "ok"
	// outcomeShort means that the server answered with a smaller mark.
	outcomeShort = "short"
	// outcomeFenced means that the batch was filed as a fork, because the session is
	// fenced.
	outcomeFenced = "fenced"
	// outcomeForked means that the batch was filed as a fork.
	outcomeForked = "forked"
	// outcomeRefused means that the server refused the batch.
	outcomeRefused = "refused"
	// outcomeFault is any other failure.
	outcomeFault = "fault"
)

// Metrics counts the work of a syncer and shows its state. It is a prometheus.Collector
// with closed label sets; register it once.
type Metrics struct {
	*prometheus.Registry
	// look returns the state to show; nil shows none.
	look func() Snapshot
	// readWork returns the work to show; nil shows none.
	readWork func() (session.Work, error)

	delivered, batches, errors, retries *prometheus.CounterVec

	rejected                          prometheus.Counter
	duration, events, bytes, ackDelay prometheus.Histogram
}

// NewMetrics makes the metrics of a program of the given versions. They show no state
// until Watch or New is called, and no work until WatchWork is called.
func NewMetrics(version, goversion string) *Metrics {
	m := &Metrics{Registry: prometheus.NewRegistry()}
	auto := promauto.With(m.Registry)
	counters := func(name, help, label string) *prometheus.CounterVec {
		return auto.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	m.delivered = counters("acode_sync_delivered_total", "Events that the server acknowledged: inserted, or duplicates that it had already.", "result")
	m.batches = counters("acode_sync_batches_total", "Deliveries by outcome.", "outcome")
	m.errors = counters("acode_sync_errors_total", "Failed calls and refused servers by class.", "class")
	m.retries = counters("acode_sync_retries_total", "Retries by reason.", "reason")
	m.rejected = auto.NewCounter(prometheus.CounterOpts{Name: "acode_sync_rejected_total", Help: "Deliveries that a reachable server refused for a row's own fault."})
	m.duration = auto.NewHistogram(histogram("acode_sync_batch_duration_seconds", "Duration of a delivery that was answered.", prometheus.ExponentialBuckets(0.001, 2, 15)))
	m.events = auto.NewHistogram(histogram("acode_sync_batch_events", "Events in a delivery that was answered.", prometheus.ExponentialBuckets(1, 4, 8)))
	m.bytes = auto.NewHistogram(histogram("acode_sync_batch_bytes", "Bytes of payload in a delivery that was answered.", prometheus.ExponentialBuckets(256, 4, 8)))
	m.ackDelay = auto.NewHistogram(histogram("acode_sync_ack_delay_seconds", "Time from commit to acknowledgement of the oldest event of a delivery.", prometheus.ExponentialBuckets(0.01, 4, 12)))
	auto.NewGauge(prometheus.GaugeOpts{Name: "acode_build_info", Help: "Always 1; its labels are the versions of the program and of Go.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": goversion}}).Set(1)
	m.MustRegister(m.gauges(), m.workReader())
	m.prime()
	return m
}

func histogram(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour}
}

// prime creates every series of the closed sets at the start, so that a rate over one
// sees its first count.
func (m *Metrics) prime() {
	for _, result := range []string{"inserted", "duplicate"} {
		m.delivered.WithLabelValues(result)
	}
	for _, outcome := range []string{outcomeOK, outcomeShort, outcomeFenced, outcomeForked, outcomeRefused, outcomeFault} {
		m.batches.WithLabelValues(outcome)
	}
	for class := range stateOfClass {
		m.errors.WithLabelValues(string(class))
	}
	for _, class := range []string{string(session.FaultServer), string(session.FaultRefused), classOtherDatabase, classStore} {
		m.errors.WithLabelValues(class)
	}
	for _, reason := range []string{retryFault, retryLane, retryRewound, retryHalved} {
		m.retries.WithLabelValues(reason)
	}
}

// Watch sets the source of the state: a syncer's Snapshot, or a function that calls Look
// for a store. Call it before m is collected.
func (m *Metrics) Watch(look func() Snapshot) { m.look = look }

// WatchWork sets the source of the work. If read fails, no work is shown.
func (m *Metrics) WatchWork(read func() (session.Work, error)) { m.readWork = read }

// reader is a prometheus.Collector that reads its metrics on each collection.
type reader struct {
	descs []*prometheus.Desc
	read  func(out chan<- prometheus.Metric)
}

// Describe implements prometheus.Collector.
func (r reader) Describe(out chan<- *prometheus.Desc) {
	for _, d := range r.descs {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (r reader) Collect(out chan<- prometheus.Metric) { r.read(out) }

// failed counts a fault that stops every lane.
func (m *Metrics) failed(class string) {
	m.errors.WithLabelValues(class).Inc()
	m.retries.WithLabelValues(retryFault).Inc()
}

// erred counts a fault that stops only its own lane or chore.
func (m *Metrics) erred(class session.SyncFaultClass) { m.errors.WithLabelValues(string(class)).Inc() }

func (m *Metrics) retried(reason string) { m.retries.WithLabelValues(reason).Inc() }

// batch counts one delivery with its outcome. The delay of an acknowledgement uses one
// clock, because the same machine committed the event.
func (m *Metrics) batch(res result, at time.Time) {
	if len(res.d.Events) == 0 {
		return
	}
	outcome := outcomeOf(res)
	m.batches.WithLabelValues(outcome).Inc()
	if outcome == outcomeRefused {
		m.rejected.Inc()
	}
	if res.err != nil {
		return
	}
	m.duration.Observe(res.took.Seconds())
	m.events.Observe(float64(len(res.d.Events)))
	m.bytes.Observe(float64(res.bytes))
	m.delivered.WithLabelValues("inserted").Add(float64(max(0, res.mark.Inserted)))
	m.delivered.WithLabelValues("duplicate").Add(float64(max(0, res.mark.Duplicate)))
	if outcome == outcomeOK {
		m.ackDelay.Observe(max(0, at.Sub(res.d.Events[0].Time())).Seconds())
	}
}

func outcomeOf(res result) string {
	var f *session.SyncFault
	last := len(res.d.Events) - 1
	switch {
	case errors.As(res.err, &f) && f.Class == session.FaultRefused:
		return outcomeRefused
	case res.err != nil:
		return outcomeFault
	case res.mark.Verdict == session.DeliveryFenced:
		return outcomeFenced
	case res.mark.Verdict == session.DeliveryForked:
		return outcomeForked
	case res.mark.Seq < res.d.Events[last].Seq:
		return outcomeShort
	}
	return outcomeOK
}
