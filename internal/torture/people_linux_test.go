package main

import (
	"slices"
	"strings"
	"testing"
)

// sampledScenarios is the number of scenarios of each kind in a test.
const sampledScenarios = 3

// NFR-005, NFR-008, NFR-010: after any actions of people, each effect happens once, and
// following acode's advice leads to the end of the plan.
func TestWhatPeopleDoEndsAsComputed(t *testing.T) { endsAsComputed(t, byPeople()) }

// The same holds if the machine shuts down meanwhile, and a torn capture does not count
// as whole.
func TestShutdownsEndAsComputed(t *testing.T) { endsAsComputed(t, shutdowns()) }

// A cancel leaves no step open and drops no result.
func TestCancelsEndAsComputed(t *testing.T) { endsAsComputed(t, cancels()) }

func endsAsComputed(t *testing.T, k kind) {
	h := testHarness(t)
	r, err := h.scenarios(t.Context(), k, 1, sampledScenarios)
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

// Scenarios find bugs that a check of the end alone would not find: here a question that
// counts as answered.
func TestPeopleFindAPlantedBug(t *testing.T) {
	h := testHarness(t)
	bugs := peopleBugs()
	b := bugs[slices.IndexFunc(bugs, func(b bug) bool { return b.name == "an open question counts as done" })]
	program, err := b.build(t.Context(), h.scratch)
	must(t, err)
	found, err := h.find(t.Context(), b.judges[0], program)
	must(t, err)
	if !strings.Contains(found, b.shows) {
		t.Errorf("%s: got %q, want %q in it", b.name, found, b.shows)
	}
}
