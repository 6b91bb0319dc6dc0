package model

import (
	"cmp"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// Change is one change of files. becomes is content or replacement with the values of
// captures; empty means the unchanged text.
type Change struct {
	op                         string
	path, content, becomes     string
	mode                       fs.FileMode
	old, replacement, from, to string
	all                        bool
}

// File is the file at a path of the workspace.
type File struct {
	Mode fs.FileMode
	Data string
}

// Tree is a workspace: files by slash-separated path.
type Tree map[string]File

// States returns the workspace before the first step and after each one.
func (p Plan) States() []Tree {
	all := []Tree{p.Before}
	for _, s := range p.Steps {
		all = append(all, s.after(all[len(all)-1]))
	}
	return all
}

// after returns the workspace after the step.
func (s Step) after(t Tree) Tree {
	next := maps.Clone(t)
	for _, c := range slices.Concat(s.Changes, s.Does) {
		c.apply(next)
	}
	return next
}

// Touches returns the files that the step changes.
func (s Step) Touches() []string {
	var names []string
	for _, c := range slices.Concat(s.Changes, s.Does) {
		names = append(names, c.Paths()...)
	}
	return names
}

// Paths returns the paths of a change.
func (c Change) Paths() []string {
	var names []string
	for _, name := range []string{c.path, c.from, c.to} {
		if name != "" {
			names = append(names, path.Clean(name))
		}
	}
	return names
}

func (c Change) apply(t Tree) {
	c.path, c.from, c.to = path.Clean(c.path), path.Clean(c.from), path.Clean(c.to)
	switch c.op {
	case "write":
		f := File{Mode: 0o644, Data: cmp.Or(c.becomes, c.content)}
		if old, ok := t[c.path]; ok {
			f.Mode = old.Mode
		}
		if c.mode != 0 {
			f.Mode = c.mode
		}
		t[c.path] = f
	case "append":
		f := t[c.path]
		f.Data += c.content
		t[c.path] = f
	case "chmod":
		t[c.path] = File{Mode: c.mode, Data: t[c.path].Data}
	case "edit":
		f := t[c.path]
		f.Data = strings.ReplaceAll(f.Data, c.old, cmp.Or(c.becomes, c.replacement))
		t[c.path] = f
	case "delete":
		delete(t, c.path)
	case "move":
		t[c.to] = t[c.from]
		delete(t, c.from)
	}
}

// Folders returns the directories that the plan leaves. No step removes a directory, not
// even within a command.
func (p Plan) Folders() []string {
	states := p.States()
	all := p.Before.folders()
	for i, s := range p.Steps {
		all = append(all, states[i+1].folders()...)
		t := maps.Clone(states[i])
		for _, c := range s.Does {
			c.apply(t)
			all = append(all, t.folders()...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// folders returns the directories that hold the files of t.
func (t Tree) folders() []string {
	seen := map[string]bool{}
	for name := range t {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			seen[dir] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// Has reports whether t holds f under that name; nil means no file.
func (t Tree) Has(name string, f *File) bool {
	want, ok := t[name]
	return ok == (f != nil) && (f == nil || *f == want)
}
