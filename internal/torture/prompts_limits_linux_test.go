package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/acode-dev/acode/internal/crash"
)

// usedQuery adds up all attempts of requests. The tokens and the cost are those of the
// requests that were answered or cut off.
const usedQuery = `SELECT sum(type = 'ModelAsked'), sum(type IN ('ModelAnswered', 'ModelFailed')),
	coalesce(sum(coalesce(json_extract(payload, '$.usage.input'), 0) + coalesce(json_extract(payload, '$.usage.output'), 0)), 0),
	coalesce(sum(json_extract(payload, '$.usage.cost_micros')), 0), coalesce(sum(json_extract(payload, '$.usage.output')), 0) FROM events WHERE type IN ('ModelAsked', 'ModelAnswered', 'ModelFailed')`

// used is what the journal says that a session has used.
type used struct{ asked, ended, tokens, cost, output int64 }

// Sessions are killed at requests and replies, resumed, and reach a limit exactly. No
// request is made beyond it. acode says that the sum of all attempts is used, also of
// those that were cut off.
func TestLimitsOverKills(t *testing.T) {
	h := testHarness(t)
	kills := []spot{{}}
	for _, s := range append(requestSpots(), replySpots()...) {
		for _, at := range []string{"before request 1 of Part b", "after request 1 of Part a", "after the second piece of reply 2 of Tidy up the shop", "before the end of reply 1 of Part c"} {
			if strings.HasPrefix(s.String(), at) {
				kills = append(kills, s)
			}
		}
	}
	if len(kills) != 5 {
		t.Fatalf("got %d places to kill, want 5", len(kills))
	}
	for _, limit := range []string{"turns: 9", "tokens: 6500", "tokens: 9000", "cost: 19.50", "cost: 27.00"} {
		name, text, _ := strings.Cut(limit, ": ")
		for i, at := range kills {
			if i > 0 && (limit == "tokens: 6500" || limit == "cost: 19.50") {
				continue // only two of three first requests fit
			}
			t.Run(fmt.Sprintf("%s_%s_%d", name, text, i), func(t *testing.T) {
				at.victim = []crash.Victim{crash.VictimGroup, crash.VictimBoth}[i%2]
				p, err := h.newPrompt("limit", at)
				must(t, err)
				t.Cleanup(func() { _ = os.RemoveAll(p.Root) })
				p.limits, p.pause = limit, 5
				must(t, p.run(t.Context()))
				if p.Bad() || (p.Killed > 0) != (i > 0) {
					t.Fatalf("%d kills: %s\n%s", p.Killed, p.Outcome, p.said.String())
				}
				limitWrong(t, p, name, text)
			})
		}
	}
}

// limitWrong checks a session that has reached a limit.
func limitWrong(t *testing.T, p *promptTrial, name, text string) {
	t.Helper()
	// While several tasks ask, the estimates of open requests count. The rest may be
	// enough for one more request when none is open.
	for before, tries := -1, 0; tries < 5; tries++ {
		all, err := p.requests()
		must(t, err)
		if len(all) == before {
			break
		}
		before = len(all)
		_ = p.Program(t.Context(), []string{p.Acode, "resume"}).Run() // it stops at the limit again
	}
	out, err := p.Query(t.Context(), usedQuery)
	must(t, err)
	var u used
	if _, err := fmt.Sscan(out, &u.asked, &u.ended, &u.tokens, &u.cost, &u.output); err != nil {
		t.Fatalf("read %q: %v", out, err)
	}
	all, err := p.requests()
	must(t, err)
	is, says := u.asked, fmt.Sprintf("the session has used %d of %s turns", u.asked, text)
	var most int64
	switch name {
	case "turns":
		_, err = fmt.Sscan(text, &most)
	case "tokens":
		is, says = u.tokens-u.output, fmt.Sprintf("the session has used %d of %s tokens", u.tokens, text)
		_, err = fmt.Sscan(text, &most) // no estimate has the output of a reply that is cut off
	case "cost":
		is, says = u.cost, fmt.Sprintf("the session has used %d.%04d of %s00 of its budget", u.cost/1e6, u.cost%1e6/1e2, text)
		var units float64
		_, err = fmt.Sscan(text, &units)
		most = int64(units * 1e6)
	}
	must(t, err)
	if is > most || name == "turns" && is != most {
		t.Errorf("the session has used %d, and the limit is %d", is, most)
	}
	if u.asked != u.ended || int64(len(all)) > u.asked {
		t.Errorf("%d requests were intended, %d have an end, and the model got %d", u.asked, u.ended, len(all))
	}
	asked := len(all)
	said, err := p.Program(t.Context(), []string{p.Acode, "resume"}).CombinedOutput()
	if err == nil || !strings.Contains(string(said), says) {
		t.Errorf("a resume without more: %v, want %q: %s", err, says, lastLines(string(said)))
	}
	if all, err = p.requests(); err != nil || len(all) != asked {
		t.Errorf("a resume without more made %d requests: %v", len(all)-asked, err)
	}
}
