// Package arch holds the rules of how the code is laid out, as tests: who imports whom,
// who reads the clock, what lives at package level, what is documented, who names a
// command line. Each rule is a function from sources to breaches, so that it can be tried
// on a planted breach.
//
// To add a package, add its line to Packages; to add a module, its line to Modules.
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
	"strings"
)

// Module is the path of this module.
const Module = "github.com/acode-dev/acode"

// File is one parsed Go file.
type File struct {
	// slash-separated, relative to the root of the module
	Path string
	// its folder; "." is the root
	Dir string
	// a _test.go file
	Test bool
	AST  *ast.File
}

// Tree is the Go files of a module, whatever system they are built for.
type Tree struct {
	Fset  *token.FileSet
	Files []*File
}

// Breach is a place where a rule does not hold.
type Breach struct {
	// file:line:column, or a folder
	Place string
	// what is wrong and what to do
	Message string
}

// String gives place and message.
func (b Breach) String() string { return b.Place + ": " + b.Message }

// Load parses every Go file below root, without test data, hidden folders and nested
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

// enter decides whether a folder belongs to the module.
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

// Parse makes a tree of sources by path.
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

// code gives the files that are no tests.
func (t *Tree) code() []*File {
	return slices.DeleteFunc(slices.Clone(t.Files), func(f *File) bool { return f.Test })
}

// packages groups the files that are no tests by folder.
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

// below reports whether dir is folder or lies in it.
func below(dir, folder string) bool { return dir == folder || strings.HasPrefix(dir, folder+"/") }
