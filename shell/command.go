package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// simple follows a command, or assignments that stand alone.
func (r *reader) simple(c *syntax.CallExpr) {
	if len(c.Args) == 0 {
		r.assigns(c.Assigns, false)
		return
	}
	r.words(c.Args)
	args := literals(c.Args)
	// they are for the command alone
	r.apart(func() {
		r.assigns(c.Assigns, false)
		r.inside(args)
	})
	r.effects(args[0], args[1:])
}

// assigns follows assignments, also those of export, local and their like. A name without
// a value that is exported is one that commands are meant to see, so it counts as read.
func (r *reader) assigns(list []*syntax.Assign, local bool) {
	for _, a := range list {
		r.value(a)
		// an option, or what an expansion gives
		if a.Name == nil {
			continue
		}
		naked := a.Naked && !local
		if naked || a.Append {
			r.read(a.Name.Value)
		}
		if !naked {
			r.assign(a.Name.Value)
		}
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

// inside follows the texts that a command hands to a shell.
func (r *reader) inside(args []string) {
	switch {
	case args[0] == "eval" && !slices.Contains(args, unknown):
		r.text(strings.Join(args[1:], " "))
	case args[0] == "trap" && len(args) > 1:
		r.text(args[1])
	}
	if text, ok := Script(args); ok {
		r.text(text)
	}
}

// text follows a text within the text. One that cannot be parsed reads nothing.
func (r *reader) text(text string) {
	if r.nested == maxNested {
		return
	}
	if f, err := parse(text); err == nil {
		r.nested++
		r.stmts(f.Stmts)
		r.nested--
	}
}

// effects follows what a command of the shell's own does to variables.
func (r *reader) effects(name string, args []string) {
	switch name {
	case "read":
		r.input(args)
	case "printenv", "export", "readonly", "local", "declare", "typeset":
		// the last five as POSIX has them
		for _, a := range args {
			r.read(a)
		}
	case "envsubst":
		// it is given the text in which it is to replace names
		for _, a := range args {
			r.text(": " + a)
		}
	case "test", "[":
		for i, a := range args {
			if a == "-v" && i+1 < len(args) {
				r.read(args[i+1])
			}
		}
	}
}

// input gives the names that read is called with a value.
func (r *reader) input(args []string) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		if len(a) < 2 || a[0] != '-' {
			r.assign(a)
			continue
		}
		// options with a value of their own; that of -a is a name
		const valued = "dinNptu"
		if last := a[len(a)-1:]; strings.Contains(valued, last) && !strings.ContainsAny(a[1:len(a)-1], valued) {
			i++
		}
	}
}

// unknown stands for a word whose text is known only when it is executed.
const unknown = "\x00"

// literals gives the texts of words.
func literals(words []*syntax.Word) []string {
	out := make([]string, len(words))
	for i, w := range words {
		text, ok := literal(w)
		if !ok {
			text = unknown
		}
		out[i] = text
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

// unescaped removes each backslash before one of only, or before anything when only is
// empty.
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
