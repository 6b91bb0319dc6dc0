package terminal

import (
	"fmt"
	"strings"
	"time"

	"github.com/acode-dev/acode/session"
)

// widest lines of a screen: on a wide terminal what stands at the right stays near its
// name.
const maxWidth = 100

// lastLines is how many lines of output are shown of the steps that run, all together.
const lastLines = 3

// live is what is redrawn below the lines that stay, while steps run.
type live struct {
	steps []running
	// that have not begun
	tasks []task
	// steps
	done, total int
	// lines of it that stand on the terminal now
	drawn int
	// another Ctrl-C does not pause the session
	pauses bool
	// another one writes to the terminal
	held bool
}

type running struct {
	item  session.Item
	since time.Time
	// newest lines of output, as they came
	last []string
}

type task struct {
	number int
	title  string
}

// plan takes over what is left of a session.
func (l *live) plan(c *session.Continuation) {
	l.done, l.total, l.tasks = c.Skipped, len(c.Items), nil
	begun := map[int]bool{}
	for _, it := range c.Items {
		begun[it.Task] = begun[it.Task] || it.Action == session.ActionSkip || it.Status == session.InProgress
	}
	for _, it := range c.Items {
		if !begun[it.Task] {
			begun[it.Task] = true
			l.tasks = append(l.tasks, task{it.Task, titleOr(it)})
		}
	}
}

func (l *live) start(it session.Item, since time.Time) {
	l.end(it.ID)
	l.steps = append(l.steps, running{item: it, since: since})
	for i, t := range l.tasks {
		if t.number == it.Task {
			l.tasks = append(l.tasks[:i:i], l.tasks[i+1:]...)
			break
		}
	}
}

func (l *live) end(id session.StepID) {
	for i, s := range l.steps {
		if s.item.ID == id {
			l.steps = append(l.steps[:i:i], l.steps[i+1:]...)
			return
		}
	}
}

// output keeps the newest lines of a step, or of the one that runs.
func (l *live) output(n session.Notice) {
	for i := range l.steps {
		s := &l.steps[i]
		if n.Item == nil || n.Item.ID == s.item.ID {
			s.last = append(s.last, n.Text)
			s.last = s.last[max(0, len(s.last)-lastLines):]
			return
		}
	}
}

// rows gives the lines of what runs, of what waits, and the totals.
func (p *Printer) rows() (rows []string) {
	now, l, under := p.o.Now(), &p.live, p.task
	for _, s := range l.steps {
		if p.compact() && s.item.Task != under {
			under = s.item.Task
			rows = append(rows, p.cut("  "+titleOr(s.item)))
		}
		since := max(now.Sub(s.since), 0)
		spin := p.m.spin[since.Milliseconds()/tickEvery.Milliseconds()%int64(len(p.m.spin))]
		rows = append(rows, p.row(spin, p.label(s.item), clock(since)))
		for _, line := range s.last[max(0, len(s.last)-lastLines/len(l.steps)):] {
			rows = append(rows, p.cut("      "+p.m.bar+" "+Clean(line)))
		}
	}
	if len(l.tasks) > 0 {
		var titles []string
		for _, t := range l.tasks[:min(len(l.tasks), maxGroups)] {
			titles = append(titles, t.title)
		}
		rows = append(rows, p.cut("  "+p.m.dot+" "+strings.Join(titles, " "+p.m.dot+" ")))
	}
	if l.total == 0 { // another process executes the session
		return rows
	}
	totals := fmt.Sprintf("  %d/%d ", l.done, l.total)
	hints := []string{" Ctrl-C pauses " + p.m.dot + " acode logs -f shows all output", " Ctrl-C pauses"}
	if l.pauses {
		hints = []string{""}
	}
	for _, hint := range hints {
		if rule := p.width() - columns(totals) - columns(hint); rule > 2 {
			totals += strings.Repeat(p.m.rule, rule) + hint
			break
		}
	}
	return append(rows, p.cut(totals))
}

// Pauses takes back that Ctrl-C pauses the session: it has.
func (p *Printer) Pauses() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live.pauses = true
}

// row writes a mark and a name, which is cut, with what stands at the right.
func (p *Printer) row(mark, name, right string) string {
	indent := "  "
	if p.compact() {
		indent = "    "
	}
	room := p.width() - columns(indent+mark+"   "+right)
	return strings.TrimRight(indent+mark+" "+pad(shorten(name, room, p.m.ellipsis), room)+"  "+right, " ")
}

// width is how many columns a line may have. Two stay free for the ^C that a terminal
// writes behind the last one: where a line wraps, the lines cannot be taken off any more.
func (p *Printer) width() int { return min(p.o.Width()-len("^C"), maxWidth) }

func (p *Printer) cut(line string) string { return shorten(line, p.width(), p.m.ellipsis) }

// compact reports whether steps stand below the titles of their tasks.
func (p *Printer) compact() bool { return p.o.Live && p.o.Verbose == 0 }

// label names a step below the title of its task, or alone.
func (p *Printer) label(it session.Item) string {
	if p.compact() && it.Label != "" {
		return Clean(it.Label)
	}
	return name(it)
}

// under writes the title of the task whose step is written next, unless it stands there
// already.
func (p *Printer) under(it session.Item) {
	if p.compact() && it.Task != p.task {
		p.task = it.Task
		p.printf("%s\n", p.cut("  "+titleOr(it)))
	}
}

// titleOr is the title of the task of a step, if it has one, else its number.
func titleOr(it session.Item) string {
	if it.Title == "" {
		return fmt.Sprintf("Task %d", it.Task)
	}
	return Clean(it.Title)
}

// draw writes the live lines, over those that stand there.
func (p *Printer) draw() {
	if !p.o.Live || len(p.live.steps) == 0 || p.live.held || p.prompt != "" || p.behind(0) {
		return
	}
	rows := p.rows()
	_, _ = fmt.Fprint(p.o.Out, p.wiped()+strings.Join(rows, "\n")) // as in printf
	p.live.drawn = len(rows)
}

// erase takes the live lines off the terminal, so that a line that stays can be written.
func (p *Printer) erase() {
	if p.live.drawn > 0 {
		_, _ = fmt.Fprint(p.o.Out, p.wiped()) // as in printf
		p.live.drawn = 0
	}
}

// wiped goes to the first of the live lines and clears them.
func (p *Printer) wiped() string {
	return "\r" + strings.Repeat("\x1b[A", max(p.live.drawn-1, 0)) + "\x1b[J"
}
