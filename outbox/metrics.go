package outbox

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/acode-dev/acode/session"
)

// Why something was tried again; a closed set.
const (
	// the server as a whole was in trouble
	retryFault = "fault"
	// one session had trouble of its own
	retryLane = "lane"
	// the server's mark went down
	retryRewound = "rewound"
	// a refused batch was cut in two
	retryHalved = "halved"
)

// How a batch ended; a closed set.
const (
	// the server has all of it
	outcomeOK = "ok"
	// it answered with a smaller mark
	outcomeShort = "short"
	// filed as a fork
	outcomeFenced = "fenced"
	// filed as a fork
	outcomeForked = "forked"
	// it was refused
	outcomeRefused = "refused"
	// it failed in another way
	outcomeFault = "fault"
)

// Metrics counts what a syncer does and shows how it stands. It is a prometheus.Collector
// with closed label sets; register it once.
type Metrics struct {
	*prometheus.Registry
	// nil: nothing to show
	look func() Snapshot
	// nil: nothing to show
	readWork func() (session.Work, error)

	delivered, batches, errors, retries *prometheus.CounterVec

	rejected                          prometheus.Counter
	duration, events, bytes, ackDelay prometheus.Histogram
}

// NewMetrics makes the metrics of a program of the given versions. Until Watch or New
// gives it something to look at, it shows no state, and until WatchWork does, no work.
func NewMetrics(version, goversion string) *Metrics {
	m := &Metrics{Registry: prometheus.NewRegistry()}
	auto := promauto.With(m.Registry)
	counters := func(name, help, label string) *prometheus.CounterVec {
		return auto.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	m.delivered = counters("acode_sync_delivered_total", "Events that the server acknowledged, by whether it had them already.", "result")
	m.batches = counters("acode_sync_batches_total", "Deliveries by outcome.", "outcome")
	m.errors = counters("acode_sync_errors_total", "Failed calls and refused servers by class.", "class")
	m.retries = counters("acode_sync_retries_total", "What is tried again, by reason.", "reason")
	m.rejected = auto.NewCounter(prometheus.CounterOpts{Name: "acode_sync_rejected_total", Help: "Deliveries that a reachable server refused for a row's own fault."})
	m.duration = auto.NewHistogram(histogram("acode_sync_batch_duration_seconds", "Duration of a delivery that was answered.", prometheus.ExponentialBuckets(0.001, 2, 15)))
	m.events = auto.NewHistogram(histogram("acode_sync_batch_events", "Events in a delivery that was answered.", prometheus.ExponentialBuckets(1, 4, 8)))
	m.bytes = auto.NewHistogram(histogram("acode_sync_batch_bytes", "Bytes of payload in a delivery that was answered.", prometheus.ExponentialBuckets(256, 4, 8)))
	m.ackDelay = auto.NewHistogram(histogram("acode_sync_ack_delay_seconds", "Time from commit to acknowledgement of the oldest event of a delivery.", prometheus.ExponentialBuckets(0.01, 4, 12)))
	auto.NewGauge(prometheus.GaugeOpts{Name: "acode_build_info", Help: "Always 1; its labels say what runs.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": goversion}}).Set(1)
	m.MustRegister(m.gauges(), m.work())
	m.prime()
	return m
}

func histogram(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour}
}

// prime makes every series of the closed sets exist from the start, so that a rate over
// one sees its first count.
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

// Watch gives m what it shows the state of, before it is collected: a syncer's Snapshot,
// or what Look makes of a store.
func (m *Metrics) Watch(look func() Snapshot) { m.look = look }

// WatchWork gives m what it shows the work of, as Watch does. What cannot be read is not
// shown.
func (m *Metrics) WatchWork(read func() (session.Work, error)) { m.readWork = read }

// reader is a prometheus.Collector of what is read when it is asked for.
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

// erred counts a fault that stops nothing else.
func (m *Metrics) erred(class session.SyncFaultClass) { m.errors.WithLabelValues(string(class)).Inc() }

func (m *Metrics) retried(reason string) { m.retries.WithLabelValues(reason).Inc() }

// batch counts one delivery, whatever came of it. ackDelay of an event is by one clock,
// since the same machine committed it.
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
