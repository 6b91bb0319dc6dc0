package model

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// drawnChanges is the most changes of a group.
const drawnChanges = 5

// anyPath draws one of a few paths, so that steps share paths. No file has the name of a
// directory.
func (d *draw) anyPath() string {
	dir := d.Pick("", "alpha/", "alpha/", "alpha/beta/", "beta gamma/", "ünter/de/ep/")
	return d.own() + dir + d.Pick("a.txt", "a.txt", "b.txt", "c.bin", "[x]*.md", "it's", "-dash", ".hidden", strings.Repeat("long", 60))
}

// somePath draws an existing file except the bystander.
func (d *draw) somePath(t Tree) (string, bool) {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(t)), func(s string) bool { return s == Bystander || !strings.HasPrefix(s, d.own()) })
	if len(names) == 0 {
		return "", false
	}
	return d.Pick(names...), true
}

func (d *draw) mode() fs.FileMode {
	return []fs.FileMode{0o644, 0o644, 0o600, 0o755, 0o640, 0o444, 0o777}[d.IntN(7)]
}

// single draws a step of one change.
func (d *draw) single(string) (Step, bool) {
	cs, ok := d.changes(1)
	return Step{Changes: cs}, ok
}

// group draws a step of several changes. Each builds on the result of the previous ones,
// and many use the same few paths.
func (d *draw) group(string) (Step, bool) {
	var cs []Change
	ok := true
	switch d.IntN(4) {
	case 0:
		cs, ok = d.rotation()
	default:
		cs, ok = d.changes(2 + d.IntN(drawnChanges-1))
	}
	return Step{Changes: cs}, ok
}

// changes draws n consecutive changes.
func (d *draw) changes(n int) ([]Change, bool) {
	t := maps.Clone(d.now)
	var cs []Change
	// last is the path of the previous change.
	var last string
	for len(cs) < n {
		c, ok := d.change(t, last)
		if !ok {
			return nil, false
		}
		c.apply(t)
		cs = append(cs, d.respell(c))
		if last = c.path; c.op == "move" {
			last = c.to
		}
	}
	return cs, true
}

// respell sometimes writes the paths of a change in another way.
func (d *draw) respell(c Change) Change {
	for _, name := range []*string{&c.path, &c.from, &c.to} {
		if *name != "" && d.One(8) {
			*name = "./" + strings.Replace(*name, "/", d.Pick("//", "/./"), 1)
		}
	}
	return c
}

// change draws a change of t, often of the files of the previous change.
func (d *draw) change(t Tree, last string) (Change, bool) {
	there, ok := d.somePath(t)
	if _, held := t[last]; held && d.One(2) {
		there = last
	}
	anywhere := d.anyPath()
	if last != "" && d.One(3) {
		anywhere = last
	}
	if !ok || d.One(3) {
		return d.write(anywhere), true
	}
	switch d.IntN(4) {
	case 0:
		return Change{op: "delete", path: there}, true
	case 1:
		return d.edit(t, there)
	}
	if d.One(2) {
		// The moved file replaces this one.
		anywhere, _ = d.somePath(t)
	}
	return Change{op: "move", from: there, to: anywhere}, there != anywhere
}

// rotation draws moves of files to each other's places through a free name: a swap, or a
// longer chain.
func (d *draw) rotation() ([]Change, bool) {
	const free = "alpha/on its way"
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(d.now)), func(s string) bool { return s == Bystander || !strings.HasPrefix(s, d.own()) })
	if len(names) < 2 {
		return nil, false
	}
	d.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	names = names[:min(len(names), 2+d.IntN(drawnChanges-2))]
	cs := []Change{{op: "move", from: names[0], to: free}}
	for i := range names[1:] {
		cs = append(cs, Change{op: "move", from: names[i+1], to: names[i]})
	}
	return append(cs, Change{op: "move", from: free, to: names[len(names)-1]}), true
}

func (d *draw) write(name string) Change {
	c := Change{op: "write", path: name}
	if d.One(2) {
		c.mode = d.mode()
	}
	if c.content = d.text(); d.One(2) {
		c.content, c.becomes = d.filled(c.content)
	}
	return c
}

// drawnBytes is the most bytes of a file after an edit.
const drawnBytes = 16 << 20

// edit draws a text of the file to replace.
func (d *draw) edit(t Tree, name string) (Change, bool) {
	data := t[name].Data
	for range 20 {
		if len(data) == 0 {
			break
		}
		from := d.IntN(len(data))
		old := data[from:min(len(data), from+1+d.IntN(40))]
		all := d.One(2)
		if !utf8.ValidString(old) || !all && occurrences(data, old) != 1 {
			continue
		}
		c := Change{op: "edit", path: name, old: old, all: all, replacement: d.Pick("", "x", "a longer text\r\n", old)}
		if d.One(3) || strings.Contains(old, "${") {
			c.replacement, c.becomes = d.filled("filled ")
		}
		if all && strings.Count(data, old)*max(len(c.replacement), len(c.becomes)) > drawnBytes {
			// The result is too large for an edit, as with a capture at every letter.
			continue
		}
		return c, true
	}
	return Change{}, false
}

// occurrences counts the places where old begins, also within another match.
func occurrences(data, old string) int {
	n := 0
	for i := range data {
		if strings.HasPrefix(data[i:], old) {
			n++
		}
	}
	return n
}

// text draws the content of a file.
func (d *draw) text() string {
	if name, ok := d.somePath(d.now); ok && d.One(5) && utf8.ValidString(d.now[name].Data) {
		// The content equals another file's.
		return strings.ReplaceAll(d.now[name].Data, "${", "{")
	}
	switch d.IntN(9) {
	case 0:
		return ""
	case 1:
		return "first line\r\nsecond line\r\n"
	case 2:
		return "\x00\x01\x7f\u0085\u2028\ufeff\x1b[0m\ttab\n"
	case 3:
		return filler(d.Pick("large", "wide"))[:largeBytes-1+d.IntN(3)]
	case 4:
		return filler("huge") + filler("bulk")
	case 5:
		return "password: correct-horse-battery\nkey: ghp_16C7e42F292c6912E7710c838347Ae178B4a\n"
	case 6:
		return "no newline at the end"
	}
	return strings.Repeat(d.Pick("quokka ", "ünïcödé ", "line 1\n", "- {a: 'b'} # \"c\"\n"), 1+d.IntN(9))
}

// filled adds references to content. becomes is the content with their values.
func (d *draw) filled(content string) (written, becomes string) {
	written, becomes = content+"<", content+"<"
	visible := d.visible()
	for _, name := range []string{"RELEASE_NAME", "OTHER", "NOBODY"} {
		value, ok := visible[name]
		if !ok {
			value = "${" + name + "}"
		}
		switch d.IntN(3) {
		case 0:
			written, becomes = written+"${"+name+"} ", becomes+value+" "
		case 1:
			written, becomes = written+"$${"+name+"} ", becomes+"${"+name+"} "
		}
	}
	return written + "${", becomes + "${"
}
