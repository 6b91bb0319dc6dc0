package main

import (
	"cmp"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// change is one change of files. becomes is what content or replacement stands for once
// captures are filled in; empty means that very text.
type change struct {
	op                         string
	path, content, becomes     string
	mode                       fs.FileMode
	old, replacement, from, to string
	all                        bool
}

// file is what a path of the workspace holds.
type file struct {
	mode fs.FileMode
	data string
}

// tree is a workspace: files by slash-separated path.
type tree map[string]file

// states gives the workspace before the first step and after each one.
func (p plan) states() []tree {
	all := []tree{p.before}
	for _, s := range p.steps {
		all = append(all, s.after(all[len(all)-1]))
	}
	return all
}

// after gives what the step makes of a workspace.
func (s step) after(t tree) tree {
	next := maps.Clone(t)
	for _, c := range slices.Concat(s.changes, s.does) {
		c.apply(next)
	}
	return next
}

// paths gives the paths that a change is about.
func (c change) paths() []string {
	var names []string
	for _, name := range []string{c.path, c.from, c.to} {
		if name != "" {
			names = append(names, path.Clean(name))
		}
	}
	return names
}

func (c change) apply(t tree) {
	c.path, c.from, c.to = path.Clean(c.path), path.Clean(c.from), path.Clean(c.to)
	switch c.op {
	case "write":
		f := file{mode: 0o644, data: cmp.Or(c.becomes, c.content)}
		if old, ok := t[c.path]; ok {
			f.mode = old.mode
		}
		if c.mode != 0 {
			f.mode = c.mode
		}
		t[c.path] = f
	case "append":
		f := t[c.path]
		f.data += c.content
		t[c.path] = f
	case "chmod":
		t[c.path] = file{mode: c.mode, data: t[c.path].data}
	case "edit":
		f := t[c.path]
		f.data = strings.ReplaceAll(f.data, c.old, cmp.Or(c.becomes, c.replacement))
		t[c.path] = f
	case "delete":
		delete(t, c.path)
	case "move":
		t[c.to] = t[c.from]
		delete(t, c.from)
	}
}

// folders gives the directories that the plan leaves: nothing removes one, not even within a
// command.
func (p plan) folders() []string {
	states := p.states()
	all := p.before.folders()
	for i, s := range p.steps {
		all = append(all, states[i+1].folders()...)
		t := maps.Clone(states[i])
		for _, c := range s.does {
			c.apply(t)
			all = append(all, t.folders()...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// folders gives the directories that hold the files of t.
func (t tree) folders() []string {
	seen := map[string]bool{}
	for name := range t {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			seen[dir] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}
