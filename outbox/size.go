package outbox

import "time"

const (
	firstEvents = 2000
	maxEvents   = 10_000
	firstBytes  = 1 << 20
	// of all that is in memory: in flight, and as much read ahead
	maxBytes = 6 << 20

	// targetDuration is what a batch may take and still grow.
	targetDuration = 500 * time.Millisecond

	// About what an event and a byte cost a server, beside the round trip.
	perEvent = 10 * time.Microsecond
	perByte  = 2 * time.Nanosecond

	// fewEvents take the server so little time that their delivery shows the round trip.
	fewEvents = 250
)

// size adapts batches to a link.
type size struct {
	events, bytes int
	// estimate of the round trip; 0: not measured
	trip time.Duration
}

func newSize() size { return size{events: firstEvents, bytes: firstBytes} }

// grown takes note of a batch of n events and b bytes that took d and worked. A long way
// is no reason for small batches: what counts is what the batch added to a round trip.
func (z *size) grown(n, b int, d time.Duration) {
	if work := time.Duration(n)*perEvent + time.Duration(b)*perByte; n <= fewEvents || d-work < z.trip {
		z.round(d, work)
	}
	d -= z.trip
	switch full := 2*n >= z.events || 2*b >= z.bytes; { // what was read ahead is a step behind
	case d > 4*targetDuration:
		z.halve()
	case full && d <= targetDuration:
		z.events, z.bytes = min(2*z.events, maxEvents), min(2*z.bytes, maxBytes)
	}
}

// halve takes note of a batch that ran out of time.
func (z *size) halve() { z.events, z.bytes = max(1, z.events/2), max(1<<10, z.bytes/2) }

// round takes note of a call that took d, of which the server worked about work. The
// estimate falls at once and rises slowly: what makes a call late is mostly not the
// distance.
func (z *size) round(d, work time.Duration) {
	sample := max(d-work, d/10, time.Microsecond)
	if z.trip == 0 || sample < z.trip {
		z.trip = sample
		return
	}
	z.trip = min(sample, z.trip+z.trip/16+1)
}
