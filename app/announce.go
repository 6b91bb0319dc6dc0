package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/acode-dev/acode/session"
)

// announcement is the object that the notify command reads from its standard input.
type announcement struct {
	V int `json:"v"`
	// ID is the same each time for one event.
	ID        string         `json:"id"`
	SessionID session.ID     `json:"session_id"`
	ShortID   string         `json:"short_id"`
	Task      string         `json:"task"`
	Workspace string         `json:"workspace"`
	State     session.State  `json:"state"`
	Reason    session.Reason `json:"reason"`
	Killed    bool           `json:"interrupted"`
	Detail    string         `json:"detail"`
	Done      int            `json:"done"`
	Left      int            `json:"left"`
}

// announceTime is how long the notify command may run.
const announceTime = 10 * time.Second

// awaits creates a marker file that stays until the end of the session is announced. A
// process that is killed announces nothing, so the next process announces for it.
func (s *Site) awaits(id session.ID) {
	if s.Settings.Config.Notify == "" {
		return
	}
	err := os.MkdirAll(s.announcements(), 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(s.announcements(), string(id)), nil, 0o600)
	}
	s.unannounced(err)
}

// announce runs the notify command for each session with a marker that no process
// executes any more. own is the session of this process.
func (s *Site) announce(ctx context.Context, own session.ID) {
	if s.Settings.Config.Notify == "" {
		return
	}
	waiting, err := os.ReadDir(s.announcements())
	s.unannounced(err)
	for _, file := range waiting {
		v, err := s.Status(ctx, file.Name())
		if err == nil && v.Running && v.ID != own {
			continue
		}
		if err == nil && announced(v) {
			err = s.announceOne(ctx, v)
		}
		if err == nil {
			err = os.Remove(filepath.Join(s.announcements(), file.Name()))
		}
		s.unannounced(err)
	}
}

// announced reports whether v is announced: the session failed, completed, or needs a
// person who did not stop it.
func announced(v Status) bool {
	return v.State != session.Cancelled && v.Reason != session.ReasonSignal
}

func (s *Site) announceOne(ctx context.Context, v Status) error {
	ctx, cancel := context.WithTimeout(ctx, announceTime)
	defer cancel()
	mask := s.Redactor.String
	told, err := json.Marshal(announcement{V: 1, ID: fmt.Sprintf("%s:%d", v.ID, v.LastSeq), SessionID: v.ID, ShortID: v.Short, Task: mask(v.Task),
		Workspace: mask(v.Workspace), State: v.State, Reason: v.Reason, Killed: underWay(v.State), Detail: mask(v.Detail), Done: v.Done, Left: v.Steps - v.Done})
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, s.Settings.Config.Notify)
	cmd.Stdin, cmd.WaitDelay = bytes.NewReader(append(told, '\n')), time.Second
	return cmd.Run()
}

func (s *Site) announcements() string {
	return filepath.Join(s.Settings.Config.Store.Home, "announce")
}

// unannounced logs why an announcement failed. The next process tries again.
func (s *Site) unannounced(err error) {
	if err != nil {
		s.Log.Warn("the announcement failed; the next process tries again", "event", "unannounced", "error", err.Error())
	}
}
