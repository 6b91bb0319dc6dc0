package arch

import (
	"go/ast"
	"slices"
	"strconv"
	"strings"
)

// Layout finds Go files at the root and folders that packages does not list.
func Layout(t *Tree, packages map[string][]string) []Breach {
	var out []Breach
	seen := map[string]bool{}
	for _, f := range t.Files {
		if f.Dir == "." {
			out = append(out, t.breach(f.AST.Package, "the root holds no Go file: move it to the package whose subject it is"))
			continue
		}
		if _, ok := packages[f.Dir]; !ok && !seen[f.Dir] {
			out = append(out, Breach{f.Dir, "is not in the table of packages: add it to arch.Packages with its imports, or move its files"})
		}
		seen[f.Dir] = true
	}
	return out
}

// Imports finds imports of our packages and of modules that the tables do not allow.
// Tests are exempt.
func Imports(t *Tree, packages, modules map[string][]string) []Breach {
	var out []Breach
	for _, f := range t.code() {
		for _, spec := range f.AST.Imports {
			if message := judge(f.Dir, importPath(spec), packages, modules); message != "" {
				out = append(out, t.breach(spec.Pos(), "%s", message))
			}
		}
	}
	return out
}

// Idle finds permissions that the code does not use: a folder without Go files, an import
// that no file of its folder has, and an owner that does not use its module. Tests need
// no permission, and every package may import redact.
func Idle(t *Tree, packages, modules map[string][]string) []Breach {
	// The imports of each folder.
	used := map[string][]string{}
	for _, f := range t.Files {
		list := used[f.Dir]
		if !f.Test {
			for _, spec := range f.AST.Imports {
				list = append(list, importPath(spec))
			}
		}
		used[f.Dir] = list
	}
	var out []Breach
	for _, dir := range sortedKeys(packages) {
		if _, ok := used[dir]; !ok {
			out = append(out, Breach{dir, "is in the table of packages and holds no Go file: take its line out"})
			continue
		}
		for _, ours := range packages[dir] {
			if ours != "redact" && !slices.Contains(used[dir], Module+"/"+ours) {
				out = append(out, Breach{dir, "may import " + ours + " and does not: take that out of the table of packages"})
			}
		}
	}
	for _, module := range sortedKeys(modules) {
		for _, folder := range modules[module] {
			if !imports(used, folder, module) {
				out = append(out, Breach{folder, "may import " + module + " and does not: take that out of the table of modules"})
			}
		}
	}
	return out
}

// imports reports whether a package in folder uses module.
func imports(used map[string][]string, folder, module string) bool {
	for dir, list := range used {
		if below(dir, folder) && slices.ContainsFunc(list, func(imported string) bool { return below(imported, module) }) {
			return true
		}
	}
	return false
}

func importPath(spec *ast.ImportSpec) string {
	p, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		panic("arch: the parser let an import path through: " + spec.Path.Value)
	}
	return p
}

// judge returns the breach of an import, or "" if the import is allowed.
func judge(dir, imported string, packages, modules map[string][]string) string {
	if ours, ok := strings.CutPrefix(imported, Module+"/"); ok {
		return judgeOurs(dir, ours, packages[dir])
	}
	first, _, _ := strings.Cut(imported, "/")
	if !strings.Contains(first, ".") {
		if imported == "text/template" || imported == "html/template" {
			return imported + " keeps the linker from dropping unused methods: write the text by hand"
		}
		return ""
	}
	module := owner(imported, modules)
	if module == "" {
		return imported + " has no owner: add the module to arch.Modules and to docs/dependencies.md, or do without it"
	}
	if !slices.ContainsFunc(modules[module], func(folder string) bool { return below(dir, folder) }) {
		return module + " belongs to " + strings.Join(modules[module], ", ") + ": " + dir + " may not import it"
	}
	return ""
}

func judgeOurs(dir, ours string, allowed []string) string {
	switch {
	case slices.Contains(allowed, ours):
		return ""
	case below(ours, "cmd"):
		return "nothing imports " + ours
	case below(ours, "internal"):
		return ours + " is scaffolding of tests: " + dir + " may not import it"
	case len(allowed) == 0:
		return dir + " is a leaf: it may not import " + ours
	}
	return dir + " may import " + strings.Join(allowed, ", ") + " of ours, not " + ours
}

// owner returns the longest key of modules that contains imported.
func owner(imported string, modules map[string][]string) string {
	best := ""
	for m := range modules {
		if below(imported, m) && len(m) > len(best) {
			best = m
		}
	}
	return best
}
