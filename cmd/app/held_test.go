package app

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acode-dev/acode/config"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

// Whoever ended between two looks at a lock file is not told of as a process: there is none.
func TestHeldByNobody(t *testing.T) {
	b := &base{cfg: &config.Loaded{}}
	b.cfg.Config.Store.Home = t.TempDir()
	r := terminal.Row{Summary: session.Summary{ID: "01890a5d-ac96-774b-bcce-b302099a8057", Short: "abc123"}}
	path := b.lockFile(r.ID)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"", strings.Repeat(" ", 1023) + "\n"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		err := b.held(r)
		if session.CodeOf(err) != session.ErrLocked || strings.Contains(err.Error(), "pid 0") || !strings.Contains(err.Error(), "has just ended") {
			t.Errorf("held: got %v, want that the holder has just ended", err)
		}
	}
}

// Every ask is another word, however soon it follows the last one.
func TestAskDrainerTwiceAtOnce(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	a := &app{now: func() time.Time { return now }}
	s := &Site{Host: &Host{a}, b: &base{app: a, cfg: &config.Loaded{}}}
	s.b.cfg.Config.Store.Home = t.TempDir()
	if err := s.AskDrainer(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("AskDrainer where nobody ever delivered: %v", err)
	}
	lock := drainerLock(s.b.home())
	if err := errors.Join(os.MkdirAll(filepath.Dir(lock), 0o700), os.WriteFile(lock, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	seen := map[time.Time]bool{s.Asked(): true}
	for range 3 {
		if err := s.AskDrainer(); err != nil {
			t.Fatal(err)
		}
		if seen[s.Asked()] {
			t.Errorf("Asked: %v again", s.Asked())
		}
		seen[s.Asked()] = true
	}
}
