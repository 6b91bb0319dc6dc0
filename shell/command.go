package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// simple follows a command, or assignments without a command.
func (r *reader) simple(c *syntax.CallExpr) {
	if len(c.Args) == 0 {
		r.assigns(c.Assigns, false)
		return
	}
	r.words(c.Args)
	args := literals(c.Args)
	// the assignments are for the command alone
	r.apart(func() {
		r.assigns(c.Assigns, false)
		r.inside(args)
	})
	r.effects(args[0], args[1:])
}

// assigns follows assignments, including those of export, local and similar commands. A
// name that is exported without a value counts as read, because commands are meant to
// see it.
func (r *reader) assigns(list []*syntax.Assign, local bool) {
	for _, a := range list {
		r.value(a)
		// an option, or the result of an expansion
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

// value reads the value of an assignment.
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

// inside follows the texts that a command passes to a shell.
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

// text follows a text within the text. A text that cannot be parsed reads no variable.
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

// effects records the variables that a command reads or sets by its arguments.
func (r *reader) effects(name string, args []string) {
	switch name {
	case "read":
		r.input(args)
	case "printenv", "export", "readonly", "local", "declare", "typeset":
		// when text is read as POSIX, the last five are ordinary commands
		for _, a := range args {
			r.read(a)
		}
	case "envsubst":
		// its argument is a text that contains the names to replace
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

// input assigns the names in the arguments of read.
func (r *reader) input(args []string) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		if len(a) < 2 || a[0] != '-' {
			r.assign(a)
			continue
		}
		// options with a value of their own; the value of -a is a name
		const valued = "dinNptu"
		if last := a[len(a)-1:]; strings.Contains(valued, last) && !strings.ContainsAny(a[1:len(a)-1], valued) {
			i++
		}
	}
}

// unknown stands for a word whose text is known only when it is executed.
const unknown = "\x00"

// literals returns the texts of words.
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

// literal returns the text of a word without its quotes. It returns false if the word has
// expansions.
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

// unescaped removes each backslash before a byte of only. If only is empty, it removes
// every backslash that another byte follows.
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
