package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// simple follows a command, or assignments that stand alone.
func (r *reader) simple(c *syntax.CallExpr) {
	if len(c.Args) == 0 {
		r.assigns(c.Assigns)
		return
	}
	r.words(c.Args)
	r.apart(func() { // they are for the command alone
		r.assigns(c.Assigns)
		if args := literals(c.Args); args[0] != nil {
			r.inside(args)
		}
	})
	if args := literals(c.Args); args[0] != nil {
		r.effects(args, c.Args)
	}
}

func (r *reader) assigns(list []*syntax.Assign) {
	for _, a := range list {
		r.value(a)
		if a.Name == nil {
			continue
		}
		if a.Append {
			r.read(a.Name.Value)
		}
		r.assign(a.Name.Value)
	}
}

// value reads what is assigned.
func (r *reader) value(a *syntax.Assign) {
	r.arithm(a.Index)
	r.word(a.Value)
	if a.Array != nil {
		for _, e := range a.Array.Elems {
			r.arithm(e.Index)
			r.word(e.Value)
		}
	}
}

// declare follows export, local and their like. A name without a value that is exported is one that
// commands are meant to see, so it counts as read.
func (r *reader) declare(variant string, args []*syntax.Assign) {
	for _, a := range args {
		r.value(a)
		switch {
		case a.Name == nil: // an option, or what an expansion gives
		case !a.Naked, variant == "local":
			if a.Append {
				r.read(a.Name.Value)
			}
			r.assign(a.Name.Value)
		default:
			r.read(a.Name.Value)
		}
	}
}

// inside follows the texts that a command hands to a shell.
func (r *reader) inside(args []*string) {
	switch *args[0] {
	case "eval":
		if text := prefix(args[1:]); len(text) == len(args)-1 {
			r.text(strings.Join(text, " "))
		}
	case "trap":
		if len(args) > 1 && args[1] != nil {
			r.text(*args[1])
		}
	}
	for i, a := range args {
		if a == nil || !known(*a) {
			continue
		}
		if text, ok := scriptOf(prefix(args[i+1:])); ok {
			r.text(text)
			return
		}
	}
}

// prefix gives the arguments up to the first one that is known only when the text runs.
func prefix(args []*string) (out []string) {
	for _, a := range args {
		if a == nil {
			break
		}
		out = append(out, *a)
	}
	return out
}

// text follows a text within the text. One that cannot be parsed reads nothing.
func (r *reader) text(text string) {
	if r.nested == maxNested {
		return
	}
	f, err := parse(text)
	if err != nil {
		return
	}
	r.nested++
	r.file(f)
	r.nested--
}

// effects follows what a command does to the variables of this shell.
func (r *reader) effects(args []*string, words []*syntax.Word) {
	name := *args[0]
	if r.functions[name] != nil {
		r.call(name)
		return
	}
	switch name {
	case "return":
		r.leave()
	case "read":
		r.assignArgs(args[1:], "dinNptu", "a")
	case "mapfile", "readarray":
		r.assignArgs(args[1:], "dnOsuCc", "")
	case "unset":
		r.assignArgs(args[1:], "", "")
	case "getopts":
		if len(args) > 2 && args[2] != nil {
			r.assign(*args[2])
		}
		r.assign("OPTARG")
		r.assign("OPTIND")
	case "printf":
		if len(args) > 2 && args[1] != nil && *args[1] == "-v" && args[2] != nil {
			r.assign(*args[2])
		}
	case "printenv":
		for _, a := range args[1:] {
			if a != nil {
				r.read(*a)
			}
		}
	case "envsubst": // it is given the text in which it is to replace names
		for _, a := range args[1:] {
			if a != nil {
				r.text(": " + *a)
			}
		}
	case "test", "[":
		for i, a := range args[1:] {
			if a != nil && *a == "-v" && i+2 < len(args) && args[i+2] != nil {
				r.read(*args[i+2])
			}
		}
	case "export", "readonly", "local", "declare", "typeset": // where they are commands like others
		for _, w := range words[1:] {
			r.declared(name, w)
		}
	}
}

// declared follows NAME or NAME=VALUE, whose expansions have been followed already.
func (r *reader) declared(variant string, w *syntax.Word) {
	if len(w.Parts) == 0 {
		return
	}
	first, ok := w.Parts[0].(*syntax.Lit)
	if !ok {
		return
	}
	switch name, _, valued := strings.Cut(first.Value, "="); {
	case valued || variant == "local":
		r.assign(name)
	default:
		r.read(name)
	}
}

// assignArgs gives the names among args a value. Each letter of valued is an option with a value of
// its own, each of naming one whose value is a name.
func (r *reader) assignArgs(args []*string, valued, naming string) {
	for i := 0; i < len(args); i++ {
		if args[i] == nil {
			continue
		}
		a := *args[i]
		if len(a) < 2 || a[0] != '-' {
			r.assign(a)
			continue
		}
		if strings.IndexByte(valued, a[len(a)-1]) >= 0 && !strings.ContainsAny(a[1:len(a)-1], valued) {
			i++
		} else if strings.IndexByte(naming, a[len(a)-1]) >= 0 && i+1 < len(args) && args[i+1] != nil {
			i++
			r.assign(*args[i])
		}
	}
}

// literals gives the words whose text is known; nil for others.
func literals(words []*syntax.Word) []*string {
	out := make([]*string, len(words))
	for i, w := range words {
		if text, ok := literal(w); ok {
			out[i] = &text
		}
	}
	return out
}

// literal gives the text of a word without expansions, its quotes removed.
func literal(w *syntax.Word) (string, bool) {
	var b strings.Builder
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			b.WriteString(unescaped(p.Value, ""))
		case *syntax.SglQuoted:
			if p.Dollar && strings.Contains(p.Value, `\`) {
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, q := range p.Parts {
				lit, ok := q.(*syntax.Lit)
				if !ok {
					return "", false
				}
				b.WriteString(unescaped(lit.Value, "$`\"\\\n"))
			}
		default:
			return "", false
		}
	}
	return b.String(), true
}

// unescaped removes each backslash before one of only, or before anything when only is empty.
func unescaped(s, only string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && (only == "" || strings.IndexByte(only, s[i+1]) >= 0) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
