package shell

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// MaxParts is how many parts of a command are looked at.
const MaxParts = 50

// Part is one program that a command starts, or a redirection or an assignment without a
// program.
type Part struct {
	Words     []Word
	Redirects []Redirect
	// Assigns are the names of variables that the part sets.
	Assigns []string
	// Shell says that a shell runs the part, so the name may be that of a builtin.
	Shell bool
	// Script says that the part runs a text, whose parts follow this one.
	Script bool
}

// Word is a word of a command after its quotes are removed.
type Word struct {
	// Text is the whole word if Exact is set. Otherwise each word that stands here in the
	// end begins with Text, which may be empty.
	Text  string
	Exact bool
}

// Redirect is a redirection. Target has no text for a here-document.
type Redirect struct {
	Op     string
	Target Word
}

// Parts returns everything that an argument vector starts, including the parts of the
// text of a shell such as [/bin/sh, -e, -c, TEXT]. It returns an error if the command has
// a form that may do more than the parts show. They are those that could be seen.
//
// The text is read as POSIX describes, because sh and bash agree on that. Each form in
// which they may differ is an error, or a program of a name such as [[.
func Parts(argv []string) ([]Part, error) {
	p := Part{}
	for _, a := range argv {
		p.Words = append(p.Words, Word{a, true})
	}
	w := &walker{}
	w.add(p)
	return w.parts, w.err
}

// walker collects parts.
type walker struct {
	parts  []Part
	nested int
	// source is the text that is followed.
	source string
	// err is the first reason why the parts do not show everything.
	err error
}

func (w *walker) fail(why string) {
	if w.err == nil {
		w.err = errors.New(why)
	}
}

// add adds a part, and the parts of the text that it runs.
func (w *walker) add(p Part) {
	if len(w.parts) > MaxParts {
		w.fail(fmt.Sprintf("it has more than %d parts", MaxParts))
		return
	}
	text, script := scriptIn(p)
	p.Script = script
	w.parts = append(w.parts, p)
	if script {
		w.text(text)
	}
}

var (
	plainFlag     = regexp.MustCompile(`^-[eu]+$`)
	plainLast     = regexp.MustCompile(`^-[eu]*c$`)
	commentGoesOn = regexp.MustCompile(`#.*\\\r?\n`)
	loopName      = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
)

// scriptIn returns the text that p runs in a plain form: eval with known words, or a
// shell without any option that lets it read more than the text.
func scriptIn(p Part) (string, bool) {
	var args []string
	for _, word := range p.Words {
		if !word.Exact {
			return "", false
		}
		args = append(args, word.Text)
	}
	switch {
	case len(args) < 2:
		return "", false
	case args[0] == "eval" && p.Shell:
		return strings.Join(args[1:], " "), true
	case !slices.Contains([]string{"sh", "bash", "dash"}, path.Base(args[0])):
		return "", false
	}
	for i := 1; i < len(args); i++ {
		switch a := args[i]; {
		case plainLast.MatchString(a):
			return args[len(args)-1], i == len(args)-2
		case a == "-o" && i+1 < len(args) && args[i+1] == "pipefail":
			i++
		case !plainFlag.MatchString(a):
			return "", false
		}
	}
	return "", false
}

// text follows the text of a shell.
func (w *walker) text(text string) {
	if len(text) > MaxBytes || w.nested == maxNested {
		w.fail("it is too long or too deeply nested")
		return
	}
	f, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(text), "")
	if err != nil {
		w.fail("it is no plain shell command")
		return
	}
	// the parser takes the backslash for a continuation, and shells do not
	if commentGoesOn.MatchString(text) {
		w.fail("a line of it has a # and ends with a backslash")
	}
	outer := w.source
	w.nested, w.source = w.nested+1, text
	w.stmts(f.Stmts)
	w.nested, w.source = w.nested-1, outer
}

func (w *walker) stmts(list []*syntax.Stmt) {
	for _, s := range list {
		w.stmt(s)
	}
}

func (w *walker) stmt(s *syntax.Stmt) {
	if s.Background || s.Coprocess || s.Disown {
		w.fail("a part of it runs in the background")
	}
	p := Part{Shell: true, Redirects: w.redirects(s.Redirs)}
	if c, ok := s.Cmd.(*syntax.CallExpr); ok {
		for _, a := range c.Assigns {
			p.Assigns = append(p.Assigns, w.assign(a))
		}
		p.Words = w.words(c.Args)
		w.add(p)
		return
	}
	if len(p.Redirects) > 0 {
		w.add(p)
	}
	w.compound(s.Cmd)
}

// compound follows a command that has others in it.
func (w *walker) compound(c syntax.Command) {
	switch c := c.(type) {
	case nil:
	case *syntax.Block:
		w.stmts(c.Stmts)
	case *syntax.Subshell:
		// bash reads (( as an expression
		if strings.HasPrefix(w.source[c.Lparen.Offset():], "((") {
			w.fail("it has two parentheses in a row")
		}
		w.stmts(c.Stmts)
	case *syntax.BinaryCmd:
		w.stmt(c.X)
		w.stmt(c.Y)
	case *syntax.IfClause:
		for ; c != nil; c = c.Else {
			w.stmts(c.Cond)
			w.stmts(c.Then)
		}
	case *syntax.WhileClause:
		w.stmts(c.Cond)
		w.stmts(c.Do)
	case *syntax.ForClause:
		w.loop(c)
	case *syntax.FuncDecl:
		w.fail("it defines a function")
		w.stmt(c.Body)
	default:
		w.fail("it has a form that is not looked into")
	}
}

func (w *walker) loop(c *syntax.ForClause) {
	words, ok := c.Loop.(*syntax.WordIter)
	switch {
	case !ok || c.Select:
		w.fail("it has a loop that is not looked into")
	case !loopName.MatchString(words.Name.Value):
		w.fail("a loop sets the variable " + words.Name.Value)
	default:
		w.words(words.Items)
	}
	w.stmts(c.Do)
}

func (w *walker) assign(a *syntax.Assign) string {
	w.word(a.Value)
	if a.Name == nil || a.Index != nil || a.Array != nil {
		w.fail("it sets an array")
		return ""
	}
	return a.Name.Value
}

func (w *walker) redirects(list []*syntax.Redirect) (out []Redirect) {
	for _, r := range list {
		target := w.word(r.Word)
		if r.Op == syntax.Hdoc || r.Op == syntax.DashHdoc {
			w.document(r, target)
			target = Word{"", true}
		}
		out = append(out, Redirect{r.Op.String(), target})
	}
	return out
}

// document follows a here-document. Shells differ in where a document ends that has an
// unusual end, or a backslash in front of a line.
func (w *walker) document(r *syntax.Redirect, end Word) {
	odd := r.Op != syntax.Hdoc || !syntax.ValidName(end.Text)
	if r.Hdoc != nil {
		body := w.source[r.Hdoc.Pos().Offset():r.Hdoc.End().Offset()]
		odd = odd || r.Word.Lit() == end.Text && (strings.Contains(body, `\`) || strings.Contains(body, "$["))
		for _, p := range r.Hdoc.Parts {
			if _, ok := p.(*syntax.Lit); !ok {
				w.expansion(p)
			}
		}
	}
	if odd {
		w.fail("it has a here-document of an unusual form")
	}
}

func (w *walker) words(list []*syntax.Word) (out []Word) {
	for _, word := range list {
		out = append(out, w.word(word))
	}
	return out
}

// word returns the text of a word, and follows the commands in it.
func (w *walker) word(word *syntax.Word) Word {
	if word == nil {
		return Word{"", true}
	}
	b := builder{exact: true}
	for i, p := range word.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			b.plain(p.Value, i == 0, i == len(word.Parts)-1)
		case *syntax.SglQuoted:
			b.write(p.Value)
		case *syntax.DblQuoted:
			for j, q := range p.Parts {
				if lit, ok := q.(*syntax.Lit); ok {
					b.quoted(lit.Value, j == len(p.Parts)-1)
				} else {
					w.expansion(q)
					b.unknown = true
				}
			}
		default:
			w.expansion(p)
			b.unknown = true
		}
	}
	if b.odd {
		w.fail("it has a dollar sign that shells read differently")
	}
	if b.unknown {
		return Word{}
	}
	return Word{b.String(), b.exact}
}

// expansion follows an expansion. Only that of a variable as it is, and that of a
// command, are known to set nothing.
func (w *walker) expansion(p syntax.WordPart) {
	switch p := p.(type) {
	case *syntax.CmdSubst:
		if p.Backquotes {
			w.fail("it has backquotes")
		}
		w.stmts(p.Stmts)
	case *syntax.ParamExp:
		signs := uint(len("${}"))
		if p.Short {
			signs = 1
		}
		if p.Param == nil || p.End().Offset()-p.Pos().Offset() != signs+uint(len(p.Param.Value)) {
			w.fail("it has an expansion that may do more than read a variable")
		}
	default:
		w.fail("it has an expansion that may do more than read a variable")
	}
}

// builder makes the text of a word up to the place where it is known only at run time.
type builder struct {
	strings.Builder
	// exact is false after that place; unknown says that not even the start is known.
	exact, unknown bool
	// odd says that bash gives the text another meaning: $'...', $"..." or $[...].
	odd bool
}

func (b *builder) write(s string) {
	if b.exact {
		b.WriteString(s)
	}
}

// plain adds text without quotes, up to a pattern or a brace.
func (b *builder) plain(s string, first, last bool) {
	if first && strings.HasPrefix(s, "~") {
		b.unknown = true
	}
	if at := strings.IndexByte(s, '$'); at >= 0 && !(last && at == len(s)-1) {
		b.odd = true
	}
	if first && last && (s == "{}" || s == "[") {
		b.write(s)
		return
	}
	for i := 0; i < len(s); i++ {
		if strings.IndexByte("*?[{", s[i]) >= 0 {
			b.exact = false
		}
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.write(s[i : i+1])
	}
}

// quoted adds text between double quotes.
func (b *builder) quoted(s string, last bool) {
	if strings.Contains(strings.TrimSuffix(s, "$"), "$[") || strings.HasSuffix(s, "$") && !last {
		b.odd = true
	}
	b.write(unescaped(s, "$`\"\\\n"))
}
