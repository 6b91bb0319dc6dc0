package terminal_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
)

func offline() app.Delivery {
	return app.Delivery{
		Heartbeat: session.Heartbeat{
			State: session.SyncOffline, Reason: "Connection refused\x1b[2J", SinceUS: usAgo(12 * time.Minute), AttemptUS: usAgo(10 * time.Minute),
			NextUS: usAgo(-30 * time.Second), LastUS: usAgo(3 * time.Hour), Address: "db.example:5432/acode", Remote: "7434/acode/acode",
		},
		Backlog: session.Backlog{Events: 5, Sessions: 1, OldestUS: usAgo(12 * time.Minute)}, Now: clock(),
	}
}

func syncViews() map[string]app.Delivery {
	synced := app.Delivery{Heartbeat: session.Heartbeat{State: session.SyncSynced, LastUS: usAgo(time.Minute), Address: "db:5432/acode",
		PID: 4711, Command: "syncer", BeatUS: usAgo(2 * time.Second)}, Delivers: true, Acked: 9, Verified: 7, Now: clock()}
	parked := app.Delivery{Heartbeat: session.Heartbeat{State: session.SyncParked}, Backlog: session.Backlog{Events: 12, Sessions: 2}, Now: clock(),
		Lanes: []app.Lane{{Short: "abc123", State: session.SyncParked, Seq: 17, Reason: "22P05: untranslatable"}, {Short: "def456", State: session.SyncForked}}}
	refused := synced
	refused.State, refused.Reason, refused.NextUS = session.SyncAuthFailed, "no (SQLSTATE 28P01)", usAgo(-30*time.Second)
	older := app.Delivery{Heartbeat: session.Heartbeat{State: session.SyncForked, LastUS: usAgo(time.Minute), Address: "db:5432/acode"}, Now: clock(),
		Lanes: []app.Lane{{Short: "def456", State: session.SyncForked, Reason: "the store is the older copy"}}}
	paused := app.Delivery{Heartbeat: session.Heartbeat{State: session.SyncPaused, SinceUS: usAgo(time.Minute), Paused: true, Address: "db:5432/acode"},
		Backlog: session.Backlog{Events: 6}, Now: clock()}
	return map[string]app.Delivery{"off": {}, "offline": offline(), "synced": synced, "refused": refused, "parked": parked, "older": older, "paused": paused}
}

// FR-046, FR-047: the manual's three forms of the status.
func TestSyncStatus(t *testing.T) {
	for name, v := range syncViews() {
		var text, script bytes.Buffer
		if err := page(&text, false).SyncStatus(v, nil); err != nil {
			t.Fatal(err)
		}
		if err := page(&script, true).SyncStatus(v, nil); err != nil {
			t.Fatal(err)
		}
		golden(t, "sync_"+name, text.String())
		golden(t, "sync_"+name+"_json", script.String())
	}
}

func TestStatusTellsOfSync(t *testing.T) {
	v := status()
	v.Delivery = offline()
	var b bytes.Buffer
	if err := page(&b, false).Status(v); err != nil {
		t.Fatal(err)
	}
	golden(t, "status_degraded", b.String())
	d := dryRun()
	d.Delivery = offline()
	b.Reset()
	if err := page(&b, false).DryRun(d); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "\n  Sync status: 5 events pending\n") {
		t.Errorf("DryRun: got %s", b.String())
	}
}

// Every state has its own words, and no state in trouble looks healthy.
func TestEverySyncStateHasWords(t *testing.T) {
	seen := map[string]session.SyncState{}
	for _, state := range session.SyncStates {
		var b bytes.Buffer
		v := app.Delivery{Heartbeat: session.Heartbeat{State: state}, Backlog: session.Backlog{Events: 1}, Now: clock()}
		if state == session.SyncSynced {
			v.Events = 0
		}
		if err := page(&b, false).SyncStatus(v, nil); err != nil {
			t.Fatal(err)
		}
		if other, taken := seen[b.String()]; taken {
			t.Errorf("SyncStatus: %s and %s read the same", state, other)
		}
		seen[b.String()] = state
		if good := strings.Contains(b.String(), "Up to date"); good != (state == session.SyncSynced) {
			t.Errorf("SyncStatus of %s: got %s", state, b.String())
		}
	}
}
