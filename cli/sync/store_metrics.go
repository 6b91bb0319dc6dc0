package syncer

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/acode-dev/acode/local"
)

// storeMetrics measures the size of the store's files and the commits and checkpoints of
// this process. It is a prometheus.Collector.
type storeMetrics struct {
	*prometheus.Registry
	commits, checkpoints prometheus.Histogram
	busy, failures       prometheus.Counter
}

func newStoreMetrics(st *local.Store) *storeMetrics {
	m := &storeMetrics{Registry: prometheus.NewRegistry()}
	auto := promauto.With(m.Registry)
	size := func(name, help string, of func(database, wal int64) int64) {
		auto.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			database, wal, err := st.Sizes()
			if err != nil {
				return math.NaN()
			}
			return float64(of(database, wal))
		})
	}
	duration := func(name, help string) prometheus.Histogram {
		return auto.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(0.0001, 4, 10),
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour})
	}
	counter := func(name, help string) prometheus.Counter {
		return auto.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	size("acode_store_database_bytes", "Size of the store's database without its log.", func(database, _ int64) int64 { return database })
	size("acode_store_wal_bytes", "Size of the log beside the database; it is reused from its beginning, and shrinks only when it is larger than 64 MiB.", func(_, wal int64) int64 { return wal })
	m.commits = duration("acode_store_commit_duration_seconds", "Duration of the drainer's commits, the wait for the lock included.")
	m.checkpoints = duration("acode_store_checkpoint_duration_seconds", "Duration of the drainer's copying of the log into the database.")
	m.busy = counter("acode_store_busy_total", "How often the drainer found another writer at its commit.")
	m.failures = counter("acode_store_checkpoint_failures_total", "How often the drainer could not copy the log into the database.")
	return m
}

// observer counts the commits and checkpoints of an outbox.
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
