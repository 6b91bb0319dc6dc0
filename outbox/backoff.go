package outbox

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

const (
	firstInterval = time.Second
	maxInterval   = 60 * time.Second
	reconnectSpan = 5 * time.Second

	// leastDelay keeps a run of luck from becoming a run of tries.
	leastDelay = 100 * time.Millisecond
)

// schedule gives delays by exponential backoff with full jitter, and never gives up. The
// zero value is not usable.
type schedule struct {
	exp  *backoff.ExponentialBackOff
	rand func() float64
}

// newSchedule makes a schedule. The library's own jitter is half of the interval around
// it, and its default is to stop after 15 minutes: both are switched off.
func newSchedule(random func() float64) *schedule {
	return &schedule{rand: random, exp: backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstInterval),
		backoff.WithMultiplier(2),
		backoff.WithMaxInterval(maxInterval),
		backoff.WithMaxElapsedTime(0),
		backoff.WithRandomizationFactor(0),
	)}
}

// next gives the next delay, at random up to the interval, which doubles.
func (s *schedule) next() time.Duration { return jitter(s.exp.NextBackOff(), s.rand) }

func (s *schedule) reset() { s.exp.Reset() }

// jitter gives a random share of d.
func jitter(d time.Duration, random func() float64) time.Duration {
	return max(leastDelay, time.Duration(random()*float64(d)))
}
