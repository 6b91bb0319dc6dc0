package app

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/acode-dev/acode/config"
	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
)

// A session is not reported as interrupted if its process ends between the look at the
// store and the look at its lock.
func TestEndedBetweenTwoLooks(t *testing.T) {
	ctx := context.Background()
	cfg := &config.Loaded{}
	cfg.Config.Store.Home = filepath.Join(t.TempDir(), "home")
	s, err := Open(ctx, Setup{Settings: cfg, Now: time.Now, Redactor: redact.New(nil), Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	id, err := s.store.NewID()
	if err != nil {
		t.Fatal(err)
	}
	p := &session.Plan{Task: "t", Tasks: []session.Task{{ID: "1", Steps: []session.Step{{ID: "1", Kind: session.KindRead, Read: &session.Read{Path: "a"}}}}}}
	w, err := s.store.Create(ctx, local.NewSession{ID: id, Task: "t", Workspace: "/ws", Plan: p, Config: "{}"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	seen, err := s.rows(ctx, "/ws")
	if err != nil || len(seen) != 1 || !seen[0].Interrupted {
		t.Fatalf("rows of a session that nobody executes: got %+v, %v", seen, err)
	}
	if _, err := w.Append(ctx, session.Draft{Type: session.StateChanged, Data: session.StateChangedData{From: w.Session().State, To: session.Paused, Reason: session.ReasonSignal}}); err != nil {
		t.Fatal(err)
	}
	if err := s.refreshEnded(ctx, "/ws", seen); err != nil || seen[0].Interrupted || seen[0].State != session.Paused {
		t.Errorf("refreshEnded: got %+v, %v", seen[0], err)
	}
}

// Each request sets another time, even directly after the one before.
func TestAskDrainerTwiceAtOnce(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	s := &Site{Setup: Setup{Settings: &config.Loaded{}, Now: func() time.Time { return now }}}
	s.Settings.Config.Store.Home = t.TempDir()
	if err := s.AskDrainer(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("AskDrainer where nobody ever delivered: %v", err)
	}
	lock := s.drainerLock()
	if err := errors.Join(os.MkdirAll(filepath.Dir(lock), 0o700), os.WriteFile(lock, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	seen := map[time.Time]bool{s.DrainerAsked(): true}
	for range 3 {
		if err := s.AskDrainer(); err != nil {
			t.Fatal(err)
		}
		if seen[s.DrainerAsked()] {
			t.Errorf("DrainerAsked: %v again", s.DrainerAsked())
		}
		seen[s.DrainerAsked()] = true
	}
}
