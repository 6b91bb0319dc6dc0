package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"

	"github.com/acode-dev/acode/internal/crash"
)

// moreKills is the most kills after the first one.
const moreKills = 3

// series is a kind of kill.
type series struct {
	name   string
	victim crash.Victim
	// roles are the roles whose calls count.
	roles []string
}

// allSeries returns the rows of the table.
func allSeries() []series {
	supervised := []string{crash.RoleSupervisor, crash.RoleCommand}
	return []series{
		{"acode alone", crash.VictimSelf, []string{crash.RoleAcode}},
		{"acode's process group", crash.VictimGroup, []string{crash.RoleAcode}},
		{"the supervisor alone", crash.VictimSupervisor, supervised},
		{"acode and supervisor", crash.VictimBoth, supervised},
	}
}

// survey holds the calls of an undisturbed session by process and role.
type survey []map[string][]crash.Call

// look runs the plan undisturbed. It returns an error if this goes wrong.
func (h *harness) look(ctx context.Context) (survey, error) {
	s, t, err := h.undisturbed(ctx)
	if err == nil && (t.Bad() || t.Killed > 0) {
		err = fmt.Errorf("undisturbed run: %s\n%s", t.Outcome, t.printed.String())
	}
	return s, err
}

// undisturbed runs the plan and returns all calls.
func (h *harness) undisturbed(ctx context.Context) (survey, *trial, error) {
	var calls []crash.Call
	t, err := h.trial(ctx, "survey", nil, func(c crash.Call) { calls = append(calls, c) })
	if err != nil {
		return nil, nil, fmt.Errorf("undisturbed run: %w", err)
	}
	s := make(survey, len(t.ended))
	for i := range s {
		s[i] = map[string][]crash.Call{}
	}
	for _, c := range calls {
		if c.N > 0 {
			by := s[c.Run-1]
			by[c.Role] = append(by[c.Role], c)
		}
	}
	for _, by := range s {
		for _, list := range by {
			slices.SortFunc(list, func(a, b crash.Call) int { return a.N - b.N })
		}
	}
	return s, t, nil
}

// total counts the calls of a role.
func (s survey) total(role string) int {
	n := 0
	for _, by := range s {
		n += len(by[role])
	}
	return n
}

// sectorBytes is the unit of a disk. No kernel and no disk cuts a write within a sector.
const sectorBytes = 512

// cuttable reports whether a kill can come inside a call: in the middle of a write that
// spans sectors, or during any other call.
func cuttable(c crash.Call) bool {
	return c.Kind != crash.KindWrite || c.Offset/sectorBytes != (c.Offset+c.Length-1)/sectorBytes
}

// points returns the first kills of a series: before and after each call, and inside each
// call that can be cut. Of a long row of similar calls, such as the filling of a new log,
// it takes only the ends and some between. Two series with the same calls share the
// points, unless all is true.
func (s survey) points(sr series, share int, all bool, rng *rand.Rand) []kill {
	var kills []kill
	for process, by := range s {
		for _, role := range sr.roles {
			for _, c := range thin(by[role], rng) {
				for i, when := range []crash.When{crash.Before, crash.After, crash.Inside} {
					if when == crash.Inside && !cuttable(c) || !all && (c.N+i)%2 != share {
						continue
					}
					kills = append(kills, kill{process: process, point: crash.Point{Role: role, N: c.N, When: when, Victim: sr.victim}})
				}
			}
		}
	}
	return kills
}

// rowKept is the most calls kept of a row of similar calls.
const rowKept = 6

func thin(calls []crash.Call, rng *rand.Rand) []crash.Call {
	var kept []crash.Call
	for len(calls) > 0 {
		n := 1
		for n < len(calls) && alike(calls[n], calls[0]) {
			n++
		}
		row := calls[:n]
		calls = calls[n:]
		if n <= rowKept {
			kept = append(kept, row...)
			continue
		}
		chosen := map[int]bool{0: true, n - 1: true}
		for len(chosen) < rowKept {
			chosen[rng.IntN(n)] = true
		}
		for i, c := range row {
			if chosen[i] {
				kept = append(kept, c)
			}
		}
	}
	return kept
}

// alike reports whether two calls do the same to the same file or to neighbours.
func alike(a, b crash.Call) bool {
	return a.Name == b.Name && path.Dir(a.Path) == path.Dir(b.Path) && (a.Path == b.Path || a.Kind == crash.KindMkdir)
}

// schedule adds kills of later processes to a first one.
func (sr series) schedule(first kill, rng *rand.Rand) []kill {
	// A resume makes about this many calls.
	const resumeCalls = 160
	kills := []kill{first}
	for i := range moreKills {
		roles := []string{crash.RoleAcode}
		if sr.victim != crash.VictimSelf {
			roles = append(roles, crash.RoleSupervisor, crash.RoleCommand)
		}
		role := roles[rng.IntN(len(roles))]
		most := resumeCalls
		switch role {
		case crash.RoleSupervisor:
			most = resumeCalls / 2
		case crash.RoleCommand:
			most = 4
		}
		when := []crash.When{crash.Before, crash.After}[rng.IntN(2)]
		kills = append(kills, kill{process: first.process + 1 + i, point: crash.Point{Role: role, N: 1 + rng.IntN(most), When: when, Victim: sr.victim}})
	}
	return kills
}

func describe(kills []kill) string {
	var words []string
	for _, k := range kills {
		words = append(words, k.String())
	}
	return strings.Join(words, "; ")
}
