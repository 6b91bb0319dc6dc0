package arch

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Clock finds uses of the wall clock outside cmd, cli and main functions. Other code
// takes a now func() time.Time or uses timers, so that tests set the time. Tests are
// exempt.
func Clock(t *Tree) []Breach {
	banned := []string{"Now", "Since", "Until", "Sleep"}
	var out []Breach
	for _, f := range t.code() {
		if below(f.Dir, "cmd") || below(f.Dir, "cli") {
			continue
		}
		eachUse(f, "time", func(use *ast.SelectorExpr) {
			if slices.Contains(banned, use.Sel.Name) && !f.inMain(use.Pos()) {
				out = append(out, t.breach(use.Pos(), "time.%s is for main functions and doors only: take a now func() time.Time, or use a timer", use.Sel.Name))
			}
		})
	}
	return out
}

// inMain reports whether at lies in the main function of a program.
func (f *File) inMain(at token.Pos) bool {
	return f.AST.Name.Name == "main" && slices.ContainsFunc(f.AST.Decls, func(d ast.Decl) bool {
		main, ok := d.(*ast.FuncDecl)
		return ok && main.Recv == nil && main.Name.Name == "main" && main.Pos() <= at && at < main.End()
	})
}

// eachUse calls see for each use of the standard package imported in f, under any local
// name.
func eachUse(f *File, imported string, see func(*ast.SelectorExpr)) {
	local := ""
	for _, spec := range f.AST.Imports {
		if importPath(spec) == imported {
			local = localName(spec)
		}
	}
	if local == "" {
		return
	}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		if use, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := use.X.(*ast.Ident); ok && x.Name == local && x.Obj == nil {
				see(use)
			}
		}
		return true
	})
}

// localName returns the name that a file uses for an import. It assumes that a package is
// named after the last element of its path.
func localName(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	return path.Base(importPath(spec))
}

// Inits finds init functions, because a package must do nothing before a caller calls it.
// Tests are exempt.
func Inits(t *Tree) []Breach {
	var out []Breach
	for _, f := range t.code() {
		for _, d := range f.AST.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				out = append(out, t.breach(fn.Pos(), "init runs before any caller needs it: make it a function that main calls"))
			}
		}
	}
	return out
}

// Names finds variables named after a package of ours that their file imports. A session
// is s or sess. Tests are exempt.
func Names(t *Tree) []Breach {
	var out []Breach
	for _, f := range t.code() {
		ours := map[string]bool{}
		for _, spec := range f.AST.Imports {
			if strings.HasPrefix(importPath(spec), Module+"/") {
				ours[localName(spec)] = true
			}
		}
		for _, id := range declared(f.AST) {
			if ours[id.Name] {
				out = append(out, t.breach(id.Pos(), "%s is named after the package that this file imports: shorten it", id.Name))
			}
		}
	}
	return out
}

// declared lists the names of the variables that a file declares by var, :=, range, or as
// parameters, results and receivers. Fields of structs and methods of interfaces do not
// count.
func declared(f *ast.File) []*ast.Ident {
	var out []*ast.Ident
	add := func(list ...ast.Expr) {
		for _, e := range list {
			if id, ok := e.(*ast.Ident); ok {
				out = append(out, id)
			}
		}
	}
	fields := func(list *ast.FieldList) {
		if list == nil {
			return
		}
		for _, field := range list.List {
			out = append(out, field.Names...)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			out = append(out, n.Names...)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				add(n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				add(n.Key, n.Value)
			}
		case *ast.FuncDecl:
			fields(n.Recv)
		case *ast.FuncType:
			fields(n.Params)
			fields(n.Results)
		}
		return true
	})
	return out
}

// Docs finds packages and exported declarations without a doc comment. A comment on a
// group covers its constants and variables. Tests are exempt.
func Docs(t *Tree) []Breach {
	var out []Breach
	pkgs := t.packages()
	for _, dir := range sortedKeys(pkgs) {
		if !slices.ContainsFunc(pkgs[dir], func(f *File) bool { return f.AST.Doc != nil }) {
			out = append(out, Breach{dir, "the package has no doc comment: say its purpose, its promise and its boundary"})
		}
		for _, f := range pkgs[dir] {
			out = append(out, t.docs(f.AST)...)
		}
	}
	return out
}

func (t *Tree) docs(f *ast.File) []Breach {
	var out []Breach
	missing := func(id *ast.Ident) {
		out = append(out, t.breach(id.Pos(), "%s is exported and has no doc comment", id.Name))
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && d.Doc == nil && receiverExported(d) {
				missing(d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if id := undocumented(d, spec); id != nil {
					missing(id)
				}
			}
		}
	}
	return out
}

// receiverExported reports whether other packages can use a method. It is true for every
// function.
func receiverExported(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	id := root(d.Recv.List[0].Type)
	return id == nil || id.IsExported()
}

// undocumented returns the first exported name of spec without a doc comment, or nil.
func undocumented(d *ast.GenDecl, spec ast.Spec) *ast.Ident {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		alone := len(d.Specs) == 1 && d.Doc != nil
		if s.Name.IsExported() && s.Doc == nil && !alone {
			return s.Name
		}
	case *ast.ValueSpec:
		if d.Doc != nil || s.Doc != nil || s.Comment != nil {
			return nil
		}
		for _, id := range s.Names {
			if id.IsExported() {
				return id
			}
		}
	}
	return nil
}

// Cited finds invariants of a package comment that no comment of its tests names. "D1 to
// D4" and "F3–F5" name all invariants of the range.
func Cited(t *Tree) []Breach {
	named := regexp.MustCompile(`\b([A-Z])(\d)(?:(?: to |–)[A-Z]?(\d))?\b`)
	// The names that the tests of each folder cite.
	cited := map[string]map[string]bool{}
	for _, f := range t.Files {
		if cited[f.Dir] == nil {
			cited[f.Dir] = map[string]bool{}
		}
		if f.Test {
			for _, c := range f.AST.Comments {
				cite(named.FindAllStringSubmatch(c.Text(), -1), cited[f.Dir])
			}
		}
	}
	var out []Breach
	for _, f := range t.code() {
		for _, name := range invariants(f) {
			if !cited[f.Dir][name] {
				out = append(out, t.breach(f.AST.Doc.Pos(), "no test of %s cites %s: name it where it is shown", f.Dir, name))
			}
		}
	}
	return out
}

var stated = regexp.MustCompile(`(?m)^\s*([A-Z]\d)  `)

// invariants returns the names of the invariants that the package comment in f states.
func invariants(f *File) (names []string) {
	for _, m := range stated.FindAllStringSubmatch(f.AST.Doc.Text(), -1) {
		names = append(names, m[1])
	}
	return names
}

// Letters finds an invariant that shares its letter with another package. A citation
// would then be ambiguous.
func Letters(t *Tree) []Breach {
	owner := map[byte]string{}
	var out []Breach
	for _, f := range t.code() {
		for _, name := range invariants(f) {
			switch dir := owner[name[0]]; dir {
			case "":
				owner[name[0]] = f.Dir
			case f.Dir:
			default:
				out = append(out, t.breach(f.AST.Doc.Pos(), "%s of %s has the letter of %s: choose another", name, f.Dir, dir))
			}
		}
	}
	return out
}

// cite adds the invariants of matches to names. Each match holds a letter, a number, and
// the last number of a range or "".
func cite(matches [][]string, names map[string]bool) {
	for _, m := range matches {
		for n, last := m[2][0], (m[2] + m[3])[len(m[3])]; n <= last; n++ {
			names[m[1]+string(n)] = true
		}
	}
}
