package app

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/acode-dev/acode/session"
)

// marksFile names the calls whose answers the agent has seen. It is not synced: after a
// power cut these answers may be owed again.
func (s *Setup) marksFile(id session.ID) string {
	return filepath.Join(s.home(), "locks", string(id)+".settled")
}

// carryOver records what happened before the session was acquired.
func (c *Calls) carryOver(at *acquired) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.unread {
		at.calls.Record(r)
	}
	c.unread = nil
	var seen []string
	defer func() {
		if len(seen) == 0 { // the journal has all marks
			_ = os.Remove(c.site.marksFile(c.id)) // otherwise they are read once more
		}
	}()
	at.calls.Look(func(s *session.Session) {
		for id, op := range s.Ops {
			if c.settled[id] && op.Status != session.InProgress {
				seen = append(seen, id.Op)
			}
		}
	})
	if len(seen) > 0 {
		at.calls.Settle(seen)
	}
}

// Settle records that the agent has surely seen the answers of ops. It does not wait for
// a disk. A call without an outcome is ignored, and so is one that the journal no longer
// owes.
func (c *Calls) Settle(ops ...session.StepID) {
	owed := map[session.StepID]bool{}
	err := c.look(c.ctx, func(s *session.Session) {
		for _, id := range ops {
			op := s.At(id)
			owed[id] = op != nil && op.Status != session.InProgress
		}
	})
	if err != nil { // the answers stay owed
		c.site.Log.Warn("settled calls could not be noted", "event", "marks_lost", "error", err.Error())
		return
	}
	c.mu.Lock()
	var fresh []string
	for _, id := range ops {
		if owed[id] && !c.settled[id] {
			c.settled[id] = true
			fresh = append(fresh, id.Op)
		}
	}
	c.mu.Unlock()
	if len(fresh) == 0 {
		return
	}
	c.mark(fresh)
	if at := c.present(); at != nil {
		at.calls.Settle(fresh)
	}
}

// mark writes the names of settled calls beside the store. Without the marks the answers
// stay owed, so an error is only logged.
func (c *Calls) mark(ops []string) {
	f, err := os.OpenFile(c.site.marksFile(c.named()), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(strings.Join(ops, "\n") + "\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		c.site.Log.Warn("settled calls could not be noted", "event", "marks_lost", "error", err.Error())
	}
}

// readMarks reads the names of settled calls. It removes the file when no call of it is
// owed any more.
func (c *Calls) readMarks() error {
	content, err := os.ReadFile(c.site.marksFile(c.id))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &session.Error{Code: session.ErrStoreIO, Message: "the settled calls of the conversation cannot be read", Place: c.site.marksFile(c.id), Cause: err}
	}
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		if id := session.CallsStep(); session.ValidName(lines.Text()) {
			id.Op = lines.Text()
			c.settled[id] = true
		}
	}
	return nil
}
