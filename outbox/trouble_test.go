package outbox_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/session"
)

// The state of a process that delivers is the error of a process that waits for it, if it
// has tried since.
func TestTrouble(t *testing.T) {
	since := time.UnixMicro(1_000)
	tried := func(state session.SyncState) session.Heartbeat {
		return session.Heartbeat{State: state, Reason: "why", AttemptUS: 1_001, NextUS: 2_000}
	}
	one := func(l session.Lane) []session.Lane { l.LastSeq = 9; return []session.Lane{l} }
	waits := one(session.Lane{})
	parked := session.Lane{State: session.SyncParked, Parked: 3, Reason: "no"}
	for name, c := range map[string]struct {
		h    session.Heartbeat
		left []session.Lane
		want error
	}{
		"delivers":              {tried(session.SyncPending), waits, nil},
		"offline":               {tried(session.SyncOffline), waits, session.ErrOffline},
		"offline_before":        {session.Heartbeat{State: session.SyncOffline, AttemptUS: 999, NextUS: 2_000}, waits, nil},
		"offline_and_trying":    {session.Heartbeat{State: session.SyncOffline, AttemptUS: 1_001}, waits, nil},
		"readonly":              {tried(session.SyncServerReadonly), waits, session.ErrOffline},
		"disk_full":             {tried(session.SyncDiskFull), waits, session.ErrOffline},
		"slots_exhausted":       {tried(session.SyncRetrying), waits, session.ErrOffline},
		"lane_retries":          {tried(session.SyncRetrying), one(session.Lane{State: session.SyncRetrying}), nil},
		"auth":                  {tried(session.SyncAuthFailed), waits, session.ErrRemoteAuth},
		"unmigrated":            {tried(session.SyncServerUnmigrated), waits, session.ErrRemoteOld},
		"too_new":               {tried(session.SyncClientTooNew), waits, session.ErrRemoteOld},
		"other_database":        {tried(session.SyncOtherDatabase), waits, session.ErrOtherRemote},
		"paused":                {session.Heartbeat{Paused: true}, waits, session.ErrSyncOff},
		"parked":                {tried(session.SyncPending), one(parked), session.ErrParked},
		"parked_beside_another": {tried(session.SyncPending), append(one(parked), waits...), nil},
		"forked":                {tried(session.SyncPending), one(session.Lane{State: session.SyncForked}), session.ErrForked},
	} {
		t.Run(name, func(t *testing.T) {
			if got := outbox.New(outbox.Options{Now: time.Now}).Trouble(c.h, since, c.left); !errors.Is(got, c.want) {
				t.Errorf("Trouble: got %v, want %v", got, c.want)
			}
		})
	}
}

// Trouble that another process met has the same hint as in that process.
func TestTroubleOfAnotherProcess(t *testing.T) {
	for state, want := range map[string]string{"28P01": "password", "": "certificate", "3D000": "database", "42704": "behind the ?", "3F000": "[migrate]"} {
		f, at := &session.SyncFault{Class: session.FaultAuth, SQLState: state, Cause: errors.New("no")}, session.SyncAuthFailed
		if state != "" && state != "28P01" {
			f.Class, at = session.FaultUnmigrated, session.SyncServerUnmigrated
		}
		h := session.Heartbeat{State: at, Reason: f.Reason(), AttemptUS: 2, NextUS: 3}
		var own, others *session.Error
		if !errors.As(outbox.Envelope(f), &own) || !errors.As(outbox.New(outbox.Options{Now: time.Now}).Trouble(h, time.UnixMicro(1), nil), &others) {
			t.Fatalf("%q: no envelope", state)
		}
		if own.Error() != others.Error() || own.Next != others.Next || !strings.Contains(own.Next.String(), want) {
			t.Errorf("%q: got %v (%s) and %v (%s), want the same with %q", state, own, own.Next, others, others.Next, want)
		}
	}
}
