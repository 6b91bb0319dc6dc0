// Package arch checks how the code is laid out. Its rules cover imports, the clock,
// package-level state, doc comments, prose and texts that name a command line. Each rule
// is a function from sources to breaches, so a test can try it on a planted breach.
//
// To add a package, add its line to Packages. To add a module, add its line to Modules.
package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Module is the path of this module.
const Module = "github.com/acode-dev/acode"

// File is one parsed Go file.
type File struct {
	// Path is relative to the root of the module and separated by slashes.
	Path string
	// Dir is the file's folder; "." is the root.
	Dir string
	// Test reports whether the name ends in _test.go.
	Test bool
	AST  *ast.File
}

// Tree holds the Go files of a module, for all operating systems.
type Tree struct {
	Fset  *token.FileSet
	Files []*File
}

// Breach is a place that breaks a rule.
type Breach struct {
	// Place is file:line:column, or a folder.
	Place string
	// Message says which rule is broken and how to fix it.
	Message string
}

// String returns the place and the message.
func (b Breach) String() string { return b.Place + ": " + b.Message }

// Load parses every Go file below root. It skips test data, hidden folders and nested
// modules.
func Load(root string) (*Tree, error) {
	t := &Tree{Fset: token.NewFileSet()}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return enter(root, name, d.Name())
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		return t.add(filepath.ToSlash(rel), source)
	})
	if err != nil {
		return nil, fmt.Errorf("load sources: %w", err)
	}
	return t, nil
}

// enter returns fs.SkipDir for a folder that does not belong to the module.
func enter(root, name, base string) error {
	if name == root {
		return nil
	}
	if base == "testdata" || base == "vendor" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return fs.SkipDir
	}
	if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

// Parse makes a tree from sources by path.
func Parse(sources map[string]string) (*Tree, error) {
	t := &Tree{Fset: token.NewFileSet()}
	for _, name := range sortedKeys(sources) {
		if err := t.add(name, []byte(sources[name])); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *Tree) add(name string, source []byte) error {
	f, err := parser.ParseFile(t.Fset, name, source, parser.ParseComments)
	if err != nil {
		return fmt.Errorf("parse: %w", err)
	}
	t.Files = append(t.Files, &File{Path: name, Dir: path.Dir(name), Test: strings.HasSuffix(name, "_test.go"), AST: f})
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// code returns the files that are not tests.
func (t *Tree) code() []*File {
	return slices.DeleteFunc(slices.Clone(t.Files), func(f *File) bool { return f.Test })
}

// packages groups the files that are not tests by folder.
func (t *Tree) packages() map[string][]*File {
	m := map[string][]*File{}
	for _, f := range t.code() {
		m[f.Dir] = append(m[f.Dir], f)
	}
	return m
}

func (t *Tree) breach(at token.Pos, format string, args ...any) Breach {
	return Breach{Place: t.Fset.Position(at).String(), Message: fmt.Sprintf(format, args...)}
}

// eachText calls see for each string in the code of f.
func (f *File) eachText(see func(at token.Pos, text string)) {
	ast.Inspect(f.AST, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				see(lit.Pos(), text)
			}
		}
		return true
	})
}

// below reports whether dir is folder or is inside it.
func below(dir, folder string) bool { return dir == folder || strings.HasPrefix(dir, folder+"/") }
