package arch

import (
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// doors lists the folders whose texts may name a command line. People and agents read the
// texts of cli, mcp and cmd; the others are test scaffolding, which types commands too.
func doors() []string { return []string{"cli", "mcp", "cmd", "internal", "bench"} }

var typed = regexp.MustCompile(`\bacode(-sync)? (run|resume|status|session|approve|deny|verify|check|sync|syncer|admin|metrics|config|schema|exit-codes|supervise)\b|(^|[ (=])--[a-z][a-z-]*|(^|[ (])-C\b`)

// Arguments lists the texts that Commands allows, as prefixes by file. They are the name
// under which acode starts itself, and options of other programs.
func Arguments() map[string][]string {
	return map[string][]string{
		// The supervisor's name in the lock that it holds.
		"app/supervise.go": {"acode supervise"},
		// The flag that sets a key. A door looks for it there.
		"config/key.go": {"--"},
		// Options of git and other programs that are judged.
		"policy/git.go":      {"--", "-C"},
		"policy/programs.go": {"--"},
		// An option of unshare.
		"process/process_linux.go": {"--mount-proc"},
		// An option of curl.
		"redact/vendor.go": {"--user"},
		// An option of bash.
		"shell/text.go": {"--"},
		// An option of git.
		"workspace/git.go": {"--"},
	}
}

// Commands finds texts outside the doors that name a command or an option of acode. An
// error carries a hint there, and each door phrases it. Tests are exempt. An entry of
// allowed that matches no text is a breach too.
func Commands(t *Tree, allowed map[string][]string) []Breach {
	var out []Breach
	used := map[string]bool{}
	for _, f := range t.code() {
		if slices.ContainsFunc(doors(), func(d string) bool { return below(f.Dir, d) }) {
			continue
		}
		f.eachText(func(at token.Pos, text string) {
			for _, found := range typed.FindAllString(text, -1) {
				found = strings.TrimLeft(found, " (=")
				exempt := slices.IndexFunc(allowed[f.Path], func(begin string) bool { return strings.HasPrefix(found, begin) })
				if exempt >= 0 {
					used[f.Path+allowed[f.Path][exempt]] = true
					continue
				}
				out = append(out, t.breach(at, "%q names a command line: use a session.Hint, which the doors phrase", found))
			}
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
