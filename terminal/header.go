package terminal

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/acode-dev/acode/session"
)

// These lines begin and end the environment block. A notice with one of these texts only
// moves the block on, so that no line appears twice.
const (
	checksBegin     = "Validating environment..."
	checksPassed    = "Environment ready."
	changesConflict = "The session was working on these files. Changes may conflict."
	changesAccepted = "Continuing with changed files..."
)

// check shows one line of the environment block.
func (p *Printer) check(n session.Notice) {
	if strings.HasPrefix(n.Text, checksPassed) {
		p.endChecks()
		return
	}
	if p.beginChecks(); n.Text != checksBegin && p.o.Verbose > 0 {
		p.printf("  %s %s\n", p.m.done, Clean(n.Text))
	}
}

// beginChecks begins the environment block. Only -v shows its unchanged parts.
func (p *Printer) beginChecks() {
	if p.block == noBlock && p.o.Verbose > 0 {
		p.printf("%s\n", checksBegin)
		p.block = checking
	}
}

// changed lists one changed file (FR-045).
func (p *Printer) changed(n session.Notice) {
	if n.Changed == nil {
		return
	}
	p.beginChecks()
	if p.block != listing {
		p.printf("  %s Changed files detected:\n", p.m.warn)
		p.block, p.asks = listing, false
	}
	p.asks = p.asks || n.Changed.Asks
	p.printf("    - %s\n", changedLine(*n.Changed, p.o.Now()))
}

// changedLine returns a changed file and how the session used it.
func changedLine(c session.ChangedFile, now time.Time) string {
	s := Clean(c.Path) + " (" + Clean(c.Kind)
	if c.MTimeNS != 0 && c.Kind != session.FileDeleted {
		s += " " + agoShort(now, time.Unix(0, c.MTimeNS))
	}
	s += ")"
	switch {
	case c.Session == "":
		return s
	case c.Session == session.FilePlanned:
		return s + " - a step that is left names it"
	case c.Session == session.FileInProgress:
		return s + " - a step in progress works on it"
	// The time of a deletion is unknown.
	case c.Session == session.FileBeside && c.Kind == session.FileDeleted:
		return s + " - a command of the session may have removed it"
	case c.Session == session.FileBeside:
		return s + " - changed while a command of the session ran"
	}
	return s + " - the session " + Clean(string(c.Session)) + " it"
}

// endList ends the list of changed files with a conclusion from all of them.
func (p *Printer) endList() {
	if p.block != listing {
		return
	}
	p.block = listedChanges
	if p.asks {
		p.printf("\n%s\n", changesConflict)
	}
}

// endChecks ends the environment block with its conclusion.
func (p *Printer) endChecks() {
	switch {
	case p.block == noBlock:
		return
	case p.block == listedChanges && p.asks:
		p.printf("\n%s\n\n", changesAccepted)
	case p.o.Verbose == 0:
	case p.o.Fresh:
		p.printf("\n%s Running...\n\n", checksPassed)
	default:
		p.printf("\n%s Resuming...\n\n", checksPassed)
	}
	p.block = noBlock
}

// header shows the session, its state, the skipped work and the place where it continues.
func (p *Printer) header(n session.Notice) {
	p.endChecks()
	if p.sess == nil || n.Next == nil {
		return
	}
	p.live.plan(n.Next)
	d := delivery{p.o.Sync, p.o.Spell}
	if p.o.Verbose == 0 {
		p.summary(n.Next)
		if d.degraded() || d.stopped() {
			p.printf("Sync: %s\n", d.summary())
		}
		p.below("  ", d.why()...)
		return
	}
	gs := groups(n.Next)
	if p.o.Fresh {
		p.printf("Running session %s: %s\n", Clean(p.sess.Short), Clean(p.sess.Task))
	} else {
		p.resumed(n.Next, gs)
	}
	for _, g := range gs {
		p.printf("  %s %s\n", p.m.done, skippedLine(g))
	}
	p.printf("%s\nSync: %s\n", counts(n.Next.Skipped, n.Next.Remaining), d.summary())
	p.below("  ", d.why()...)
}

// summary describes in one line the session that runs, or the one that is resumed and its
// previous state.
func (p *Printer) summary(c *session.Continuation) {
	short, task := Clean(p.sess.Short), Clean(p.sess.Task)
	switch {
	case p.o.Fresh && p.compact():
		right := short + " " + p.m.dot + " " + Plural(len(c.Items), "step")
		room := p.width() - columns(right) - 2
		p.printf("%s  %s\n", pad(shorten(task, room, p.m.ellipsis), room), right)
		return
	case p.o.Fresh:
		p.printf("Running session %s: %s\n", short, task)
		return
	}
	stood := "paused"
	switch p.loaded.state {
	case session.Created, session.Planning, session.Executing:
		stood = "killed"
	case session.AwaitingApproval:
		stood = "asked"
	}
	if p.loaded.atUS > 0 {
		stood += " " + agoShort(p.o.Now(), time.UnixMicro(p.loaded.atUS))
	}
	if p.loaded.reason != "" {
		stood += " (" + Clean(string(p.loaded.reason)) + ")"
	}
	kept := ""
	if c.Saved > 0 {
		kept = ", " + took(c.Saved) + " of work kept"
	}
	p.printf("%s\n", strings.Join([]string{short, stood, fmt.Sprintf("%s of %s done%s", comma(c.Skipped), comma(len(c.Items)), kept)}, " "+p.m.dot+" "))
}

// followed names the session that another process executes.
func (p *Printer) followed() {
	line := "Following session " + Clean(p.sess.Short) + ": " + Clean(p.sess.Task)
	if p.compact() {
		line = p.cut(line)
	}
	p.printf("%s\n", line)
}

func (p *Printer) resumed(c *session.Continuation, gs []group) {
	p.printf("Resuming session %s...\n", Clean(p.sess.Short))
	at := ""
	if it, ok := c.Stands(p.sess); ok {
		at = " at " + place(it)
	}
	p.printf("  Loaded state: %s%s\n", upper(p.loaded.state), at)
	for _, g := range gs {
		p.printf("  Skipping: %s (complete)\n", g)
	}
	if it, ok := c.First(); ok {
		p.printf("  Starting from: %s\n", place(it))
	} else {
		p.printf("  Starting from: the end, no step is left\n")
	}
}

func skippedLine(g group) string {
	s := g.String()
	if g.whole && g.first.Task == g.last.Task && g.first.Title != "" {
		s += ": " + Clean(g.first.Title)
	}
	if g.took > 0 {
		return s + " (skipped, " + took(g.took) + ")"
	}
	return s + " (skipped)"
}

// handling explains how the engine handles a step that was in progress (FR-023 to
// FR-028).
func (p *Printer) handling(n session.Notice) {
	if n.Item == nil {
		return
	}
	if p.o.Verbose == 0 {
		p.under(*n.Item)
		if p.compact() {
			p.printf("%s\n      %s\n", p.row(p.m.again, p.label(*n.Item), ""), handled(n))
		} else {
			p.printf("  %s %s - %s\n", p.m.again, name(*n.Item), handled(n))
		}
		return
	}
	p.printf("Step: %s\n", Clean(cmp.Or(n.Item.Label, place(*n.Item))))
	for _, line := range handlingLines(n) {
		p.printf("%s\n", line)
	}
}

// handled is handling in one line.
func handled(n session.Notice) string {
	lines := handlingLines(n)
	// The reason already says that acode attaches.
	if n.Level == session.ActionAttach {
		lines = lines[:len(lines)-1]
	}
	var words []string
	for _, line := range lines {
		_, what, _ := strings.Cut(line, ": ")
		words = append(words, strings.ToLower(what[:1])+what[1:])
	}
	return strings.Join(words, "; ")
}

func handlingLines(n session.Notice) []string {
	const inProgress = "Status: Was in progress"
	why := Clean(cmp.Or(n.Text, n.Item.Why))
	switch n.Level {
	case session.ActionRollBack:
		return []string{"Status: Partially written", "Action: Rolling back to checkpoint", "Action: Re-executing step"}
	case session.ActionApplied:
		return []string{inProgress, "Checking: File matches expected state", "Action: Already applied, skipping"}
	case session.ActionAttach:
		return checked(inProgress, why, "Action: Attaching to the command")
	case session.ActionDecide:
		return checked("Status: Outcome unknown", why, "Action: Asking for its outcome")
	case session.ActionRetry, session.ActionProceed:
		switch {
		case n.Item.Kind == session.KindRead:
			return []string{inProgress, "Action: Re-reading file"}
		case n.Item.Kind == session.KindSearch:
			return []string{inProgress, "Action: Searching again"}
		case n.Level == session.ActionRetry:
			return checked("Status: Was not completed", why, fmt.Sprintf("Action: Re-executing step, attempt %d", n.Item.Attempt))
		}
		return checked(inProgress, why, "Action: Re-executing step")
	}
	return checked("Status: "+Clean(string(n.Item.Status)), why, "Action: "+Clean(string(n.Level)))
}

func checked(status, why, action string) []string {
	if why == "" {
		return []string{status, action}
	}
	return []string{status, "Checking: " + why, action}
}
