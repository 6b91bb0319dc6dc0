package outbox

import "time"

const (
	firstEvents = 2000
	maxEvents   = 10_000
	firstBytes  = 1 << 20
	// maxBytes limits all payloads in memory: half in flight, and half read ahead.
	maxBytes = 6 << 20

	// targetDuration is the longest duration of a batch after which batches grow.
	targetDuration = 500 * time.Millisecond

	// The approximate cost of an event and of a byte on a server, without the round trip.
	perEvent = 10 * time.Microsecond
	perByte  = 2 * time.Nanosecond

	// fewEvents is the greatest number of events whose delivery measures the round trip.
	fewEvents = 250
)

// size adapts batches to a link.
type size struct {
	events, bytes int
	// trip is the estimated round trip; 0 if it was not measured.
	trip time.Duration
}

func newSize() size { return size{events: firstEvents, bytes: firstBytes} }

// grown records a batch of n events and b bytes that took d and succeeded. It subtracts
// the round trip, so that a distant server does not make batches small.
func (z *size) grown(n, b int, d time.Duration) {
	if work := time.Duration(n)*perEvent + time.Duration(b)*perByte; n <= fewEvents || d-work < z.trip {
		z.round(d, work)
	}
	d -= z.trip
	// batches that were read ahead are a step behind
	switch full := 2*n >= z.events || 2*b >= z.bytes; {
	case d > 4*targetDuration:
		z.halve()
	case full && d <= targetDuration:
		z.events, z.bytes = min(2*z.events, maxEvents), min(2*z.bytes, maxBytes)
	}
}

// halve records a batch that timed out.
func (z *size) halve() { z.events, z.bytes = max(1, z.events/2), max(1<<10, z.bytes/2) }

// round records a call that took d, of which the server worked for about work. The
// estimate falls at once and rises slowly, because a late call is seldom late because of
// the distance.
func (z *size) round(d, work time.Duration) {
	sample := max(d-work, d/10, time.Microsecond)
	if z.trip == 0 || sample < z.trip {
		z.trip = sample
		return
	}
	z.trip = min(sample, z.trip+z.trip/16+1)
}
