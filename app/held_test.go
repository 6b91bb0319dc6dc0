package app

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acode-dev/acode/config"
	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
)

// Whoever ended between two looks at a lock file is not told of as a process: there is none.
func TestHeldByNobody(t *testing.T) {
	s := &Site{Setup: Setup{Settings: &config.Loaded{}}}
	s.Settings.Config.Store.Home = t.TempDir()
	r := Row{Summary: session.Summary{ID: "01890a5d-ac96-774b-bcce-b302099a8057", Short: "abc123"}}
	path := s.lockFile(r.ID)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"", strings.Repeat(" ", 1023) + "\n"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		err := s.held(r)
		if session.CodeOf(err) != session.ErrLocked || strings.Contains(err.Error(), "pid 0") || !strings.Contains(err.Error(), "has just ended") {
			t.Errorf("held: got %v, want that the holder has just ended", err)
		}
	}
}

// A session whose process ended between the looks at the store and at its lock is not called interrupted.
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
	if err := s.settle(ctx, "/ws", seen); err != nil || seen[0].Interrupted || seen[0].State != session.Paused {
		t.Errorf("settle: got %+v, %v", seen, err)
	}
}

// Every ask is another word, however soon it follows the last one.
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
