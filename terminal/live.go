package terminal

import (
	"fmt"
	"time"

	"github.com/acode-dev/acode/session"
)

// liveLine is the one line that is redrawn while a step runs.
type liveLine struct {
	item  *session.Item // nil when nothing runs
	since time.Time
	last  string // newest line of output, as it came
	drawn bool   // it stands on the terminal now
	held  bool   // somebody else writes to the terminal
}

// end forgets the step id; another step that started since stays.
func (l *liveLine) end(id session.StepID) {
	if l.item != nil && l.item.ID == id {
		l.item = nil
	}
}

// text writes the line within width columns: the step, its time, the last output. The step
// is cut before its time is. Two columns stay free for the ^C that a terminal writes behind it:
// where that wraps, the line cannot be taken off any more.
func (l *liveLine) text(m marks, width int, now time.Time) string {
	since := " (" + elapsed(now.Sub(l.since)) + ")"
	title := shorten(name(*l.item), width-6-columns(since), m.ellipsis)
	s := "  " + m.running + " " + title + since
	room := width - 8 - columns(title) - columns(since)
	if l.last != "" && room > 10 {
		s += "  " + shorten(Clean(l.last), room, m.ellipsis)
	}
	return s
}

// draw writes the live line over itself.
func (p *Printer) draw() {
	if !p.o.Live || p.line.item == nil || p.line.held {
		return
	}
	_, _ = fmt.Fprintf(p.o.Out, "\r\x1b[K%s", p.line.text(p.m, p.o.Width(), p.o.Now())) // as in printf
	p.line.drawn = true
}

// erase takes the live line off the terminal, so that a line that stays can be written.
func (p *Printer) erase() {
	if p.line.drawn {
		_, _ = fmt.Fprint(p.o.Out, "\r\x1b[K") // as in printf
		p.line.drawn = false
	}
}
