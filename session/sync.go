package session

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// SyncState names how the delivery of a session, or of a whole store, stands (FR-046,
// FR-047). The set is closed: metrics and scripts list all of it.
type SyncState string

// The states, from good to what needs a person.
const (
	// everything is acknowledged
	SyncSynced SyncState = "synced"
	// there is more to deliver and nothing in the way
	SyncPending SyncState = "pending"
	// the server answered with passing trouble
	SyncRetrying SyncState = "retrying"
	// the server cannot be reached
	SyncOffline SyncState = "offline"
	// a standby, or one that takes no writes
	SyncServerReadonly SyncState = "server_readonly"
	// the server has no room
	SyncDiskFull SyncState = "disk_full"
	// role, password or right refused, or the server's certificate is not trusted
	SyncAuthFailed SyncState = "auth_failed"
	// the server's schema is older than this program needs
	SyncServerUnmigrated SyncState = "server_unmigrated"
	// the server's schema and this program cannot talk
	SyncClientTooNew SyncState = "client_too_new"
	// the address leads to another database than before
	SyncOtherDatabase SyncState = "other_database"
	// the server refused a row
	SyncParked SyncState = "parked"
	// the session was taken over elsewhere
	SyncFenced SyncState = "fenced"
	// the server's chain is another one
	SyncForked SyncState = "forked"
	// a person paused delivery
	SyncPaused SyncState = "paused"
	// no server is configured
	SyncDisabled SyncState = "disabled"
)

// SyncStates lists every state in order of severity, mildest first, after disabled.
var SyncStates = []SyncState{
	SyncDisabled, SyncSynced, SyncPending, SyncRetrying, SyncOffline, SyncPaused, SyncServerReadonly, SyncDiskFull,
	SyncServerUnmigrated, SyncClientTooNew, SyncAuthFailed, SyncOtherDatabase, SyncParked, SyncFenced, SyncForked,
}

// Faulty reports whether a connection in state s delivers nothing.
func (s SyncState) Faulty() bool {
	switch s {
	case "", SyncSynced, SyncPending, SyncDisabled, SyncPaused:
		return false
	}
	return true
}

// WorstSync gives the one state that says how delivery stands: the worst of the
// connection, of what is pending and of the lanes. Status, metrics and health use it, so
// they cannot differ. A heartbeat that is SyncDisabled says that no server is configured.
func WorstSync(h Heartbeat, pending uint64, lanes ...SyncState) SyncState {
	worst := SyncSynced
	switch {
	case h.State == SyncDisabled:
		return SyncDisabled
	case h.Paused: // no one tries meanwhile, so the connection's state is of before
		worst = SyncPaused
	case h.State.Faulty():
		worst = h.State
	case pending > 0 || h.State == "":
		worst = SyncPending
	}
	for _, lane := range lanes {
		if slices.Index(SyncStates, lane) > slices.Index(SyncStates, worst) {
			worst = lane
		}
	}
	return worst
}

// Degraded reports degraded mode: a server is configured, which state says, and events
// are not acknowledged yet (FR-046, FR-047).
func Degraded(state SyncState, pending uint64) bool {
	return state != "" && state != SyncDisabled && pending > 0
}

// Late reports whether the oldest pending event is older than after. An event that seems
// to come from the future, because the clock was set back, is not late; 0 says that
// nothing is pending.
func Late(oldestUS int64, now time.Time, after time.Duration) bool {
	return oldestUS != 0 && now.Sub(time.UnixMicro(oldestUS)) > after
}

// Lane is how far one session is delivered. Pending events are those above Acked.
type Lane struct {
	Session ID
	// of the journal when the lane was read
	LastSeq uint64
	// the server's high-water mark; 0: nothing is known to be there
	Acked uint64
	// up to where the server has recomputed the chain
	Verified uint64
	// of the server's head
	Epoch uint64
	// synced, pending, retrying, parked, fenced or forked; "" is pending
	State SyncState
	// in words; empty when there is none
	Reason string
	// refusals of the row above Acked by a reachable server
	Attempts int
	// not before; 0 is now, NeverUS never
	NextUS int64
	// the seq that waits for a person; 0: none
	Parked uint64
	// RemoteIdentity of the database that acknowledged; empty before the first time
	Remote string
}

// NeverUS is the next attempt of a lane that a person settled.
const NeverUS = math.MaxInt64

// WentOn reports whether a lane is settled because its session goes on as another one;
// its Reason says as which. All of it is on the server, as a fork, so nothing of it is
// pending.
func (l Lane) WentOn() bool { return l.NextUS == NeverUS }

// Pending is how many events wait.
func (l Lane) Pending() uint64 {
	if l.LastSeq <= l.Acked {
		return 0
	}
	return l.LastSeq - l.Acked
}

// RemoteIdentity says which database a server is, whatever its address.
type RemoteIdentity struct {
	// PostgreSQL's system identifier, decimal
	System   string
	Database string
	Schema   string
}

// String gives the form that lanes keep; empty for the zero value.
func (r RemoteIdentity) String() string {
	if r == (RemoteIdentity{}) {
		return ""
	}
	return r.System + "/" + r.Database + "/" + r.Schema
}

// Hello is what a server says at the start of a connection.
type Hello struct {
	Remote RemoteIdentity
	// how many events of this device it has, pruned ones included
	Events   uint64
	ReadOnly bool
}

// Delivery is a contiguous run of one session's events. No events asks for the mark
// alone.
type Delivery struct {
	Session ID
	// of the store
	Device string
	// of the event before the first; zero before seq 1
	Prev   Hash
	Events []Event
}

// Verdict is what a server made of a delivery.
type Verdict string

// The verdicts.
const (
	// all of it is there
	DeliveryTaken Verdict = "ok"
	// it begins above the mark; nothing was taken
	DeliveryGap Verdict = "gap"
	// an epoch that is over; filed as a fork
	DeliveryFenced Verdict = "fenced"
	// not the server's chain; filed as a fork
	DeliveryForked Verdict = "forked"
)

// Mark is a server's answer to a delivery. Its Seq is the only acknowledgement, up or
// down.
type Mark struct {
	Session ID
	// the greatest that the server has; 0: it has nothing of the session
	Seq uint64
	// of the event Seq; zero for 0
	Head  Hash
	Epoch uint64
	// up to where it recomputed the hashes
	Verified  uint64
	Verdict   Verdict
	Inserted  int
	Duplicate int
}

// RemoteSummary is a session as a server has it. What the server has not read of it yet
// is zero, or as of Projected.
type RemoteSummary struct {
	Summary
	// of the store that delivered last
	Device string
	// that executed last
	Host string
	// up to where the server has read the events
	Projected uint64
	// last delivery, by the server's clock
	ReceivedUS int64
	// events of another history are filed beside it
	Forked bool
}

// SyncFaultClass says whose trouble a failed call is, and so what is done about it.
type SyncFaultClass string

// The classes. Only a refusal counts as an attempt.
const (
	// no connection, or it broke, or a deadline passed
	FaultOffline SyncFaultClass = "offline"
	// passing trouble of a server that answers
	FaultServer SyncFaultClass = "server"
	// it takes no writes
	FaultReadOnly SyncFaultClass = "readonly"
	// it has no room
	FaultDiskFull SyncFaultClass = "disk_full"
	// role, password or right; without SQLState the server's certificate
	FaultAuth SyncFaultClass = "auth"
	// its schema is older, or missing
	FaultUnmigrated SyncFaultClass = "unmigrated"
	// its schema is newer than this program can serve
	FaultTooNew SyncFaultClass = "too_new"
	// this row's own fault
	FaultRefused SyncFaultClass = "refused"
)

// SyncFault is a failed call to a server.
type SyncFault struct {
	Class SyncFaultClass
	// empty when the server did not answer
	SQLState string
	// it cannot have happened; else the outcome is unknown, which the mark makes harmless
	Safe bool
	// without password
	Cause error
}

// Error gives class, cause and SQLSTATE.
func (f *SyncFault) Error() string { return string(f.Class) + ": " + f.Reason() }

// Reason says it in words for a person, who is told the class otherwise.
func (f *SyncFault) Reason() string {
	if f.SQLState != "" {
		return fmt.Sprintf("%v (SQLSTATE %s)", f.Cause, f.SQLState)
	}
	return fmt.Sprint(f.Cause)
}

// Unwrap makes errors.Is find the cause.
func (f *SyncFault) Unwrap() error { return f.Cause }

// Heartbeat is what the drainer of a store leaves for those who only look. Times are
// microseconds since 1970, 0 for never.
type Heartbeat struct {
	PID       int
	StartedUS int64
	BeatUS    int64
	// "syncer", "run", "resume", "sync now"
	Command string

	// of the connection; lanes have their own
	State  SyncState
	Reason string
	// when State began
	SinceUS int64
	// last success: the server acknowledged, or said that there is nothing to
	LastUS int64
	// last attempt, whatever came of it
	AttemptUS int64
	// next attempt
	NextUS int64
	Remote string
	// host, port and database, for people; never user or password
	Address string
	Paused  bool
}

// Backlog is what a store has not delivered yet.
type Backlog struct {
	Sessions int
	Events   uint64
	// time of the oldest pending event; 0: none
	OldestUS int64
}
