package session_test

import (
	"testing"
	"time"

	"github.com/acode-dev/acode/session"
)

// FR-046, FR-047: WorstSync returns the state of delivery.
func TestWorstSync(t *testing.T) {
	beat := func(s session.SyncState) session.Heartbeat { return session.Heartbeat{State: s} }
	paused := session.Heartbeat{State: session.SyncOffline, Paused: true}
	for _, c := range []struct {
		name    string
		beat    session.Heartbeat
		pending uint64
		lanes   []session.SyncState
		want    session.SyncState
	}{
		{"no_server", beat(session.SyncDisabled), 7, []session.SyncState{session.SyncForked}, session.SyncDisabled},
		{"never_tried", beat(""), 0, nil, session.SyncPending},
		{"all_there", beat(session.SyncSynced), 0, nil, session.SyncSynced},
		{"committed_since", beat(session.SyncSynced), 1, nil, session.SyncPending},
		{"delivered_since", beat(session.SyncPending), 0, nil, session.SyncSynced},
		{"away", beat(session.SyncOffline), 3, []session.SyncState{session.SyncPending}, session.SyncOffline},
		{"away_and_nothing_pending", beat(session.SyncOffline), 0, nil, session.SyncOffline},
		{"refused_and_nothing_pending", beat(session.SyncAuthFailed), 0, nil, session.SyncAuthFailed},
		{"paused", paused, 3, []session.SyncState{session.SyncRetrying}, session.SyncPaused},
		{"unpaused_and_not_tried", beat(session.SyncPaused), 3, nil, session.SyncPending},
		{"one_lane_retries", beat(session.SyncSynced), 1, []session.SyncState{"", session.SyncRetrying}, session.SyncRetrying},
		{"a_person_first", beat(session.SyncAuthFailed), 3, []session.SyncState{session.SyncParked, session.SyncPending}, session.SyncParked},
		{"the_worst_lane", paused, 3, []session.SyncState{session.SyncParked, session.SyncForked, session.SyncFenced}, session.SyncForked},
	} {
		if got := session.WorstSync(c.beat, c.pending, c.lanes...); got != c.want {
			t.Errorf("WorstSync of %s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// Degraded is true if a server is configured and events are pending, in every state.
func TestDegraded(t *testing.T) {
	for _, state := range session.SyncStates {
		if got, want := session.Degraded(state, 1), state != session.SyncDisabled; got != want {
			t.Errorf("Degraded in %s with an event: got %v, want %v", state, got, want)
		}
		if session.Degraded(state, 0) {
			t.Errorf("Degraded in %s without an event: got true", state)
		}
	}
	if session.Degraded("", 1) {
		t.Error("Degraded without a server: got true")
	}
}

// Late depends only on the age of the oldest pending event.
func TestLate(t *testing.T) {
	now := time.UnixMicro(1_700_000_000_000_000)
	for age, want := range map[time.Duration]bool{-time.Hour: false, 0: false, time.Minute: false, time.Minute + time.Microsecond: true, time.Hour: true} {
		if got := session.Late(now.Add(-age).UnixMicro(), now, time.Minute); got != want {
			t.Errorf("Late after %v: got %v, want %v", age, got, want)
		}
	}
	if session.Late(0, now, time.Minute) {
		t.Error("Late with nothing pending: got true")
	}
}
