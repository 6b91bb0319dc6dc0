package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxNested is the depth to which texts within texts are read: those of eval, trap and
// sh -c.
const maxNested = 8

// reader follows a text in the order in which it is executed.
type reader struct {
	// names that are read before they have a value
	reads map[string]bool
	// names that have a value at this place
	set    *layer
	nested int
}

// layer holds names that certainly have a value. A part that may not be executed, or
// whose assignments are lost, has its own layer above.
type layer struct {
	below *layer
	names map[string]bool
}

func (l *layer) has(name string) bool {
	for ; l != nil; l = l.below {
		if l.names[name] {
			return true
		}
	}
	return false
}

func (r *reader) read(name string) {
	if variable(name) && !r.set.has(name) {
		r.reads[name] = true
	}
}

func (r *reader) assign(name string) {
	if variable(name) {
		r.set.names[name] = true
	}
}

// variable tells names of variables from positions and special parameters.
func variable(name string) bool { return syntax.ValidName(name) && name != "_" }

// apart follows a part whose assignments do not count after it. It returns the names
// that the part assigned.
func (r *reader) apart(follow func()) map[string]bool {
	r.set = &layer{below: r.set, names: map[string]bool{}}
	follow()
	names := r.set.names
	r.set = r.set.below
	return names
}

func (r *reader) stmts(list []*syntax.Stmt) {
	for _, s := range list {
		r.stmt(s)
	}
}

func (r *reader) stmt(s *syntax.Stmt) {
	if s == nil {
		return
	}
	if s.Background || s.Coprocess {
		r.apart(func() { r.command(s) })
		return
	}
	r.command(s)
}

func (r *reader) command(s *syntax.Stmt) {
	for _, redir := range s.Redirs {
		r.word(redir.Word)
		r.word(redir.Hdoc)
		// {fd}>file
		if redir.N != nil {
			r.assign(strings.Trim(redir.N.Value, "{}"))
		}
	}
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		r.simple(c)
	case *syntax.DeclClause:
		r.assigns(c.Args, c.Variant.Value == "local")
	case *syntax.Block:
		r.stmts(c.Stmts)
	case *syntax.Subshell:
		r.apart(func() { r.stmts(c.Stmts) })
	case *syntax.BinaryCmd:
		r.binary(c)
	case *syntax.IfClause:
		r.either(c)
	case *syntax.WhileClause:
		r.stmts(c.Cond)
		r.apart(func() { r.stmts(c.Do) })
	case *syntax.ForClause:
		r.loop(c)
	case *syntax.CaseClause:
		r.cases(c)
	case *syntax.ArithmCmd:
		r.arithm(c.X)
	case *syntax.LetClause:
		for _, x := range c.Exprs {
			r.arithm(x)
		}
	case *syntax.TestClause:
		r.test(c.X)
	case *syntax.TimeClause:
		r.stmt(c.Stmt)
	case *syntax.CoprocClause:
		r.apart(func() { r.stmt(c.Stmt) })
	case *syntax.FuncDecl:
		// it may be called anywhere after this, or never
		r.apart(func() { r.stmt(c.Body) })
	}
}

func (r *reader) binary(c *syntax.BinaryCmd) {
	// each side is a subshell
	if c.Op == syntax.Pipe || c.Op == syntax.PipeAll {
		r.apart(func() { r.stmt(c.X) })
	} else {
		r.stmt(c.X)
	}
	r.apart(func() { r.stmt(c.Y) })
}

// either follows an if. A name that each branch assigns has a value after it.
func (r *reader) either(c *syntax.IfClause) {
	r.stmts(c.Cond)
	then := r.apart(func() { r.stmts(c.Then) })
	if c.Else == nil {
		return
	}
	other := r.apart(func() {
		// elif
		if c.Else.ThenPos.IsValid() {
			r.either(c.Else)
		} else {
			r.stmts(c.Else.Then)
		}
	})
	for name := range then {
		if other[name] {
			r.set.names[name] = true
		}
	}
}

func (r *reader) loop(c *syntax.ForClause) {
	switch l := c.Loop.(type) {
	case *syntax.WordIter:
		r.words(l.Items)
		r.apart(func() {
			r.assign(l.Name.Value)
			r.stmts(c.Do)
		})
	case *syntax.CStyleLoop:
		r.arithm(l.Init)
		r.arithm(l.Cond)
		r.apart(func() {
			r.stmts(c.Do)
			r.arithm(l.Post)
		})
	}
}

func (r *reader) cases(c *syntax.CaseClause) {
	r.word(c.Word)
	for _, item := range c.Items {
		r.words(item.Patterns)
		r.apart(func() { r.stmts(item.Stmts) })
	}
}

func (r *reader) words(list []*syntax.Word) {
	for _, w := range list {
		r.word(w)
	}
}

func (r *reader) word(w *syntax.Word) {
	if w != nil {
		r.parts(w.Parts)
	}
}

func (r *reader) parts(list []syntax.WordPart) {
	for _, p := range list {
		switch p := p.(type) {
		case *syntax.DblQuoted:
			r.parts(p.Parts)
		case *syntax.ParamExp:
			r.param(p)
		case *syntax.CmdSubst:
			r.apart(func() { r.stmts(p.Stmts) })
		case *syntax.ProcSubst:
			r.apart(func() { r.stmts(p.Stmts) })
		case *syntax.ArithmExp:
			r.arithm(p.X)
		}
	}
}

func (r *reader) param(p *syntax.ParamExp) {
	// ${!PREFIX*} lists names and reads none of them
	if p.Param != nil && p.Names == 0 {
		r.read(p.Param.Value)
	}
	r.arithm(p.Index)
	if p.Slice != nil {
		r.arithm(p.Slice.Offset)
		r.arithm(p.Slice.Length)
	}
	if p.Repl != nil {
		r.word(p.Repl.Orig)
		r.word(p.Repl.With)
	}
	if p.Exp != nil {
		// the word may not be needed
		r.apart(func() { r.word(p.Exp.Word) })
	}
}

// arithm follows an expression, in which a name without $ is a variable.
func (r *reader) arithm(x syntax.ArithmExpr) {
	switch x := x.(type) {
	case *syntax.Word:
		r.word(x)
		r.read(x.Lit())
	case *syntax.ParenArithm:
		r.arithm(x.X)
	case *syntax.UnaryArithm:
		r.arithm(x.X)
	case *syntax.BinaryArithm:
		r.binaryArithm(x)
	}
}

func (r *reader) binaryArithm(x *syntax.BinaryArithm) {
	name := ""
	if w, ok := x.X.(*syntax.Word); ok && x.Op == syntax.Assgn {
		name = w.Lit()
	}
	if name == "" {
		r.arithm(x.X)
	}
	switch x.Op {
	case syntax.AndArit, syntax.OrArit, syntax.TernQuest, syntax.TernColon:
		r.apart(func() { r.arithm(x.Y) })
	default:
		r.arithm(x.Y)
	}
	r.assign(name)
}

func (r *reader) test(x syntax.TestExpr) {
	switch x := x.(type) {
	case *syntax.Word:
		r.word(x)
	case *syntax.ParenTest:
		r.test(x.X)
	case *syntax.UnaryTest:
		r.test(x.X)
		if w, ok := x.X.(*syntax.Word); ok && (x.Op == syntax.TsVarSet || x.Op == syntax.TsRefVar) {
			name, _ := literal(w)
			r.read(name)
		}
	case *syntax.BinaryTest:
		r.test(x.X)
		r.test(x.Y)
	}
}
