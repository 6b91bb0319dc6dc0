package outbox

import "time"

const (
	firstInterval = time.Second
	maxInterval   = 60 * time.Second
	reconnectSpan = 5 * time.Second

	// leastDelay keeps a run of luck from becoming a run of tries.
	leastDelay = 100 * time.Millisecond
)

// schedule gives delays by exponential backoff with full jitter, and never gives up.
type schedule struct {
	interval time.Duration
	rand     func() float64
}

func newSchedule(random func() float64) *schedule { return &schedule{firstInterval, random} }

// next gives the next delay, at random up to the interval, which doubles.
func (s *schedule) next() time.Duration {
	d := jitter(s.interval, s.rand)
	s.interval = min(2*s.interval, maxInterval)
	return d
}

func (s *schedule) reset() { s.interval = firstInterval }

// jitter gives a random share of d.
func jitter(d time.Duration, random func() float64) time.Duration {
	return max(leastDelay, time.Duration(random()*float64(d)))
}
