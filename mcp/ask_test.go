package mcp_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/acode-dev/acode/internal/caller"
	"github.com/acode-dev/acode/mcp"
	"github.com/acode-dev/acode/session"
)

// questions are the messages of a server that asks, and the answer of the client.
type questions struct {
	mu     sync.Mutex
	asked  []string
	answer map[string]any
}

// connectAsked starts a server that may ask, and a client that answers each question.
func connectAsked(t *testing.T, o mcp.Options, answer map[string]any) (guest, *questions) {
	t.Helper()
	q := &questions{answer: answer}
	g := newGuest(t.Context(), t, o)
	g.Answer("elicitation/create", func(m caller.Message) any {
		var p struct{ Message string }
		if err := json.Unmarshal(m.Params, &p); err != nil {
			t.Error(err)
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		q.asked = append(q.asked, p.Message)
		return q.answer
	})
	if err := g.HelloWith("asking", map[string]any{"elicitation": map[string]any{}}); err != nil {
		t.Fatal(err)
	}
	return g, q
}

var accepted = map[string]any{"action": "accept", "content": map[string]any{"approve": true}}

// A call that needs a yes is denied where the user does not allow questions, or the
// client cannot ask. The hint has the next step of a person.
func TestAskedCallIsDenied(t *testing.T) {
	for name, elicits := range map[string]bool{"not_allowed": false, "client_cannot": true} {
		t.Run(name, func(t *testing.T) {
			h := newHouse()
			h.asks = 1
			o := h.options(t)
			o.Elicits = elicits
			var g guest
			q := &questions{}
			if elicits {
				g = connect(t, o)
			} else {
				g, q = connectAsked(t, o, accepted)
			}
			r := g.want("denied", "run_command", ls).Structured
			if r.Code != string(session.ErrApproval) || !strings.Contains(r.Hint, "approve") || len(h.effects()) != 0 || len(q.asked)+len(h.answers) != 0 {
				t.Errorf("got %+v after %d questions and %d answers; effects %v", r, len(q.asked), len(h.answers), h.effects())
			}
			g.want("done", "run_command", ls) // the house says yes now
		})
	}
}

// Where the user allows it, the person at the client sees exactly what would run, and the
// record says that nothing proves a person.
func TestAskedThroughTheClient(t *testing.T) {
	for name, c := range map[string]struct {
		answer  map[string]any
		outcome string
		answers int
	}{
		"yes":       {accepted, "done", 1},
		"no":        {map[string]any{"action": "decline"}, "denied", 1},
		"false":     {map[string]any{"action": "accept", "content": map[string]any{"approve": false}}, "denied", 1},
		"cancelled": {map[string]any{"action": "cancel"}, "denied", 0},
		"empty":     {map[string]any{"action": "accept"}, "denied", 0},
		"text":      {map[string]any{"action": "accept", "content": map[string]any{"approve": "yes"}}, "denied", 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse()
			h.asks = 3
			o := h.options(t)
			o.Elicits = true
			g, q := connectAsked(t, o, c.answer)
			g.want(c.outcome, "run_command", ls)
			if len(q.asked) != 1 || !strings.Contains(q.asked[0], "run_command") || !strings.Contains(q.asked[0], "\n  ls") {
				t.Errorf("the questions: %q", q.asked)
			}
			if len(h.answers) != c.answers || c.answers > 0 && (h.answers[0].By != "through asking, not proven to be a person" || h.answers[0].Granted != (name == "yes")) {
				t.Errorf("the answers: %+v", h.answers)
			}
			if got := len(h.effects()); got != map[bool]int{true: 1, false: 0}[name == "yes"] {
				t.Errorf("effects: %v", h.effects())
			}
		})
	}
}
