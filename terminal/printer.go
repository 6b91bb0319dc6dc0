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

// Printer shows a session while it is executed. It is safe for concurrent use. It ignores
// errors of the writers, because a lost terminal must not stop a session.
type Printer struct {
	o Options
	m marks

	mu sync.Mutex
	// block is the part of the output that Out is in.
	block block
	// asks is set when a changed file of the block concerns the session.
	asks bool
	// gate describes the steps that the latest question would allow.
	gate []string
	// sess is the session of the latest notice that had one.
	sess   *session.Session
	loaded loaded
	// task is the task whose title was printed last.
	task int
	live live
	// prompt is the prompt of the open question. It stays the last line of a terminal.
	prompt string
	json   jsonLines
	missed []missed
	// ended is set after the result.
	ended bool

	closed bool
}

// missed counts lines of a step that are not shown because the reader is behind.
type missed struct {
	item  session.Item
	lines int
}

// loaded is the state of a session at its first notice. The engine changes the session
// afterwards.
type loaded struct {
	state  session.State
	reason session.Reason
	// atUS is when the state began, in microseconds.
	atUS int64
	// started is when the steps in progress began, in microseconds.
	started map[session.StepID]int64
}

// block is a part of the output that later notices continue.
type block int

const (
	noBlock block = iota
	// checking is below "Validating environment...".
	checking
	// listing is below "Changed files detected:".
	listing
	// listedChanges is after the end of the list of changed files.
	listedChanges
)

// New returns a Printer. Close it to stop the live lines.
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
	p.release()
	p.json.flush(p.o.Out)
	p.closed = true
}

// Release erases the live lines and ends open blocks. Another writer may then use the
// terminal until the next notice.
func (p *Printer) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release()
}

func (p *Printer) release() {
	p.erase()
	p.live.held = true
	p.endList()
}

// Notice shows n. It drops notices after the result, because the result is the last line.
func (p *Printer) Notice(n session.Notice) {
	// Only a line of output waits for a reader here. It waits outside the lock, so that
	// notices of other steps are not delayed.
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
		n.Text += "; " + p.o.Spell(session.Hint{Do: session.MoveLogs, Session: p.sess.Short, Step: n.Item.ID}) + " shows all"
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

// miss counts a line of output that is left out.
func (p *Printer) miss(it *session.Item) {
	for i := range p.missed {
		if p.missed[i].item.ID == it.ID {
			p.missed[i].lines++
			return
		}
	}
	p.missed = append(p.missed, missed{*it, 1})
}

// tellMissed reports how many lines of the step of n were left out. Before the result it
// reports all steps.
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
	// Otherwise the header names it, below the environment block.
	case session.NoticeSession:
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

// printf prints progress, unless Quiet is set. Its arguments are clean already.
func (p *Printer) printf(format string, args ...any) {
	if !p.o.Quiet {
		_, _ = fmt.Fprintf(p.o.Out, format, args...) // a lost terminal must not stop a session
	}
}

// below prints further lines of progress.
func (p *Printer) below(indent string, lines ...string) {
	for _, l := range lines {
		p.printf("%s%s\n", indent, cleanLine(l))
	}
}

// aside prints lines to Err, which receives warnings and questions.
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
	// A reader that follows may have come later.
	if n.TimeUS > 0 {
		since = time.UnixMicro(n.TimeUS)
	} else if us := p.loaded.started[n.Item.ID]; us > 0 && n.Item.Action == session.ActionAttach {
		since = time.UnixMicro(us)
	}
	p.live.start(*n.Item, since)
	if !p.o.Live && p.o.Verbose > 0 {
		p.printf("  %s %s\n", p.m.running, name(*n.Item))
	}
}

// stepEnded replaces the live lines of a step by a permanent line.
func (p *Printer) stepEnded(n session.Notice, mark string) {
	if n.Item == nil {
		return
	}
	p.live.end(n.Item.ID)
	if n.Kind == session.NoticeCompleted {
		p.live.done++
	}
	after, indent := took(n.Took), "    "
	// The duration may be unknown.
	if n.Kind == session.NoticeUncertain && n.Took == 0 {
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

// output keeps the newest lines for the live lines. With -v it prints each line.
func (p *Printer) output(n session.Notice) {
	if p.o.Verbose == 0 {
		p.live.output(n)
		return
	}
	p.erase()
	p.printf("    %s| %s\n", p.whose(n), cleanLine(n.Text))
	p.draw()
}

// whose names the step of a line of output when several steps run.
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

// result ends the output: the state of the session, the finished work and the next
// command.
func (p *Printer) result(r *session.Result) {
	if r == nil {
		return
	}
	p.live.steps = nil
	state := Clean(string(r.State))
	switch r.State {
	// No process executes it now.
	case session.Created, session.Planning, session.Executing:
		state = "interrupted"
	}
	if r.Reason != "" {
		state += " (" + Clean(string(r.Reason)) + ")"
	}
	text := fmt.Sprintf("Session %s %s: %s\n", Clean(r.Short), state, counts(r.Done, r.Left))
	if r.Calls > 0 {
		text = fmt.Sprintf("Session %s of an agent\n", Clean(r.Short))
	}
	if r.Message != "" {
		text += "  " + withCode(r.Message, r.Code) + "\n"
	}
	// The door has already spelled the hint.
	if r.Next.Text != "" {
		text += "Continue with: " + Clean(r.Next.Text) + "\n"
	}
	_, _ = io.WriteString(p.o.Out, text) // as in printf
}

// withCode returns a message with its code, if it has one.
func withCode(message string, code session.Code) string {
	if code == "" {
		return Clean(message)
	}
	return Clean(message) + " (" + Clean(string(code)) + ")"
}

func counts(done, left int) string {
	return fmt.Sprintf("%s done, %s left", Plural(done, "step"), comma(left))
}
