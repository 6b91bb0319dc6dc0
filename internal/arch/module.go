package arch

import (
	"go/ast"
	"slices"
	"strings"
)

// GoMod finds directives of a go.mod that break "go install ...@latest".
func GoMod(text string) []Breach {
	var out []Breach
	for _, line := range strings.Split(text, "\n") {
		word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if word == "replace" || word == "exclude" {
			out = append(out, Breach{"go.mod", word + " breaks go install for other modules: choose versions that need none"})
		}
	}
	return out
}

// Required returns the version of module that a go.mod requires, or "".
func Required(text, module string) string {
	for _, line := range strings.Split(text, "\n") {
		words := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(words) >= 2 && words[0] == module {
			return words[1]
		}
	}
	return ""
}

// Libc finds a modernc.org/libc whose version is not the one that modernc.org/sqlite was
// generated for. ours and theirs are the texts of the two go.mod files.
func Libc(ours, theirs string) []Breach {
	const libc = "modernc.org/libc"
	have, want := Required(ours, libc), Required(theirs, libc)
	if have == "" || have != want {
		return []Breach{{"go.mod", libc + " is " + have + ", and modernc.org/sqlite was generated for " + want + ": require exactly that"}}
	}
	return nil
}

// Templates finds packages that link text/template or html/template and are not in users.
// imports holds the imports of each package of the program.
func Templates(imports map[string][]string, users []string) []Breach {
	var out []Breach
	for _, p := range sortedKeys(imports) {
		uses := slices.Contains(imports[p], "text/template") || slices.Contains(imports[p], "html/template")
		if uses && !slices.ContainsFunc(users, func(u string) bool { return below(p, u) }) {
			out = append(out, Breach{p, "imports text/template, which keeps the linker from dropping unused methods: find another library"})
		}
	}
	return out
}

// TemplateCalls finds calls that make cobra execute a template. Tests are exempt.
func TemplateCalls(t *Tree) []Breach {
	banned := []string{"SetUsageTemplate", "SetHelpTemplate", "SetVersionTemplate"}
	var out []Breach
	for _, f := range t.code() {
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains(banned, s.Sel.Name) {
				out = append(out, t.breach(s.Pos(), "%s links text/template: use the function form", s.Sel.Name))
			}
			return true
		})
	}
	return out
}
