package outbox

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

const (
	firstInterval = time.Second
	maxInterval   = 60 * time.Second
	reconnectSpan = 5 * time.Second

	// leastDelay limits the rate of tries if the random numbers stay small.
	leastDelay = 100 * time.Millisecond
)

// schedule returns delays by exponential backoff with full jitter, and never gives up.
// The zero value is not usable.
type schedule struct {
	exp  *backoff.ExponentialBackOff
	rand func() float64
}

// newSchedule makes a schedule. It switches off two defaults of the library: a jitter of
// half the interval, and an end after 15 minutes.
func newSchedule(random func() float64) *schedule {
	return &schedule{rand: random, exp: backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstInterval),
		backoff.WithMultiplier(2),
		backoff.WithMaxInterval(maxInterval),
		backoff.WithMaxElapsedTime(0),
		backoff.WithRandomizationFactor(0),
	)}
}

// next returns a random delay up to the interval, and doubles the interval.
func (s *schedule) next() time.Duration { return jitter(s.exp.NextBackOff(), s.rand) }

func (s *schedule) reset() { s.exp.Reset() }

// jitter returns a random share of d.
func jitter(d time.Duration, random func() float64) time.Duration {
	return max(leastDelay, time.Duration(random()*float64(d)))
}
