package agent

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/acode-dev/acode/session"
)

// The repetition that stops a conversation.
const (
	mostSame  = 3
	mostStale = 5
)

// progress watches whether a conversation repeats itself.
type progress struct {
	seen map[[32]byte]bool
	// last call with its result, and how often it came in succession
	last  [32]byte
	times int
	// fresh says that the present turn found or changed something new. stale counts the
	// turns in succession before it that did not.
	fresh bool
	stale int
}

// result takes the result of a call. A call that was not carried out is nothing new.
func (p *progress) result(call session.ModelCall, text string, carriedOut bool) {
	sum := sha256.Sum256([]byte(call.Tool + "\x00" + call.Arguments + "\x00" + timeless(text)))
	if p.times++; sum != p.last {
		p.last, p.times = sum, 1
	}
	if p.seen == nil {
		p.seen = map[[32]byte]bool{}
	}
	p.fresh = p.fresh || carriedOut && !p.seen[sum]
	p.seen[sum] = true
}

// timeless returns the result of a command without its duration.
func timeless(text string) string {
	line, rest, _ := strings.Cut(text, "\n")
	line, _, _ = strings.Cut(line, " after ")
	return line + "\n" + rest
}

// turn begins the next turn. first says that there was none before.
func (p *progress) turn(first bool) {
	p.stale = p.staleTurns(first)
	p.fresh = false
}

func (p *progress) staleTurns(first bool) int {
	if first || p.fresh {
		return 0
	}
	return p.stale + 1
}

// resumed gives the conversation another chance.
func (p *progress) resumed() { p.times, p.stale, p.fresh = 0, 0, true }

// Stuck says why the conversation makes no progress; empty if it does.
func (c *Conversation) Stuck() string {
	switch p, first := &c.progress, c.reply == nil; {
	case p.times >= mostSame:
		return fmt.Sprintf("the model made the same call with the same result %d times", p.times)
	case p.staleTurns(first) >= mostStale:
		return fmt.Sprintf("the model changed and read nothing new in %d turns", p.staleTurns(first))
	}
	return ""
}

// Doubtful reports whether one more result can make the conversation Stuck.
func (c *Conversation) Doubtful() bool {
	return c.progress.times >= mostSame-1 || c.progress.stale >= mostStale-1
}

// Tokens estimates the tokens of the next request. It begins with the numbers that the
// provider gave for the last whole reply.
func (c *Conversation) Tokens() int64 {
	n := 0
	if c.known == 0 {
		n += len(c.system())
		for _, t := range c.offers() {
			n += len(t.Name) + len(t.About) + len(t.Schema)
		}
	}
	for _, m := range c.messages[c.counted:] {
		n += len(m.Text)
		for _, call := range m.Calls {
			n += len(call.Arguments)
		}
	}
	return c.known + int64(n)/session.BytesPerToken
}
