package outbox

import "time"

// Metrics counts what a syncer does.
type Metrics struct{}

const (
	retryAsked   = "asked"
	retryRewound = "rewound"
	retryLane    = "lane"
	retryHalved  = "halved"
)

func (m *Metrics) bind(func() Snapshot) {}

func (m *Metrics) failed(string, time.Duration) {}

func (m *Metrics) retried(string) {}

func (m *Metrics) refuse() {}

func (m *Metrics) acknowledge(result, time.Duration) {}
