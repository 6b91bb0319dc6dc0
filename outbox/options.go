package outbox

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"github.com/acode-dev/acode/session"
)

// OnParked says how a lane continues after a row of it is parked.
type OnParked string

// The policies.
const (
	// Wait keeps the lane where it is until a person decides. It is the default.
	Wait OnParked = "wait"

	// Continue delivers a stand-in for the row and continues. The stand-in keeps the
	// row's place and hash and says why the row was refused. A lane past the row is no
	// longer parked, because no person has to act. It stays visible that a row was
	// withheld. OnLane was called with the reason, the stand-in has it, and the server's
	// verified mark stays below the row.
	Continue OnParked = "continue"
)

// Options make a Syncer. Source, Remote and Now are required.
type Options struct {
	Source Source
	Remote Remote
	Now    func() time.Time

	// Heartbeat is the heartbeat of the store, with PID, StartedUS, Command and Address
	// of this drainer. An outage began when the first drainer noticed it, and the last
	// success is the store's. So the Syncer keeps State, Reason, SinceUS and LastUS, and
	// drops the other fields of the earlier drainer. The zero value holds no earlier
	// state.
	Heartbeat session.Heartbeat

	// WholeOutputs also delivers whole outputs of commands, of which receipts have head
	// and tail. It applies to the events that are delivered while it is set.
	WholeOutputs bool

	// OnParked is the policy for parked rows; empty means Wait.
	OnParked OnParked
	// Parallel is the number of lanes with a delivery in flight; 0 means 4.
	Parallel int
	// Timeout limits one call to the server; 0 means 10s.
	Timeout time.Duration

	// Dropped names parked rows that a person gave up, by session. Their lanes Continue.
	Dropped map[session.ID]uint64

	// Paused reports whether a person paused delivery; nil means never.
	Paused func(ctx context.Context) (bool, error)

	// OnState is called with the first state that this syncer finds, even if it is the
	// earlier drainer's, and then with each change. It may be nil. It must not block.
	OnState func(h session.Heartbeat)

	// OnLane is called when a lane becomes parked, fenced or forked. It may be nil. It
	// must not block.
	OnLane func(l session.Lane)

	// Metrics receives the counts; nil means that they are not shown.
	Metrics *Metrics
	// Rand returns uniform numbers in [0, 1); nil means math/rand/v2.
	Rand func() float64
}

const (
	// pollEvery is how soon a commit of another process is seen.
	pollEvery = time.Second
	// leaveWithin limits the write of the last heartbeat.
	leaveWithin = time.Second
	// beatEvery is the greatest age of a heartbeat and of the counts of a snapshot.
	beatEvery = 5 * time.Second
	// probeEvery is how soon an idle syncer notices that its server is gone or was
	// replaced.
	probeEvery = 30 * time.Second

	// maxAttempts is the number of refusals after which a row is parked.
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
