package main

import (
	"fmt"
	"slices"
	"testing"
)

// sampledScenarios is how many scenarios a test carries out.
const sampledScenarios = 12

// NFR-005, NFR-008, NFR-010: whatever people do with a session, each effect happens once, and going on
// as acode proposes ends where the plan says.
func TestWhatPeopleDoEndsAsComputed(t *testing.T) {
	h := testHarness(t)
	r, err := h.scenarios(t.Context(), 1, sampledScenarios)
	if err == nil {
		err = h.table([]row{r})
	}
	if err != nil {
		t.Error(err)
	}
	if r.points != sampledScenarios || r.kills == 0 {
		t.Errorf("scenarios: got %d with %d kills, want %d with some", r.points, r.kills, sampledScenarios)
	}
}

// A scenario is the same each time but for the instants that nobody counts.
func TestScenariosAreDrawnAlike(t *testing.T) {
	h := &harness{seed: 1}
	for n := 1; n <= 20; n++ {
		one, other := h.drawnScenario(n), h.drawnScenario(n)
		if one.file() != other.file() || !slices.EqualFunc(one.acts, other.acts, func(a, b act) bool { return a.String() == b.String() }) {
			t.Errorf("scenario %d is another each time", n)
		}
	}
}

// What is typed next stands in what acode says.
func TestProposals(t *testing.T) {
	tests := map[string]string{
		"acode resume w2y35b":                                      "[[resume w2y35b]]",
		"acode approve w2y35b && acode resume w2y35b":              "[[approve w2y35b] [resume w2y35b]]",
		"start one with: acode run --plan FILE":                    "[[run --plan FILE]]",
		"look, then: acode resume w2y35b " + truthful:              "[[resume w2y35b " + truthful + "]]",
		"acode resume w2y35b -C DIR, where DIR is where it is now": "[[resume w2y35b -C DIR]]",
		"look at the disk":                                         "[]",
	}
	for text, want := range tests {
		if got := fmt.Sprint(proposals(text)); got != want {
			t.Errorf("proposals(%q): got %s, want %s", text, got, want)
		}
	}
	if got, want := words(`-C '/a b'\''c'/d -x`), []string{"-C", "/a b'c/d", "-x"}; !slices.Equal(got, want) {
		t.Errorf("words: got %q, want %q", got, want)
	}
}
