package outbox

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"github.com/acode-dev/acode/session"
)

// OnParked says what a lane does when a row of it is parked.
type OnParked string

// The policies.
const (
	// Wait keeps the lane where it is until a person decides. It is the default.
	Wait OnParked = "wait"

	// Continue delivers a stand-in for the row, which keeps the row's place and hash and
	// says why it was refused, and goes on. A lane that is past the row is parked no
	// longer, since nothing waits for a person. That something was withheld stays
	// visible: OnLane was told with the reason, the stand-in says it, and the server's
	// verified mark stays below.
	Continue OnParked = "continue"
)

// Options make a Syncer. Source, Remote and Now are required.
type Options struct {
	Source Source
	Remote Remote
	Now    func() time.Time

	// Heartbeat is the one that the store keeps, with PID, StartedUS, Command and Address
	// of this drainer in place of those before. An outage began when the first drainer
	// noticed it, and the last success is the store's, so State, Reason, SinceUS and
	// LastUS are carried on; what else it has of the drainer before is dropped. The zero
	// value knows of nothing.
	Heartbeat session.Heartbeat

	// WholeOutputs also delivers whole outputs of commands, of which receipts have head
	// and tail. It counts for the events that are delivered while it is set.
	WholeOutputs bool

	// empty means Wait
	OnParked OnParked
	// lanes with a delivery in flight; 0 means 4
	Parallel int
	// of one call to the server; 0 means 10s
	Timeout time.Duration

	// Dropped names parked rows that a person gave up, by session. Their lanes Continue.
	Dropped map[session.ID]uint64

	// Paused asks whether a person paused delivery; nil never does.
	Paused func(ctx context.Context) (bool, error)

	// OnState is told the first state that this syncer finds, whatever it carries on, and
	// each that differs from the one told before; nil is not. It must not block.
	OnState func(h session.Heartbeat)

	// OnLane is told when a lane becomes parked, fenced or forked; nil is not. It must
	// not block.
	OnLane func(l session.Lane)

	// nil: what is recorded is not shown
	Metrics *Metrics
	// uniform in [0, 1); nil means math/rand/v2
	Rand func() float64
}

const (
	// how soon a commit of another process is seen
	pollEvery = time.Second
	// the store has so long to take the last heartbeat
	leaveWithin = time.Second
	// how old a heartbeat and the counts of a snapshot get
	beatEvery = 5 * time.Second
	// how soon an idle syncer notices that its server is gone or another
	probeEvery = 30 * time.Second

	// refusals until a row is parked
	maxAttempts = 3
	marksPage   = 500
	blobsPage   = 500
)

func (o Options) withDefaults() Options {
	o.OnParked = cmp.Or(o.OnParked, Wait)
	o.Parallel = cmp.Or(o.Parallel, 4)
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	if o.Metrics == nil {
		o.Metrics = NewMetrics("", "")
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	return o
}
