package session_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/acode-dev/acode/session"
)

// FR-029: ParseKey returns the key from which its text was made.
func TestKeyRoundTrip(t *testing.T) {
	name := rapid.StringMatching(`[A-Za-z0-9._-]{1,64}`).Filter(session.ValidName)
	rapid.Check(t, func(t *rapid.T) {
		k := session.Key{
			Session: session.ID(rapid.StringMatching(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`).Draw(t, "session")),
			Step:    session.StepID{Task: name.Draw(t, "task"), Step: name.Draw(t, "step")}, Operation: name.Draw(t, "operation"),
			Attempt: rapid.IntRange(1, 1<<40).Draw(t, "attempt"),
		}
		if k.Operation != session.OpMain && k.Operation != session.OpCheck {
			k.Step.Op = k.Operation
		}
		got, err := session.ParseKey(k.String())
		if err != nil || got != k {
			t.Errorf("ParseKey(%q): got %+v, %v, want %+v", k, got, err, k)
		}
	})
}

// I4: different attempts have different keys.
func TestKeysDiffer(t *testing.T) {
	seen := map[string]bool{}
	for _, task := range []string{"a", "b", "a.b"} {
		for _, step := range []string{"a", "b", "b.a"} {
			for attempt := 1; attempt < 12; attempt++ {
				seen[session.Key{Session: sid, Step: session.StepID{Task: task, Step: step}, Operation: session.OpMain, Attempt: attempt}.String()] = true
			}
		}
	}
	if len(seen) != 99 {
		t.Errorf("keys: got %d different ones, want 99", len(seen))
	}
}

func TestParseKeyRefuses(t *testing.T) {
	for _, s := range []string{
		"", "v1", "v2:s:t/s/main:1", "v1:s:t/s/main", "v1:s:t/s/main:0", "v1:s:t/s/main:-1", "v1:s:t/s/main:01", "v1:s:t/s/main:+1",
		"v1:s:t/s:1", "v1:s:t/s/main/x:1", "v1:s:t//main:1", "v1:s:t/../main:1", "v1:s:./s/main:1", "v1:s:t/s/ma in:1", "v1:s:t/s/main:1:2",
		"v1:s:t/s/main:99999999999999999999", "v1:s:t/" + strings.Repeat("x", 65) + "/main:1",
	} {
		if k, err := session.ParseKey(s); err == nil {
			t.Errorf("ParseKey(%q): got %+v, want an error", s, k)
		}
	}
}

func FuzzParseKey(f *testing.F) {
	f.Add("v1:0190b5a2-7c1e-7000-8000-000000000001:build/make/main:1")
	f.Add("v1:s:t/s/main:01")
	f.Add("v1::a/b/c:2")
	f.Fuzz(func(t *testing.T, s string) {
		k, err := session.ParseKey(s)
		if err == nil && k.String() != s {
			t.Errorf("ParseKey(%q).String: got %q", s, k)
		}
	})
}

func FuzzParseUUID(f *testing.F) {
	f.Add(string(sid))
	f.Add("0190b5a27c1e70008000000000000001")
	f.Fuzz(func(t *testing.T, s string) {
		u, err := session.ParseUUID(s)
		if err != nil {
			return
		}
		back := fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
		if strings.ReplaceAll(back, "-", "") != strings.ToLower(strings.ReplaceAll(s, "-", "")) {
			t.Errorf("ParseUUID(%q): got %s", s, back)
		}
	})
}

func TestParseUUID(t *testing.T) {
	u, err := session.ParseUUID(string(sid))
	if err != nil || u[0] != 1 || u[1] != 0x90 || u[15] != 1 {
		t.Errorf("ParseUUID: got %x, %v", u, err)
	}
	for _, s := range []string{"", "x", strings.ReplaceAll(string(sid), "-", ""), string(sid)[1:], "g" + string(sid)[1:]} {
		if _, err := session.ParseUUID(s); err == nil {
			t.Errorf("ParseUUID(%q): got nil, want an error", s)
		}
	}
}

// drawPlan draws a graph of at most n tasks, with dependencies in any direction.
func drawPlan(t *rapid.T, n int) *session.Plan {
	p := &session.Plan{}
	size := rapid.IntRange(0, n).Draw(t, "tasks")
	for i := range size {
		p.Tasks = append(p.Tasks, session.Task{ID: fmt.Sprint("t", i)})
	}
	for range rapid.IntRange(0, size+2).Draw(t, "edges") {
		if size == 0 {
			break
		}
		i, on := rapid.IntRange(0, size-1).Draw(t, "from"), rapid.IntRange(0, size).Draw(t, "on") // t<size> is unknown
		p.Tasks[i].DependsOn = append(p.Tasks[i].DependsOn, fmt.Sprint("t", on))
	}
	return p
}

// Order agrees with a slow search. The search takes again and again the first task, in
// the plan's own order, whose dependencies are all taken.
func TestOrderOfTasks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t, 8)
		want := bruteOrder(p)
		order, cycle := p.Order()
		if len(want) < len(p.Tasks) {
			if order != nil {
				t.Errorf("Order of a plan with a cycle: got %v", order)
			}
			checkCycle(t, p, cycle)
			return
		}
		if cycle != nil || !slices.Equal(order, want) {
			t.Errorf("Order: got %v, cycle %v, want %v", order, cycle, want)
		}
	})
}

func bruteOrder(p *session.Plan) []int {
	var order []int
	for {
		next := slices.IndexFunc(p.Tasks, func(task session.Task) bool {
			return !contains(p, order, task.ID) && !slices.ContainsFunc(task.DependsOn, func(d string) bool {
				return known(p, d) && !contains(p, order, d)
			})
		})
		if next < 0 {
			return order
		}
		order = append(order, next)
	}
}

func contains(p *session.Plan, order []int, id string) bool {
	return slices.ContainsFunc(order, func(i int) bool { return p.Tasks[i].ID == id })
}

func known(p *session.Plan, id string) bool {
	return slices.ContainsFunc(p.Tasks, func(task session.Task) bool { return task.ID == id })
}

// checkCycle fails unless each task of cycle depends on the next, the first task is
// repeated at the end, and no other task occurs twice.
func checkCycle(t *rapid.T, p *session.Plan, cycle []string) {
	if len(cycle) < 2 || cycle[0] != cycle[len(cycle)-1] {
		t.Fatalf("cycle: got %v, want the first one repeated at the end", cycle)
	}
	seen := map[string]bool{}
	for i, id := range cycle[:len(cycle)-1] {
		at := slices.IndexFunc(p.Tasks, func(task session.Task) bool { return task.ID == id })
		if at < 0 || seen[id] || !slices.Contains(p.Tasks[at].DependsOn, cycle[i+1]) {
			t.Errorf("cycle %v: %s is repeated, unknown or does not depend on %s", cycle, id, cycle[i+1])
		}
		seen[id] = true
	}
}

// Order is fast for a long chain in the opposite order of the plan.
func TestOrderOfALongChain(t *testing.T) {
	const n = 20000
	p := &session.Plan{}
	for i := range n {
		p.Tasks = append(p.Tasks, session.Task{ID: fmt.Sprint(i), DependsOn: []string{fmt.Sprint(i + 1)}})
	}
	order, cycle := p.Order()
	if len(order) != n || order[0] != n-1 || order[n-1] != 0 || cycle != nil {
		t.Errorf("Order of a chain of %d: got %d tasks, cycle %v", n, len(order), cycle)
	}
	p.Tasks[n-1].DependsOn = []string{"0"}
	if _, cycle := p.Order(); len(cycle) != n+1 {
		t.Errorf("Order of a ring of %d: got a cycle of %d, want %d", n, len(cycle), n+1)
	}
}

func TestLabels(t *testing.T) {
	change := func(c session.Change) session.Step {
		return session.Step{Kind: c.Op, Changes: []session.Change{c}}
	}
	for want, s := range map[string]session.Step{
		"Named":                     {Name: "Named", Kind: session.KindRead},
		"Read src/**":               {Kind: session.KindRead, Read: &session.Read{Path: "src/**"}},
		"Search TODO in src":        {Kind: session.KindSearch, Search: &session.Search{Pattern: "TODO", Path: "src"}},
		"Run make all":              {Kind: session.KindRun, Run: &session.Run{Argv: []string{"make", "all"}}},
		"Run a …":                   {Kind: session.KindRun, Run: &session.Run{Shell: "a\nb"}},
		"Deploy?":                   {Kind: session.KindApprove, Approve: "Deploy?\n"},
		"Change 2 files":            {Kind: session.KindChanges, Changes: make([]session.Change, 2)},
		"Write a":                   change(session.Change{Op: session.KindWrite, Path: "a"}),
		"Edit a":                    change(session.Change{Op: session.KindEdit, Path: "a"}),
		"Delete a":                  change(session.Change{Op: session.KindDelete, Path: "a"}),
		"Move a to b":               change(session.Change{Op: session.KindMove, From: "a", To: "b"}),
		string(session.Kind("odd")): {Kind: "odd"},
	} {
		if got := s.Label(); got != want {
			t.Errorf("Label: got %q, want %q", got, want)
		}
	}
}

func TestCommandOfRun(t *testing.T) {
	if got := (session.Run{Shell: "a b"}).Command(); !slices.Equal(got, []string{"/bin/sh", "-e", "-c", "a b"}) {
		t.Errorf("Command of a string: got %v", got)
	}
	if got := (session.Run{Argv: []string{"a b"}}).Command(); !slices.Equal(got, []string{"a b"}) {
		t.Errorf("Command of a list: got %v", got)
	}
	with := []string{"bash", "-c"}
	if got := (session.Run{Shell: "a b", With: with}).Command(); !slices.Equal(got, []string{"bash", "-c", "a b"}) || len(with) != 2 {
		t.Errorf("Command with a shell of its own: got %v", got)
	}
	r := session.Run{Shell: "a", With: with, Dir: "d", Env: map[string]string{"A": "b"}, Timeout: 1, Capture: "C", Check: "c d"}
	want := &session.Run{Argv: []string{"/bin/sh", "-c", "c d"}, Dir: "d", Env: r.Env, Timeout: 1, Volatile: true}
	if diff := cmp.Diff(want, r.Asking()); diff != "" {
		t.Errorf("Asking (-want +got):\n%s", diff)
	}
}

// A digest depends on the whole step. Equal steps have equal digests, and any change
// gives another digest.
func TestStepDigest(t *testing.T) {
	steps := []session.Step{
		{}, {ID: "a"}, {Name: "a"}, {Kind: "a"}, {Read: &session.Read{Path: "a"}}, {Search: &session.Search{Pattern: "a"}}, {Search: &session.Search{Path: "a"}},
		{Changes: []session.Change{{Path: "a"}}}, {Changes: []session.Change{{Content: "a"}}}, {Changes: []session.Change{{Mode: 1}}},
		{Run: &session.Run{Shell: "a"}}, {Run: &session.Run{Argv: []string{"a"}}}, {Run: &session.Run{Dir: "a"}}, {Run: &session.Run{Env: map[string]string{"A": "a"}}},
		{Run: &session.Run{Timeout: 1}}, {Run: &session.Run{Capture: "a"}}, {Run: &session.Run{Check: "a"}}, {Run: &session.Run{OnInterrupt: "a"}}, {Run: &session.Run{Volatile: true}}, {Run: &session.Run{Exclusive: true}}, {Run: &session.Run{TTY: true}}, {Run: &session.Run{With: []string{"a"}}},
		{Approve: "a"},
	}
	seen := map[string]bool{}
	for _, s := range steps {
		first, again := s.Digest(), s.Digest()
		if len(first) != 64 || first != again {
			t.Errorf("Digest: got %q, then %q", first, again)
		}
		seen[s.Digest()] = true
	}
	if len(seen) != len(steps) {
		t.Errorf("digests: got %d different ones, want %d", len(seen), len(steps))
	}
}

// A step waits for a step that works on one of its paths. No step runs beside an
// exclusive command.
func TestWaitsFor(t *testing.T) {
	write := session.Step{Kind: session.KindChanges, Changes: []session.Change{{Op: session.KindWrite, Path: "a"}}}
	move := session.Step{Kind: session.KindChanges, Changes: []session.Change{{Op: session.KindMove, From: "b", To: "a"}}}
	other := session.Step{Kind: session.KindChanges, Changes: []session.Change{{Op: session.KindDelete, Path: "c"}}}
	run := session.Step{Kind: session.KindRun, Run: &session.Run{Shell: "x"}}
	alone := session.Step{Kind: session.KindRun, Run: &session.Run{Shell: "x", Exclusive: true}}
	gate := session.Step{Kind: session.KindApprove, Approve: "Go?"}
	for name, c := range map[string]struct {
		a, b session.Step
		want string
	}{
		"one path":            {write, move, "both change a"},
		"different paths":     {write, other, ""},
		"commands":            {run, run, ""},
		"exclusive beside":    {write, alone, "no other step runs beside an exclusive command"},
		"exclusive and gates": {alone, gate, ""},
	} {
		if got, back := c.a.WaitsFor(&c.b), c.b.WaitsFor(&c.a); got != c.want || back != c.want {
			t.Errorf("%s: WaitsFor: got %q and %q, want %q", name, got, back, c.want)
		}
	}
}

func TestPlanSteps(t *testing.T) {
	p := &session.Plan{Tasks: []session.Task{{Steps: make([]session.Step, 2)}, {}, {Steps: make([]session.Step, 3)}}}
	if got := p.Steps(); got != 5 {
		t.Errorf("Steps: got %d, want 5", got)
	}
}

// All yields every step once, in the order of the plan. The steps are the plan's own.
func TestAllSteps(t *testing.T) {
	p := &session.Plan{Tasks: []session.Task{{ID: "a", Steps: []session.Step{{ID: "x"}, {ID: "y"}}}, {ID: "b"}, {ID: "c", Steps: []session.Step{{ID: "x"}}}}}
	var got []string
	for id, step := range p.All() {
		got = append(got, id.String())
		step.Approve = id.String()
	}
	if want := []string{"a/x", "a/y", "c/x"}; !slices.Equal(got, want) || p.Steps() != len(want) || p.Tasks[2].Steps[0].Approve != "c/x" {
		t.Errorf("All: got %q in %+v, want %q", got, p, want)
	}
	for id := range p.All() {
		if id.Step != "x" {
			t.Errorf("All: continues to %s after a break", id)
		}
		break
	}
}
