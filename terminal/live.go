package terminal

import (
	"fmt"
	"strings"
	"time"

	"github.com/acode-dev/acode/session"
)

// maxWidth limits the width of lines, so that the right part stays near its name on a
// wide terminal.
const maxWidth = 100

// lastLines is how many lines of output are shown for all running steps together.
const lastLines = 3

// live holds the lines that are redrawn below the permanent lines while steps run.
type live struct {
	steps []running
	// tasks are the tasks that have not begun.
	tasks []task
	// done and total count steps.
	done, total int
	// drawn is how many live lines are on the terminal.
	drawn int
	// pauses is set when another Ctrl-C does not pause the session.
	pauses bool
	// held is set while another writer uses the terminal.
	held bool
}

type running struct {
	item  session.Item
	since time.Time
	// last holds the newest lines of output, not cleaned.
	last []string
}

type task struct {
	number int
	title  string
}

// plan takes over the remaining tasks and steps of a session.
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

// output keeps the newest lines of the step of n. Without a step in n it uses the first
// running step.
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

// rows returns the lines of running steps, of waiting tasks, and the totals.
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
	// Another process executes the session.
	if l.total == 0 {
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

// Pauses removes the hint that Ctrl-C pauses the session, because it is already pausing.
func (p *Printer) Pauses() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live.pauses = true
}

// row returns a line with a mark, a name and a right part. A long name is cut.
func (p *Printer) row(mark, name, right string) string {
	indent := "  "
	if p.compact() {
		indent = "    "
	}
	room := p.width() - columns(indent+mark+"   "+right)
	return strings.TrimRight(indent+mark+" "+pad(shorten(name, room, p.m.ellipsis), room)+"  "+right, " ")
}

// width returns how many columns a line may have. Two columns stay free for the ^C that a
// terminal prints behind the last line: lines that wrap could not be erased.
func (p *Printer) width() int { return min(p.o.Width()-len("^C"), maxWidth) }

func (p *Printer) cut(line string) string { return shorten(line, p.width(), p.m.ellipsis) }

// compact reports whether steps are listed below the titles of their tasks.
func (p *Printer) compact() bool { return p.o.Live && p.o.Verbose == 0 }

// label returns the name of a step: short below the title of its task, otherwise with its
// place.
func (p *Printer) label(it session.Item) string {
	if p.compact() && it.Label != "" {
		return Clean(it.Label)
	}
	return name(it)
}

// under prints the title of the task of the next line, unless the line before already
// belongs to that task.
func (p *Printer) under(it session.Item) {
	if p.compact() && it.Task != p.task {
		p.task = it.Task
		p.printf("%s\n", p.cut("  "+titleOr(it)))
	}
}

// titleOr returns the title of the task of a step, or its number when it has none.
func titleOr(it session.Item) string {
	if it.Title == "" {
		return fmt.Sprintf("Task %d", it.Task)
	}
	return Clean(it.Title)
}

// draw prints the live lines over the previous ones.
func (p *Printer) draw() {
	if !p.o.Live || len(p.live.steps) == 0 || p.live.held || p.prompt != "" || p.behind(0) {
		return
	}
	rows := p.rows()
	_, _ = fmt.Fprint(p.o.Out, p.wiped()+strings.Join(rows, "\n")) // as in printf
	p.live.drawn = len(rows)
}

// erase removes the live lines from the terminal, so that a permanent line can be
// printed.
func (p *Printer) erase() {
	if p.live.drawn > 0 {
		_, _ = fmt.Fprint(p.o.Out, p.wiped()) // as in printf
		p.live.drawn = 0
	}
}

// wiped returns the escape sequence that moves to the first live line and clears all of
// them.
func (p *Printer) wiped() string {
	return "\r" + strings.Repeat("\x1b[A", max(p.live.drawn-1, 0)) + "\x1b[J"
}
