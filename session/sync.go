package session

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// SyncState names how the delivery of a session, or of a whole store, stands (FR-046, FR-047).
// The set is closed: metrics and scripts list all of it.
type SyncState string

// The states, from good to what needs a person.
const (
	SyncSynced           SyncState = "synced"            // everything is acknowledged
	SyncPending          SyncState = "pending"           // there is more to deliver and nothing in the way
	SyncRetrying         SyncState = "retrying"          // the server answered with passing trouble
	SyncOffline          SyncState = "offline"           // the server cannot be reached
	SyncServerReadonly   SyncState = "server_readonly"   // a standby, or one that takes no writes
	SyncDiskFull         SyncState = "disk_full"         // the server has no room
	SyncAuthFailed       SyncState = "auth_failed"       // role, password or right refused, or the server's certificate is not trusted
	SyncServerUnmigrated SyncState = "server_unmigrated" // the server's schema is older than this program needs
	SyncClientTooNew     SyncState = "client_too_new"    // the server's schema and this program cannot talk
	SyncOtherDatabase    SyncState = "other_database"    // the address leads to another database than before
	SyncParked           SyncState = "parked"            // the server refused a row
	SyncFenced           SyncState = "fenced"            // the session was taken over elsewhere
	SyncForked           SyncState = "forked"            // the server's chain is another one
	SyncPaused           SyncState = "paused"            // a person paused delivery
	SyncDisabled         SyncState = "disabled"          // no server is configured
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

// WorstSync gives the one state that says how delivery stands: the worst of the connection, of
// what is pending and of the lanes. Status, metrics and health use it, so they cannot differ.
// A heartbeat that is SyncDisabled says that no server is configured.
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

// Degraded reports degraded mode: a server is configured, which state says, and events are not
// acknowledged yet (FR-046, FR-047).
func Degraded(state SyncState, pending uint64) bool {
	return state != "" && state != SyncDisabled && pending > 0
}

// Late reports whether the oldest pending event is older than after. An event that seems to come
// from the future, because the clock was set back, is not late; 0 says that nothing is pending.
func Late(oldestUS int64, now time.Time, after time.Duration) bool {
	return oldestUS != 0 && now.Sub(time.UnixMicro(oldestUS)) > after
}

// Lane is how far one session is delivered. Pending events are those above Acked.
type Lane struct {
	Session  ID
	LastSeq  uint64    // of the journal when the lane was read
	Acked    uint64    // the server's high-water mark; 0: nothing is known to be there
	Verified uint64    // up to where the server has recomputed the chain
	Epoch    uint64    // of the server's head
	State    SyncState // synced, pending, retrying, parked, fenced or forked; "" is pending
	Reason   string    // in words; empty when there is none
	Attempts int       // refusals of the row above Acked by a reachable server
	NextUS   int64     // not before; 0 is now, NeverUS never
	Parked   uint64    // the seq that waits for a person; 0: none
	Remote   string    // RemoteIdentity of the database that acknowledged; empty before the first time
}

// NeverUS is the next attempt of a lane that a person settled.
const NeverUS = math.MaxInt64

// WentOn reports whether a lane is settled because its session goes on as another one; its
// Reason says as which. All of it is on the server, as a fork, so nothing of it is pending.
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
	System   string // PostgreSQL's system identifier, decimal
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
	Remote   RemoteIdentity
	Events   uint64 // how many events of this device it has, pruned ones included
	ReadOnly bool
}

// Delivery is a contiguous run of one session's events. No events asks for the mark alone.
type Delivery struct {
	Session ID
	Device  string // of the store
	Prev    Hash   // of the event before the first; zero before seq 1
	Events  []Event
}

// Verdict is what a server made of a delivery.
type Verdict string

// The verdicts.
const (
	DeliveryTaken  Verdict = "ok"     // all of it is there
	DeliveryGap    Verdict = "gap"    // it begins above the mark; nothing was taken
	DeliveryFenced Verdict = "fenced" // an epoch that is over; filed as a fork
	DeliveryForked Verdict = "forked" // not the server's chain; filed as a fork
)

// Mark is a server's answer to a delivery. Its Seq is the only acknowledgement, up or down.
type Mark struct {
	Session   ID
	Seq       uint64 // the greatest that the server has; 0: it has nothing of the session
	Head      Hash   // of the event Seq; zero for 0
	Epoch     uint64
	Verified  uint64 // up to where it recomputed the hashes
	Verdict   Verdict
	Inserted  int
	Duplicate int
}

// RemoteSummary is a session as a server has it. What the server has not read of it yet is zero, or
// as of Projected.
type RemoteSummary struct {
	Summary
	Device     string // of the store that delivered last
	Host       string // that executed last
	Projected  uint64 // up to where the server has read the events
	ReceivedUS int64  // last delivery, by the server's clock
	Forked     bool   // events of another history are filed beside it
}

// SyncFaultClass says whose trouble a failed call is, and so what is done about it.
type SyncFaultClass string

// The classes. Only a refusal counts as an attempt.
const (
	FaultOffline    SyncFaultClass = "offline"    // no connection, or it broke, or a deadline passed
	FaultServer     SyncFaultClass = "server"     // passing trouble of a server that answers
	FaultReadOnly   SyncFaultClass = "readonly"   // it takes no writes
	FaultDiskFull   SyncFaultClass = "disk_full"  // it has no room
	FaultAuth       SyncFaultClass = "auth"       // role, password or right; without SQLState the server's certificate
	FaultUnmigrated SyncFaultClass = "unmigrated" // its schema is older, or missing
	FaultTooNew     SyncFaultClass = "too_new"    // its schema is newer than this program can serve
	FaultRefused    SyncFaultClass = "refused"    // this row's own fault
)

// SyncFault is a failed call to a server.
type SyncFault struct {
	Class    SyncFaultClass
	SQLState string // empty when the server did not answer
	Safe     bool   // it cannot have happened; else the outcome is unknown, which the mark makes harmless
	Cause    error  // without password
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
	Command   string // "syncer", "run", "resume", "sync now"

	State     SyncState // of the connection; lanes have their own
	Reason    string
	SinceUS   int64 // when State began
	LastUS    int64 // last success: the server acknowledged, or said that there is nothing to
	AttemptUS int64 // last attempt, whatever came of it
	NextUS    int64 // next attempt
	Remote    string
	Address   string // host, port and database, for people; never user or password
	Paused    bool
}

// Backlog is what a store has not delivered yet.
type Backlog struct {
	Sessions int
	Events   uint64
	OldestUS int64 // time of the oldest pending event; 0: none
}
