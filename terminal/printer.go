package terminal

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/acode-dev/acode/session"
)

// Printer shows what a session does. It is safe for concurrent use. Errors of the writers
// are ignored: a terminal that went away must not stop a session.
type Printer struct {
	o Options
	m marks

	mu     sync.Mutex
	block  block            // what Out is in the middle of
	asks   bool             // a changed file of the block concerns the session
	gate   []string         // what a yes to the latest question lets happen
	sess   *session.Session // of the latest notice that had one
	short  string           // of sess
	loaded session.State    // of sess when it was first told: it changes under us
	line   liveLine
	json   jsonLines
	ended  bool // the result was given

	stop    chan struct{}
	stopped sync.WaitGroup
}

// block is a part of the output that later notices continue.
type block int

const (
	noBlock       block = iota
	checking            // below "Validating environment..."
	listing             // below "Changed files detected:"
	listedChanges       // the list of changed files is closed
)

// New makes a Printer. Close it to stop the live line.
func New(o Options) *Printer {
	if o.JSON || o.Quiet {
		o.Live = false
	}
	if o.JSON {
		o.Color = false
	}
	if o.Width == nil {
		o.Width = func() int { return defaultWidth }
	}
	if o.Exit == nil {
		o.Exit = plainExit
	}
	p := &Printer{o: o, m: marksFor(o.ASCII), stop: make(chan struct{})}
	if o.Live {
		p.stopped.Go(p.tick)
	}
	return p
}

func plainExit(r session.Result) int {
	if r.Code == "" {
		return 0
	}
	return 1
}

// tick redraws the live line each second until Close.
func (p *Printer) tick() {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			p.mu.Lock()
			p.draw()
			p.mu.Unlock()
		case <-p.stop:
			return
		}
	}
}

// Close erases the live line and ends open blocks. A second Close does nothing.
func (p *Printer) Close() {
	p.mu.Lock()
	select {
	case <-p.stop:
		p.mu.Unlock()
		return
	default:
		close(p.stop)
	}
	p.settle()
	p.line.item = nil
	p.json.flush(p.o.Out)
	p.mu.Unlock()
	p.stopped.Wait()
}

// Settle erases the live line and ends open blocks, so that somebody else may write to the
// terminal until the next notice.
func (p *Printer) Settle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle()
}

func (p *Printer) settle() {
	p.erase()
	p.line.held = true
	p.endList()
}

// Notice shows n. Notices after the result are dropped: the result is the last line.
func (p *Printer) Notice(n session.Notice) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.remember(n)
	p.line.held = false
	p.ended = n.Kind == session.NoticeResult
	if p.o.JSON {
		p.writeJSON(n)
		return
	}
	p.show(n)
}

func (p *Printer) remember(n session.Notice) {
	if n.Session == nil {
		return
	}
	if p.sess == nil {
		p.loaded = n.Session.State
	}
	p.sess, p.short = n.Session, n.Session.Short
}

func (p *Printer) show(n session.Notice) {
	if n.Kind != session.NoticeOutput {
		p.erase()
		defer p.draw()
	}
	if n.Kind != session.NoticeChanged {
		p.endList()
	}
	switch n.Kind {
	case session.NoticeSession: // the header names it, below the environment block
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
	case session.NoticeCompleted:
		p.stepEnded(n, p.m.done, green)
	case session.NoticeFailed:
		p.stepEnded(n, p.m.failed, red)
	case session.NoticeUncertain:
		p.stepEnded(n, p.m.unknown, yellow)
	case session.NoticeAsking:
		p.asking(n)
	case session.NoticeWarning:
		p.warning(n)
	case session.NoticeResult:
		p.result(n)
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

func (p *Printer) details(w io.Writer, indent string, lines []string) {
	for _, l := range lines {
		_, _ = fmt.Fprintf(w, "%s%s\n", indent, cleanLine(l)) // as in printf
	}
}

func (p *Printer) started(n session.Notice) {
	if n.Item == nil {
		return
	}
	p.line.start(n.Item, p.o.Now())
	if !p.o.Live {
		p.printf("  %s %s\n", paint(p.o.Color, cyan, p.m.running), name(*n.Item))
	}
}

// stepEnded replaces the live line, when it is about this step, by a line that stays.
func (p *Printer) stepEnded(n session.Notice, mark, color string) {
	if n.Item == nil {
		return
	}
	p.line.end(n.Item.ID)
	p.printf("  %s %s%s\n", paint(p.o.Color, color, mark), name(*n.Item), tookNote(n))
	if p.o.Quiet {
		return
	}
	if n.Text != "" && n.Kind != session.NoticeCompleted {
		p.details(p.o.Out, "    ", []string{n.Text})
	}
	p.details(p.o.Out, "    ", n.Detail)
}

// tookNote says how long a step took. Of an outcome that is unknown it may not be known.
func tookNote(n session.Notice) string {
	if n.Kind == session.NoticeUncertain && n.Took == 0 {
		return ""
	}
	return " (" + took(n.Took) + ")"
}

// output keeps the newest line for the live line; it is written out only when asked for.
func (p *Printer) output(n session.Notice) {
	if p.o.Verbose > 0 {
		p.erase()
		p.printf("    | %s\n", cleanLine(n.Text))
	}
	if p.line.item != nil {
		p.line.last = n.Text
		if p.o.Verbose > 0 {
			p.draw()
		}
	}
}

func (p *Printer) asking(n session.Notice) {
	what := Clean(n.Text)
	if n.Item != nil {
		p.line.end(n.Item.ID)
		what = name(*n.Item)
	}
	p.printf("  %s %s (approval needed)\n", paint(p.o.Color, yellow, p.m.unknown), what)
	p.gate = n.Detail
	if p.o.Quiet {
		return
	}
	if n.Item != nil && n.Text != "" && n.Text != n.Item.Label {
		p.details(p.o.Out, "    ", textLines(n.Text))
	}
	p.details(p.o.Out, "    ", n.Detail)
}

func (p *Printer) warning(n session.Notice) {
	_, _ = fmt.Fprintf(p.o.Err, "warning: %s\n", Clean(n.Text)) // as in printf
	p.details(p.o.Err, "  ", n.Detail)
}

func (p *Printer) info(n session.Notice) {
	if p.block != noBlock && n.Text == changesAccepted {
		p.endChecks()
		return
	}
	if p.o.Quiet {
		return
	}
	p.details(p.o.Out, "", []string{n.Text})
	p.details(p.o.Out, "  ", n.Detail)
}

// result ends the output: where the session stands, what was done, how to go on.
func (p *Printer) result(n session.Notice) {
	if n.Result == nil {
		return
	}
	p.line.item = nil
	writeResult(p.o.Out, *n.Result)
}

func writeResult(w io.Writer, r session.Result) {
	state := Clean(string(r.State))
	switch r.State {
	case session.Created, session.Planning, session.Executing: // nobody executes it now
		state = "interrupted"
	}
	if r.Reason != "" {
		state += " (" + Clean(string(r.Reason)) + ")"
	}
	_, _ = fmt.Fprintf(w, "Session %s %s: %s\n", Clean(r.Short), state, counts(r.Done, r.Left)) // as in printf
	if r.Message != "" {
		message := "  " + Clean(r.Message)
		if r.Code != "" {
			message += " (" + Clean(string(r.Code)) + ")"
		}
		_, _ = fmt.Fprintln(w, message) // as in printf
	}
	if r.Next.Text != "" { // its door has said it in words
		_, _ = fmt.Fprintf(w, "Continue with: %s\n", Clean(r.Next.Text)) // as in printf
	}
}

func counts(done, left int) string {
	return fmt.Sprintf("%s done, %s left", Plural(done, "step"), comma(left))
}
