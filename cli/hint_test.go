package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/acode-dev/acode/session"
)

// Every move has a row, and every row has a move.
func TestEveryMoveIsTyped(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "../session/hint.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := map[session.Move]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Move") {
			return true
		}
		name, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		declared[session.Move(name)] = true
		if got := new(Invocation).Spell(session.Do(session.Move(name), "")); len(strings.Fields(got)) < 1 || got == "acode" {
			t.Errorf("Spell(%s): got %q, want what is typed", name, got)
		}
		return true
	})
	for m := range moves() {
		if !declared[m] {
			t.Errorf("moves: got a row of %s, which is no move", m)
		}
	}
	if len(declared) < 20 {
		t.Errorf("moves: got %d, want all of session/hint.go", len(declared))
	}
}

// A command copied from a hint repeats the flags that were typed, where that command
// takes them.
func TestSpellRepeatsTypedFlags(t *testing.T) {
	i := &Invocation{globals: globals{config: "my config.yml", allow: []string{"/"}}}
	for want, h := range map[string]session.Hint{
		"make room, then": session.Words("make room, then"),
		"make room, then: acode --config 'my config.yml' --allow-workspace / resume 7k2m":                                   session.Then("make room, then", session.MoveResume, "7k2m"),
		"acode --config 'my config.yml' --allow-workspace / resume 7k2m -C 'a b' --on-changes=<continue|abort>":             {Do: session.MoveDecideChanges, Session: "7k2m", Path: "a b"},
		"acode --config 'my config.yml' status 7k2m":                                                                        session.Do(session.MoveStatus, "7k2m"),
		"acode --config 'my config.yml' approve 7k2m && acode --config 'my config.yml' --allow-workspace / resume 7k2m":     session.Do(session.MoveApproveResume, "7k2m"),
		"acode --config 'my config.yml' cancel 7k2m, then acode --config 'my config.yml' --allow-workspace / run 'p 1.yml'": {Do: session.MoveBeginAgain, Session: "7k2m", Path: "p 1.yml"},
		"acode admin migrate": session.Do(session.MoveMigrate, ""),
	} {
		if got := i.Spell(h); got != want {
			t.Errorf("Spell: got %q, want %q", got, want)
		}
	}
}
