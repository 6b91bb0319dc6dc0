package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/acode-dev/acode/session"
)

// Limits are what the prompt steps of a session may use in all its processes. 0 means no
// limit.
type Limits struct {
	// Requests counts the requests to models, also those that were cut off.
	Requests int
	Tokens   int64
	// Cost is in millionths of the currency of the prices.
	Cost int64
}

// Price is the price of a million tokens, in millionths of a currency.
type Price struct{ Input, Output, Cached int64 }

// Of returns the cost of u in millionths of the currency.
func (p Price) Of(u session.Usage) int64 {
	return ((u.Input-u.Cached)*p.Input + u.Cached*p.Cached + u.Output*p.Output) / 1e6
}

// priced returns u with its cost.
func (t *talk) priced(u session.Usage) session.Usage {
	if t.Price != nil {
		u.Cost = t.Price(t.model.Setup().Name).Of(u)
	}
	return u
}

// within commits a request with ask, unless it would exceed a limit. No other branch can
// make a request in between.
func (t *talk) within(ctx context.Context, ask func() error) error {
	t.spending.Lock()
	defer t.spending.Unlock()
	if err := t.settled(ctx); err != nil {
		return err
	}
	if err := t.reduce(ctx); err != nil {
		return err
	}
	if err := t.exceeds(); err != nil {
		return err
	}
	return ask()
}

// settled makes the conversation know all that exceeds needs. A pending receipt is
// committed before its time only if it may decide.
func (t *talk) settled(ctx context.Context) error {
	if err := t.catchUp(ctx); err != nil {
		return err
	}
	replied := slices.ContainsFunc(t.pending, func(d session.Draft) bool {
		return d.Type == session.ModelAnswered || d.Type == session.ModelFailed
	})
	near := slices.ContainsFunc(t.measures(), func(m measure) bool { return m.limit > 0 && m.used+m.open+2*m.next > m.limit })
	if !replied && !near && !t.conv.Doubtful() {
		return nil
	}
	if err := t.commit(ctx); err != nil {
		return err
	}
	return t.catchUp(ctx)
}

// measure is a number that is limited.
type measure struct {
	reason session.Reason
	name   string
	// open is what the open requests need, and next is what the next one needs
	used, open, next, limit int64
	more                    session.Move
}

func (t *talk) measures() []measure {
	var requests int
	var used, open session.Usage
	t.book.look(func(s *session.Session) {
		requests, used = s.Spent()
		open = s.Promised()
	})
	next := t.needs()
	return []measure{
		{session.ReasonMaxTurns, "turns", int64(requests), 0, 1, int64(t.Limits.Requests), session.MoveMoreTurns},
		{session.ReasonTokens, "tokens", used.Tokens(), open.Tokens(), next.Tokens(), t.Limits.Tokens, session.MoveMoreTokens},
		{session.ReasonBudget, "of its budget", used.Cost, open.Cost, next.Cost, t.Limits.Cost, session.MoveMoreBudget},
	}
}

// needs estimates what the next request uses.
func (t *talk) needs() session.Usage {
	return t.priced(session.Usage{Input: t.conv.Tokens(), Estimated: true})
}

// exceeds returns the stop of a conversation whose next request would exceed a limit, or
// that makes no progress. It warns once at 80 % of each limit.
func (t *talk) exceeds() error {
	// plans that are not valid are counted apart
	if why := t.conv.Stuck(); why != "" && t.invalid == 0 && !t.adds(session.MessageResumed) {
		return t.limit(session.ReasonNoProgress, why, session.Then("to let it try on", session.MoveResume, t.short))
	}
	if head := t.head(); !t.adds(session.MessageMore) && head.Requests-head.Base >= t.p.MaxTurns {
		return t.limit(session.ReasonMaxTurns, fmt.Sprintf("the model has used its %d turns and has not finished", t.p.MaxTurns),
			session.Then("to allow as many turns again", session.MoveResume, t.short))
	}
	for _, m := range t.measures() {
		switch amount := amountOf(m.reason); {
		case m.limit == 0:
		case m.used+m.open+m.next > m.limit:
			why := fmt.Sprintf("the session has used %s of %s %s, and the next request needs about %s", amount(m.used), amount(m.limit), m.name, amount(m.next))
			if m.open > 0 {
				why += fmt.Sprintf(" beside %s for others", amount(m.open))
			}
			return t.limit(m.reason, why, session.Then("to allow more", m.more, t.short))
		case m.used*5 >= m.limit*4:
			t.warn(m.reason, fmt.Sprintf("the session has used %s of %s %s", amount(m.used), amount(m.limit), m.name))
		}
	}
	return nil
}

// amountOf returns how a number of a limit is written.
func amountOf(r session.Reason) func(int64) string {
	if r == session.ReasonBudget {
		return func(n int64) string { return fmt.Sprintf("%d.%04d", n/1e6, n%1e6/1e2) }
	}
	return func(n int64) string { return fmt.Sprint(n) }
}

// warn warns once about a limit.
func (t *talk) warn(about session.Reason, text string) {
	if !t.warned[about] {
		t.warned[about] = true
		t.tell(session.Notice{Kind: session.NoticeWarning, Text: text})
	}
}

// adds reports whether the next request adds a message of this kind.
func (t *talk) adds(kind string) bool {
	return slices.ContainsFunc(t.notes, func(n session.MessageAddedData) bool { return n.Kind == kind })
}

func (t *talk) limit(reason session.Reason, why string, next session.Hint) error {
	return &stop{to: session.Paused, reason: reason, code: session.ErrLimit, detail: t.it.ID.String() + ": " + why + "; all its work is kept", next: next}
}
