package syncer

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/acode-dev/acode/local"
)

// storeMetrics shows how large the store's files are, and what this process's drainer does to
// them. It is a prometheus.Collector.
type storeMetrics struct {
	sizes func() (database, wal int64, err error)

	databaseBytes, walBytes *prometheus.Desc
	commits, checkpoints    prometheus.Histogram
	busy, failures          prometheus.Counter
}

func newStoreMetrics(st *local.Store) *storeMetrics {
	size := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }
	duration := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(0.0001, 4, 10),
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return &storeMetrics{
		sizes:         st.Sizes,
		databaseBytes: size("acode_store_database_bytes", "Size of the store's database without its log."),
		walBytes:      size("acode_store_wal_bytes", "Size of the log beside the database; it is used again from its beginning and shrinks only from beyond 64 MiB."),
		commits:       duration("acode_store_commit_duration_seconds", "Duration of the drainer's commits, the wait for the lock included."),
		checkpoints:   duration("acode_store_checkpoint_duration_seconds", "Duration of the drainer's copying of the log into the database."),
		busy:          counter("acode_store_busy_total", "How often the drainer found another writer at its commit."),
		failures:      counter("acode_store_checkpoint_failures_total", "How often the drainer could not copy the log into the database."),
	}
}

// observer counts what an outbox does.
func (m *storeMetrics) observer() local.Observer {
	return local.Observer{
		Commit: func(took time.Duration, busy int, _ error) {
			m.commits.Observe(took.Seconds())
			m.busy.Add(float64(busy))
		},
		Checkpoint: func(took time.Duration, err error) {
			m.checkpoints.Observe(took.Seconds())
			if err != nil {
				m.failures.Inc()
			}
		},
	}
}

func (m *storeMetrics) own() []prometheus.Collector {
	return []prometheus.Collector{m.commits, m.checkpoints, m.busy, m.failures}
}

// Describe implements prometheus.Collector.
func (m *storeMetrics) Describe(out chan<- *prometheus.Desc) {
	out <- m.databaseBytes
	out <- m.walBytes
	for _, c := range m.own() {
		c.Describe(out)
	}
}

// Collect implements prometheus.Collector. Sizes that nobody can tell are not shown.
func (m *storeMetrics) Collect(out chan<- prometheus.Metric) {
	if database, wal, err := m.sizes(); err == nil {
		out <- prometheus.MustNewConstMetric(m.databaseBytes, prometheus.GaugeValue, float64(database))
		out <- prometheus.MustNewConstMetric(m.walBytes, prometheus.GaugeValue, float64(wal))
	}
	for _, c := range m.own() {
		c.Collect(out)
	}
}
