package arch

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// doors are the folders whose texts are read by people who type: only they know how a
// move is typed. Scaffolding types commands too.
func doors() []string { return []string{"cli", "cmd", "internal", "bench"} }

var typed = regexp.MustCompile(`\bacode(-sync)? (run|resume|status|session|approve|deny|verify|check|sync|syncer|admin|metrics|config|schema|exit-codes|supervise)\b|(^|[ (=])--[a-z][a-z-]*|(^|[ (])-C\b`)

// Arguments lists the texts that Commands lets pass, by file and by how they begin: the
// name under which acode starts itself, and options of other programs.
func Arguments() map[string][]string {
	return map[string][]string{
		// the supervisor's name in the lock that it holds
		"app/supervise.go": {"acode supervise"},
		// the flag that sets a key: a door looks for it there
		"config/key.go": {"--"},
		// unshare
		"process/process_linux.go": {"--mount-proc"},
		// curl
		"redact/vendor.go": {"--user"},
		// bash
		"shell/text.go": {"--"},
		// git
		"workspace/git.go": {"--"},
	}
}

// Commands finds texts outside the doors that name a command or an option of acode's
// command line: an error carries a hint there, and each door says it in its own words.
// Tests are exempt. An entry of allowed that no text needs is a breach too.
func Commands(t *Tree, allowed map[string][]string) []Breach {
	var out []Breach
	used := map[string]bool{}
	for _, f := range t.code() {
		if slices.ContainsFunc(doors(), func(d string) bool { return below(f.Dir, d) }) {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				return true
			}
			for _, found := range typed.FindAllString(text, -1) {
				found = strings.TrimLeft(found, " (=")
				exempt := slices.IndexFunc(allowed[f.Path], func(begin string) bool { return strings.HasPrefix(found, begin) })
				if exempt >= 0 {
					used[f.Path+allowed[f.Path][exempt]] = true
					continue
				}
				out = append(out, t.breach(lit.Pos(), "%q names a command line: give a session.Hint, which the doors put into words", found))
			}
			return true
		})
	}
	for _, path := range sortedKeys(allowed) {
		for _, text := range allowed[path] {
			if !used[path+text] {
				out = append(out, Breach{path, text + " is exempt and not used: strike it from Arguments"})
			}
		}
	}
	return out
}
