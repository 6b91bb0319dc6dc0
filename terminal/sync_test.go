package terminal_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

func offline() terminal.SyncView {
	return terminal.SyncView{
		State: session.SyncOffline, Reason: "Connection refused\x1b[2J", Pending: 5, Sessions: 1, SinceUS: usAgo(12 * time.Minute), OldestUS: usAgo(12 * time.Minute),
		AttemptUS: usAgo(10 * time.Minute), NextUS: usAgo(-30 * time.Second), LastUS: usAgo(3 * time.Hour), Server: "db.example:5432/acode",
		Identity: "7434/acode/acode", Now: clock(),
	}
}

func syncViews() map[string]terminal.SyncView {
	synced := terminal.SyncView{State: session.SyncSynced, LastUS: usAgo(time.Minute), Server: "db:5432/acode", Acked: 9, Verified: 7, Now: clock(),
		Drainer: &terminal.Drainer{PID: 4711, Command: "syncer", BeatUS: usAgo(2 * time.Second)}}
	parked := terminal.SyncView{State: session.SyncParked, Pending: 12, Sessions: 2, Now: clock(),
		Lanes: []terminal.LaneView{{Short: "abc123", State: session.SyncParked, Seq: 17, Reason: "22P05: untranslatable"}, {Short: "def456", State: session.SyncForked}}}
	refused := synced
	refused.State, refused.Reason, refused.NextUS = session.SyncAuthFailed, "no (SQLSTATE 28P01)", usAgo(-30*time.Second)
	older := terminal.SyncView{State: session.SyncForked, LastUS: usAgo(time.Minute), Server: "db:5432/acode", Now: clock(),
		Lanes: []terminal.LaneView{{Short: "def456", State: session.SyncForked, Reason: "the store is the older copy"}}}
	paused := terminal.SyncView{State: session.SyncPaused, Pending: 6, SinceUS: usAgo(time.Minute), Paused: true, Server: "db:5432/acode", Now: clock()}
	return map[string]terminal.SyncView{"off": {}, "offline": offline(), "synced": synced, "refused": refused, "parked": parked, "older": older, "paused": paused}
}

// FR-046, FR-047: the manual's three ways to say it.
func TestSyncStatus(t *testing.T) {
	for name, v := range syncViews() {
		var text, script bytes.Buffer
		if err := terminal.SyncStatus(&text, v); err != nil {
			t.Fatal(err)
		}
		if err := terminal.SyncStatusJSON(&script, v); err != nil {
			t.Fatal(err)
		}
		golden(t, "sync_"+name, text.String())
		golden(t, "sync_"+name+"_json", script.String())
	}
}

func TestStatusTellsOfSync(t *testing.T) {
	v := status()
	v.Sync = offline()
	var b bytes.Buffer
	if err := terminal.Status(&b, v); err != nil {
		t.Fatal(err)
	}
	golden(t, "status_degraded", b.String())
	d := dryRun()
	d.Sync = offline()
	b.Reset()
	if err := terminal.DryRun(&b, d, clock()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "\n  Sync status: 5 events pending\n") {
		t.Errorf("DryRun: got %s", b.String())
	}
}

// Every state has words of its own, and none is taken for good news.
func TestEverySyncStateHasWords(t *testing.T) {
	seen := map[string]session.SyncState{}
	for _, state := range session.SyncStates {
		var b bytes.Buffer
		v := terminal.SyncView{State: state, Pending: 1, Now: clock()}
		if state == session.SyncSynced {
			v.Pending = 0
		}
		if err := terminal.SyncStatus(&b, v); err != nil {
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
