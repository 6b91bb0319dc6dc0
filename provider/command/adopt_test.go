//go:build linux

package command_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/session"
)

// A session that continues under another id has the results of its commands, and runs
// none again.
func TestAdopt(t *testing.T) {
	s := newStage(t)
	first := s.sh(s.key+"-old", "echo out; echo err >&2; exit 3")
	first.Split = true
	old := s.run(first)
	cfg := config(filepath.Join(s.dir, "new"), 1)
	cfg.Session = "another"
	heir := command.NewRunner(cfg)
	defer heir.Close()
	req := s.sh(s.key+"-new", "echo out; echo err >&2; exit 3")
	req.Split = true
	if err := heir.Adopt(s.ctx(), s.dir, s.key+"-old", req); err != nil {
		t.Fatalf("Adopt: %v", err)
	}
	rec, err := heir.Run(s.ctx(), req)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	if old.Key = s.key + "-new"; rec.State != session.CommandFinished || rec.Exit != 3 || rec.StartedUS != old.StartedUS || rec.EndedUS != old.EndedUS || rec.Key != old.Key {
		t.Errorf("record: got %+v, want %+v", rec, old)
	}
	stdout, stderr, err := heir.Output(s.key + "-new")
	if err != nil {
		t.Fatalf("Output: %v", err)
	}
	defer stdout.Close()
	defer stderr.Close()
	for want, r := range map[string]io.Reader{"out\n": stdout, "err\n": stderr} {
		if got, err := io.ReadAll(r); err != nil || string(got) != want {
			t.Errorf("output: got %q, %v, want %q", got, err, want)
		}
	}
	if _, err := heir.Run(s.ctx(), s.sh(s.key+"-new", "echo something else")); !errors.Is(err, session.ErrConflict) {
		t.Errorf("Run of another command: got %v, want %s", err, session.ErrConflict)
	}
	if err := heir.Adopt(s.ctx(), s.dir, "never", req); !errors.Is(err, session.ErrUncertain) {
		t.Errorf("Adopt of a command that never ran: got %v, want %s", err, session.ErrUncertain)
	}
	if err := s.Forget(s.key + "-old"); err != nil {
		t.Fatal(err)
	}
	if err := heir.Adopt(s.ctx(), s.dir, s.key+"-old", s.sh(s.key+"-third", "exit 3")); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("Adopt without outputs: got %v, want %s", err, session.ErrCorrupt)
	}
	if _, err := os.Stat(command.ClaimPath(cfg.Dir, s.key+"-third")); err == nil {
		t.Errorf("Adopt without outputs: left a claim")
	}
}
