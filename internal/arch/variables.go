package arch

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// Variables finds package variables that can change:
//   - a variable without a value
//   - a variable of a type that exists to change
//   - a variable that a file of the package assigns, changes an element of, or passes by
//     address
//   - such changes of variables of other packages
//
// Errors, patterns, tables, embedded files and assertions of interfaces remain. Tests are
// exempt.
func Variables(t *Tree) []Breach {
	var out []Breach
	pkgs := t.packages()
	for _, dir := range sortedKeys(pkgs) {
		vars := map[string]bool{}
		for _, f := range pkgs[dir] {
			out = append(out, t.declarations(f.AST, vars)...)
		}
		for _, f := range pkgs[dir] {
			out = append(out, t.changes(f.AST, vars)...)
		}
	}
	return out
}

// declarations judges the declarations of the package variables of f and adds their names
// to vars.
func (t *Tree) declarations(f *ast.File, vars map[string]bool) []Breach {
	var out []Breach
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, spec := range g.Specs {
			s := spec.(*ast.ValueSpec)
			for _, id := range s.Names {
				vars[id.Name] = id.Name != "_"
			}
			switch {
			case len(s.Values) == 0 && !embedded(g.Doc) && !embedded(s.Doc):
				out = append(out, t.breach(s.Pos(), "package variable %s has no value, so it exists to be changed: pass it, or keep it in a struct", s.Names[0].Name))
			case changeable(s):
				out = append(out, t.breach(s.Pos(), "package variable %s is of a type that exists to change: keep it in a struct", s.Names[0].Name))
			}
		}
	}
	return out
}

func embedded(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed ") })
}

// changeable reports whether s uses sync, sync/atomic or a channel outside a function. A
// sync.OnceValue is a table that is computed late, so it is allowed.
func changeable(s *ast.ValueSpec) bool {
	found := false
	see := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ChanType:
			found = true
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			late := strings.HasPrefix(n.Sel.Name, "OnceValue")
			found = found || ok && (x.Name == "atomic" || x.Name == "sync" && !late)
		}
		return true
	}
	if s.Type != nil {
		ast.Inspect(s.Type, see)
	}
	for _, v := range s.Values {
		ast.Inspect(v, see)
	}
	return found
}

// changes finds the places where f changes a variable of its package, named in vars, or
// of another package.
func (t *Tree) changes(f *ast.File, vars map[string]bool) []Breach {
	var out []Breach
	imported := map[string]bool{}
	for _, spec := range f.Imports {
		imported[localName(spec)] = true
	}
	target := func(how string, e ast.Expr) {
		id := root(e)
		switch {
		case id == nil || !packageLevel(f, id):
		case vars[id.Name]:
			out = append(out, t.breach(e.Pos(), "package variable %s is %s here: pass it, or keep it in a struct", id.Name, how))
		case imported[id.Name]:
			out = append(out, t.breach(e.Pos(), "a variable of package %s is %s here: all importers share it", id.Name, how))
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, e := range n.Lhs {
					target("assigned", e)
				}
			}
		case *ast.IncDecStmt:
			target("assigned", n.X)
		case *ast.RangeStmt:
			if n.Tok == token.ASSIGN {
				target("assigned", n.Key)
				target("assigned", n.Value)
			}
		case *ast.CallExpr:
			if changing(n) {
				target("changed", n.Args[0])
			}
			for _, e := range handedOut(n) {
				target("handed out by address", e)
			}
		}
		return true
	})
	return out
}

// handedOut lists the arguments that a call passes by address to a method or to another
// package, as flags and decoders take them. Functions of the package itself are checked
// on their own.
func handedOut(call *ast.CallExpr) []ast.Expr {
	if _, ok := call.Fun.(*ast.SelectorExpr); !ok {
		return nil
	}
	var out []ast.Expr
	for _, arg := range call.Args {
		if u, ok := arg.(*ast.UnaryExpr); ok && u.Op == token.AND {
			out = append(out, u.X)
		}
	}
	return out
}

// changing reports whether a call changes its first argument in place.
func changing(call *ast.CallExpr) bool {
	if len(call.Args) == 0 {
		return false
	}
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return slices.Contains([]string{"delete", "clear", "copy"}, f.Name)
	case *ast.SelectorExpr:
		x, ok := f.X.(*ast.Ident)
		if !ok || x.Name != "slices" && x.Name != "sort" {
			return false
		}
		return slices.Contains([]string{"Sort", "SortFunc", "SortStableFunc", "Reverse", "Slice", "SliceStable", "Strings", "Ints"}, f.Sel.Name)
	}
	return false
}

// root returns the name at the left of x.f[i], *x and the like, or nil.
func root(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// packageLevel reports whether id refers to a package-level declaration, in this file or
// in another one.
func packageLevel(f *ast.File, id *ast.Ident) bool {
	return id.Obj == nil || f.Scope.Lookup(id.Name) == id.Obj
}
