package terminal

import (
	"fmt"
	"io"
	"time"

	"github.com/acode-dev/acode/session"
)

// Page is where a command answers that shows no session at work: for a person, or as JSON for a
// script. All fields but JSON must be set.
type Page struct {
	Out   io.Writer
	JSON  bool
	Now   func() time.Time
	Spell func(session.Hint) string // says a hint as its door does
}

func (p Page) write(s string) error {
	if _, err := io.WriteString(p.Out, s); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

func (p Page) json(v any) error { return JSON(p.Out, v) }
