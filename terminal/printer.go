package terminal

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/acode-dev/acode/session"
)

// Printer shows what a session does. It is safe for concurrent use. Errors of the writers
// are ignored: a terminal that went away must not stop a session.
type Printer struct {
	o Options
	m marks

	mu sync.Mutex
	// what Out is in the middle of
	block block
	// a changed file of the block concerns the session
	asks bool
	// what a yes to the latest question lets happen
	gate []string
	// of the latest notice that had one
	sess   *session.Session
	loaded loaded
	// whose title was written last
	task int
	live live
	// of the question that is open, which stays the last line of a terminal
	prompt string
	json   jsonLines
	missed []missed
	// the result was given
	ended bool

	closed bool
}

// missed are lines of a step that are not shown, since the reader is behind.
type missed struct {
	item  session.Item
	lines int
}

// loaded is how a session stood when it was first told of: it changes under us.
type loaded struct {
	state  session.State
	reason session.Reason
	// since when
	atUS int64
	// the steps in progress, microseconds
	started map[session.StepID]int64
}

// block is a part of the output that later notices continue.
type block int

const (
	noBlock block = iota
	// below "Validating environment..."
	checking
	// below "Changed files detected:"
	listing
	// the list of changed files is closed
	listedChanges
)

// New makes a Printer. Close it to stop the live lines.
func New(o Options) *Printer {
	o.Live, o.Color = o.Live && !o.JSON && !o.Quiet, o.Color && !o.JSON
	p := &Printer{o: o, m: marksFor(o.ASCII, o.Color)}
	if o.Live {
		time.AfterFunc(tickEvery, p.tick)
	}
	return p
}

// tickEvery is how often the live lines are redrawn.
const tickEvery = 250 * time.Millisecond

// tick redraws the live lines until Close.
func (p *Printer) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.draw()
		time.AfterFunc(tickEvery, p.tick)
	}
}

// Close erases the live lines and ends open blocks. A second Close does nothing.
func (p *Printer) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle()
	p.json.flush(p.o.Out)
	p.closed = true
}

// Settle erases the live lines and ends open blocks, so that somebody else may write to
// the terminal until the next notice.
func (p *Printer) Settle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle()
}

func (p *Printer) settle() {
	p.erase()
	p.live.held = true
	p.endList()
}

// Notice shows n. Notices after the result are dropped: the result is the last line.
func (p *Printer) Notice(n session.Notice) {
	// Only a line of output waits for a reader here, and alone: it must not hold up what
	// is told of other steps.
	leftOut := n.Kind == session.NoticeOutput && n.Item != nil && (p.o.JSON || p.o.Verbose > 0) && p.behind(patience)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.remember(n)
	p.live.held = false
	if leftOut {
		p.miss(n.Item)
		return
	}
	p.tellMissed(n)
	p.ended = n.Kind == session.NoticeResult
	p.tell(n)
}

func (p *Printer) tell(n session.Notice) {
	if n.Kind == session.NoticeLagging && n.Item != nil && p.sess != nil {
		n.Text += "; " + p.o.Spell(session.Hint{Do: session.MoveLogs, Session: p.sess.Short, Step: n.Item.ID}) + " has all"
	}
	if p.o.JSON {
		p.writeJSON(n)
		return
	}
	p.show(n)
}

// patience is how long a line of output waits for a reader that takes nothing.
const patience = 100 * time.Millisecond

func (p *Printer) behind(patience time.Duration) bool {
	return p.o.Behind != nil && p.o.Behind(patience)
}

// miss leaves a line of output of a step out.
func (p *Printer) miss(it *session.Item) {
	for i := range p.missed {
		if p.missed[i].item.ID == it.ID {
			p.missed[i].lines++
			return
		}
	}
	p.missed = append(p.missed, missed{*it, 1})
}

// tellMissed says what was left out of the step of n, or of all before the result.
func (p *Printer) tellMissed(n session.Notice) {
	var left []missed
	for _, m := range p.missed {
		if n.Kind != session.NoticeResult && (n.Item == nil || n.Item.ID != m.item.ID) {
			left = append(left, m)
			continue
		}
		p.tell(session.Notice{Kind: session.NoticeLagging, Item: &m.item, Text: Plural(m.lines, "line") + " not shown"})
	}
	p.missed = left
}

func (p *Printer) remember(n session.Notice) {
	if n.Session != nil {
		if p.sess == nil {
			p.loaded = loaded{n.Session.State, n.Session.Reason, cmp.Or(n.TimeUS, n.Session.LastUS), map[session.StepID]int64{}}
			for id, st := range n.Session.Steps {
				if st.Status == session.InProgress {
					p.loaded.started[id] = st.StartedUS
				}
			}
		}
		p.sess = n.Session
	}
}

func (p *Printer) show(n session.Notice) {
	if n.Kind != session.NoticeOutput {
		p.erase()
		defer p.draw()
		if p.o.Live && p.prompt != "" {
			p.printf("%s", p.wiped())
			defer func() { _, _ = io.WriteString(p.o.Err, p.prompt) }() // an answer may still come
		}
	}
	if n.Kind != session.NoticeChanged {
		p.endList()
	}
	switch n.Kind {
	case session.NoticeSession: // else the header names it, below the environment block
		if p.o.Follows && p.sess != nil {
			p.followed()
		}
	case session.NoticeCheck:
		p.check(n)
	case session.NoticeChanged:
		p.changed(n)
	case session.NoticeHeader:
		p.header(n)
	case session.NoticeStarted:
		p.started(n)
	case session.NoticeHandling:
		p.handling(n)
	case session.NoticeOutput:
		p.output(n)
	case session.NoticeLagging:
		if p.o.Verbose > 0 {
			p.printf("    %s| %s %s\n", p.whose(n), p.m.ellipsis, Clean(n.Text))
		}
	case session.NoticeCompleted:
		p.stepEnded(n, p.m.done)
	case session.NoticeFailed:
		p.stepEnded(n, p.m.failed)
	case session.NoticeUncertain:
		p.stepEnded(n, p.m.unknown)
	case session.NoticeAsking:
		p.asking(n)
	case session.NoticeWarning:
		p.warning(n)
	case session.NoticeResult:
		p.result(n.Result)
	default:
		p.info(n)
	}
}

// printf writes progress: Quiet drops it. Its arguments are clean already.
func (p *Printer) printf(format string, args ...any) {
	if !p.o.Quiet {
		_, _ = fmt.Fprintf(p.o.Out, format, args...) // a terminal that went away must not stop a session
	}
}

// below writes further lines of progress.
func (p *Printer) below(indent string, lines ...string) {
	for _, l := range lines {
		p.printf("%s%s\n", indent, cleanLine(l))
	}
}

// aside writes lines where warnings and questions go.
func (p *Printer) aside(indent string, lines ...string) {
	for _, l := range lines {
		_, _ = fmt.Fprintf(p.o.Err, "%s%s\n", indent, cleanLine(l)) // as in printf
	}
}

func (p *Printer) started(n session.Notice) {
	if n.Item == nil {
		return
	}
	since := p.o.Now()
	if n.TimeUS > 0 { // who follows may come later
		since = time.UnixMicro(n.TimeUS)
	} else if us := p.loaded.started[n.Item.ID]; us > 0 && n.Item.Action == session.ActionAttach {
		since = time.UnixMicro(us)
	}
	p.live.start(*n.Item, since)
	if !p.o.Live && p.o.Verbose > 0 {
		p.printf("  %s %s\n", p.m.running, name(*n.Item))
	}
}

// stepEnded replaces the live lines of a step by one that stays.
func (p *Printer) stepEnded(n session.Notice, mark string) {
	if n.Item == nil {
		return
	}
	p.live.end(n.Item.ID)
	if n.Kind == session.NoticeCompleted {
		p.live.done++
	}
	after, indent := took(n.Took), "    "
	if n.Kind == session.NoticeUncertain && n.Took == 0 { // it may not be known
		after = ""
	}
	p.under(*n.Item)
	switch {
	case p.compact():
		indent = "      "
		if n.Kind == session.NoticeCompleted {
			after = fmt.Sprintf("%s  %6s", shorten(Clean(n.Text), p.width()/4, p.m.ellipsis), after)
		}
		p.printf("%s\n", p.row(mark, p.label(*n.Item), strings.TrimLeft(after, " ")))
	case after == "":
		p.printf("  %s %s\n", mark, name(*n.Item))
	default:
		p.printf("  %s %s (%s)\n", mark, name(*n.Item), after)
	}
	if n.Text != "" && n.Kind != session.NoticeCompleted {
		p.below(indent, n.Text)
	}
	p.below(indent, n.Detail...)
}

// output keeps the newest lines for the live lines; with -v each is written out.
func (p *Printer) output(n session.Notice) {
	if p.o.Verbose == 0 {
		p.live.output(n)
		return
	}
	p.erase()
	p.printf("    %s| %s\n", p.whose(n), cleanLine(n.Text))
	p.draw()
}

// whose names the step of a line of output, where several run.
func (p *Printer) whose(n session.Notice) string {
	if n.Item == nil || len(p.live.steps) < 2 {
		return ""
	}
	return Clean(n.Item.ID.String()) + " "
}

func (p *Printer) asking(n session.Notice) {
	what, indent := Clean(n.Text), "    "
	if n.Item != nil {
		p.live.end(n.Item.ID)
		p.under(*n.Item)
		what = p.label(*n.Item)
	}
	if p.compact() {
		indent = "      "
		p.printf("%s\n", p.row(p.m.unknown, what, "approval needed"))
	} else {
		p.printf("  %s %s (approval needed)\n", p.m.unknown, what)
	}
	p.gate = n.Detail
	if n.Item != nil && n.Text != "" && n.Text != n.Item.Label {
		p.below(indent, textLines(n.Text)...)
	}
	p.below(indent, n.Detail...)
}

func (p *Printer) warning(n session.Notice) {
	_, _ = fmt.Fprintf(p.o.Err, "warning: %s\n", Clean(n.Text)) // as in printf
	p.aside("  ", n.Detail...)
}

func (p *Printer) info(n session.Notice) {
	if p.block != noBlock && n.Text == changesAccepted {
		p.endChecks()
		return
	}
	p.below("", n.Text)
	p.below("  ", n.Detail...)
}

// result ends the output: where the session stands, what was done, how to go on.
func (p *Printer) result(r *session.Result) {
	if r == nil {
		return
	}
	p.live.steps = nil
	state := Clean(string(r.State))
	switch r.State {
	case session.Created, session.Planning, session.Executing: // nobody executes it now
		state = "interrupted"
	}
	if r.Reason != "" {
		state += " (" + Clean(string(r.Reason)) + ")"
	}
	text := fmt.Sprintf("Session %s %s: %s\n", Clean(r.Short), state, counts(r.Done, r.Left))
	if r.Message != "" {
		text += "  " + withCode(r.Message, r.Code) + "\n"
	}
	if r.Next.Text != "" { // its door has said it in words
		text += "Continue with: " + Clean(r.Next.Text) + "\n"
	}
	_, _ = io.WriteString(p.o.Out, text) // as in printf
}

// withCode writes a message with its code behind it, if it has one.
func withCode(message string, code session.Code) string {
	if code == "" {
		return Clean(message)
	}
	return Clean(message) + " (" + Clean(string(code)) + ")"
}

func counts(done, left int) string {
	return fmt.Sprintf("%s done, %s left", Plural(done, "step"), comma(left))
}
