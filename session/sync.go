package session

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// SyncState is the state of the delivery of a session or of a whole store (FR-046,
// FR-047). The set is closed; metrics and scripts list all of it.
type SyncState string

// The states of delivery.
const (
	// the server has acknowledged everything
	SyncSynced SyncState = "synced"
	// events are pending and nothing prevents their delivery
	SyncPending SyncState = "pending"
	// the server reported a temporary problem
	SyncRetrying SyncState = "retrying"
	// the server cannot be reached
	SyncOffline SyncState = "offline"
	// the server is a standby or accepts no writes
	SyncServerReadonly SyncState = "server_readonly"
	// the disk of the server is full
	SyncDiskFull SyncState = "disk_full"
	// the server refused the role, the password or an operation, or its certificate is
	// not trusted
	SyncAuthFailed SyncState = "auth_failed"
	// the server's schema is older than this program needs
	SyncServerUnmigrated SyncState = "server_unmigrated"
	// the server's schema and this program are not compatible
	SyncClientTooNew SyncState = "client_too_new"
	// the address leads to a different database than before
	SyncOtherDatabase SyncState = "other_database"
	// the server refused a row
	SyncParked SyncState = "parked"
	// another device has taken the session over
	SyncFenced SyncState = "fenced"
	// the server has a different chain
	SyncForked SyncState = "forked"
	// a person paused delivery
	SyncPaused SyncState = "paused"
	// no server is configured
	SyncDisabled SyncState = "disabled"
)

// SyncStates lists every state by severity: first SyncDisabled, then from the mildest
// state to the worst.
var SyncStates = []SyncState{
	SyncDisabled, SyncSynced, SyncPending, SyncRetrying, SyncOffline, SyncPaused, SyncServerReadonly, SyncDiskFull,
	SyncServerUnmigrated, SyncClientTooNew, SyncAuthFailed, SyncOtherDatabase, SyncParked, SyncFenced, SyncForked,
}

// Faulty reports whether a connection in state s cannot deliver because of a fault.
func (s SyncState) Faulty() bool {
	switch s {
	case "", SyncSynced, SyncPending, SyncDisabled, SyncPaused:
		return false
	}
	return true
}

// WorstSync returns the state of delivery as a whole: the worst of the connection, the
// pending events and the lanes. It returns SyncDisabled if no server is configured, which
// h.State says. Status, metrics and health all use WorstSync and therefore agree.
func WorstSync(h Heartbeat, pending uint64, lanes ...SyncState) SyncState {
	worst := SyncSynced
	switch {
	case h.State == SyncDisabled:
		return SyncDisabled
	case h.Paused: // A paused delivery makes no attempts, so h.State is outdated.
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

// Degraded reports whether a server is configured and has not acknowledged all events
// (FR-046, FR-047).
func Degraded(state SyncState, pending uint64) bool {
	return state != "" && state != SyncDisabled && pending > 0
}

// Late reports whether the oldest pending event is older than after. oldestUS is its
// time, or 0 if no event is pending. An event from the future, seen after the clock was
// set back, is not late.
func Late(oldestUS int64, now time.Time, after time.Duration) bool {
	return oldestUS != 0 && now.Sub(time.UnixMicro(oldestUS)) > after
}

// Lane is the state of the delivery of one session. The events above Acked are pending.
type Lane struct {
	Session ID
	// LastSeq is that of the journal when the lane was read.
	LastSeq uint64
	// Acked is the server's high-water mark. It is 0 if the server is not known to have
	// any event.
	Acked uint64
	// Verified is the seq up to which the server has recomputed the chain.
	Verified uint64
	// Epoch is that of the server's head.
	Epoch uint64
	// State is synced, pending, retrying, parked, fenced or forked; "" means pending.
	State SyncState
	// Reason explains State in words and may be empty.
	Reason string
	// Attempts counts how often a reachable server refused the row above Acked.
	Attempts int
	// NextUS is the earliest time of the next attempt. 0 means now, NeverUS means never.
	NextUS int64
	// Parked is the seq that waits for a person; 0 means none.
	Parked uint64
	// Remote is the RemoteIdentity of the database that acknowledged. It is empty before
	// the first acknowledgement.
	Remote string
}

// NeverUS is the next attempt of a lane that needs no more delivery.
const NeverUS = math.MaxInt64

// WentOn reports whether the session of l continues as another session, which Reason
// names. The server has all its events as a fork, so none is pending.
func (l Lane) WentOn() bool { return l.NextUS == NeverUS }

// Pending returns the number of pending events.
func (l Lane) Pending() uint64 {
	if l.LastSeq <= l.Acked {
		return 0
	}
	return l.LastSeq - l.Acked
}

// RemoteIdentity identifies a database independently of its address.
type RemoteIdentity struct {
	// System is PostgreSQL's system identifier in decimal.
	System   string
	Database string
	Schema   string
}

// String returns the form that Lane.Remote holds. It is empty for the zero value.
func (r RemoteIdentity) String() string {
	if r == (RemoteIdentity{}) {
		return ""
	}
	return r.System + "/" + r.Database + "/" + r.Schema
}

// Hello is the first answer of a server on a connection.
type Hello struct {
	Remote RemoteIdentity
	// Events counts the events of this device on the server, including pruned ones.
	Events   uint64
	ReadOnly bool
}

// Delivery is a contiguous run of events of one session. A delivery without events asks
// only for the mark.
type Delivery struct {
	Session ID
	// Device is that of the store.
	Device string
	// Prev is the hash of the event before the first one. It is zero before seq 1.
	Prev   Hash
	Events []Event
}

// Verdict is the decision of a server about a delivery.
type Verdict string

// The verdicts.
const (
	// the server has all events of the delivery
	DeliveryTaken Verdict = "ok"
	// the delivery begins above the mark, and the server took nothing
	DeliveryGap Verdict = "gap"
	// the epoch of the delivery is over; the server filed the events as a fork
	DeliveryFenced Verdict = "fenced"
	// the events do not belong to the server's chain; the server filed them as a fork
	DeliveryForked Verdict = "forked"
)

// Mark is a server's answer to a delivery. Only its Seq acknowledges events, and it may
// be lower than before.
type Mark struct {
	Session ID
	// Seq is the greatest seq on the server; 0 means that the server has nothing of the
	// session.
	Seq uint64
	// Head is the hash of the event at Seq. It is zero if Seq is 0.
	Head  Hash
	Epoch uint64
	// Verified is the seq up to which the server has recomputed the hashes.
	Verified  uint64
	Verdict   Verdict
	Inserted  int
	Duplicate int
}

// RemoteSummary is the summary of a session on a server. Fields from events above
// Projected are zero or outdated.
type RemoteSummary struct {
	Summary
	// Device is that of the store that delivered last.
	Device string
	// Host is the one that executed last.
	Host string
	// Projected is the seq up to which the server has read the events.
	Projected uint64
	// ReceivedUS is the time of the last delivery by the server's clock.
	ReceivedUS int64
	// Forked says that the server also has a fork of the session.
	Forked bool
}

// SyncFaultClass classifies a failed call by its cause, and so decides the reaction.
type SyncFaultClass string

// The classes. Only FaultRefused counts as an attempt.
const (
	// there is no connection, it broke, or a deadline passed
	FaultOffline SyncFaultClass = "offline"
	// the server answers but has a temporary problem
	FaultServer SyncFaultClass = "server"
	// the server accepts no writes
	FaultReadOnly SyncFaultClass = "readonly"
	// the disk of the server is full
	FaultDiskFull SyncFaultClass = "disk_full"
	// the server refused the role, the password or an operation; without SQLState its
	// certificate is not trusted
	FaultAuth SyncFaultClass = "auth"
	// the server's schema is older or missing
	FaultUnmigrated SyncFaultClass = "unmigrated"
	// the server's schema is newer than this program supports
	FaultTooNew SyncFaultClass = "too_new"
	// the server refused this row
	FaultRefused SyncFaultClass = "refused"
)

// SyncFault is a failed call to a server.
type SyncFault struct {
	Class SyncFaultClass
	// SQLState is empty if the server did not answer.
	SQLState string
	// Safe says that the call had no effect. Otherwise its outcome is unknown; the mark
	// of the next delivery shows it.
	Safe bool
	// Cause never contains the password.
	Cause error
}

// Error returns the class, the cause and the SQLSTATE.
func (f *SyncFault) Error() string { return string(f.Class) + ": " + f.Reason() }

// Reason returns the cause and the SQLSTATE. A person sees the class separately.
func (f *SyncFault) Reason() string {
	if f.SQLState != "" {
		return fmt.Sprintf("%v (SQLSTATE %s)", f.Cause, f.SQLState)
	}
	return fmt.Sprint(f.Cause)
}

// Unwrap returns the cause.
func (f *SyncFault) Unwrap() error { return f.Cause }

// Heartbeat is the status that the syncing process of a store leaves for other processes.
// Times are microseconds since 1970, 0 for never.
type Heartbeat struct {
	PID       int
	StartedUS int64
	BeatUS    int64
	// Command is "syncer", "run", "resume" or "sync now".
	Command string

	// State and Reason describe the connection. Lanes have their own.
	State  SyncState
	Reason string
	// SinceUS is the beginning of State.
	SinceUS int64
	// LastUS is the time of the last success. A success is an acknowledgement or the
	// answer that nothing is pending.
	LastUS int64
	// AttemptUS is the time of the last attempt, successful or not.
	AttemptUS int64
	// NextUS is the time of the next attempt.
	NextUS int64
	Remote string
	// Address is host, port and database for people. It never contains a user or a
	// password.
	Address string
	Paused  bool
}

// Backlog sums up the pending events of a store.
type Backlog struct {
	Sessions int
	Events   uint64
	// OldestUS is the time of the oldest pending event; 0 means none.
	OldestUS int64
}
