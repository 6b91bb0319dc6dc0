package plan

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"
)

// The bounds of what is handed to the parser, whose cost grows with the square of the depth
// and of the keys in one block mapping, and whose nodes each carry a path of all keys above
// them. A plan nests 8 deep; 100,000 ordinary steps have below 2,000,000 marks.
const (
	maxDepth = 32
	maxMarks = 2_500_000 // characters that may begin or end a token
	maxKeys  = 1000      // in one mapping
	maxKey   = 256       // bytes in one key
	maxTabs  = 1 << 30   // of each, the bytes behind it on its line: the scanner reads them again
)

// marks are the characters without which no second token begins. Counting them bounds the
// number of tokens before the scanner, which keeps some 200 bytes for each, has seen any.
const marks = ",:[]{}-#?&*!|>%\"'"

// scan turns the source into tokens and refuses what a plan does not use, and bombs, while
// the tokens are still cheap.
func scan(src *source) (token.Tokens, error) {
	var (
		s      scanner.Scanner
		tokens token.Tokens
		g      = guard{src: src, reached: position{1, 1}}
	)
	if err := src.checkMarks(); err != nil {
		return nil, err
	}
	if err := src.checkTabs(); err != nil {
		return nil, err
	}
	s.Init(string(src.text))
	for {
		batch, err := s.Scan()
		if errors.Is(err, io.EOF) {
			return tokens, g.end()
		}
		tokens.Add(batch...)
		for _, t := range batch {
			if err := g.see(t); err != nil {
				return nil, err
			}
		}
	}
}

func (s *source) checkMarks() error {
	n := 0
	for at, b := range s.text {
		if strings.IndexByte(marks, b) < 0 {
			continue
		}
		if n++; n > maxMarks {
			return s.fault(s.position(at), fmt.Sprintf("the plan has more than %d parts", maxMarks),
				"split the plan, or keep large contents in files of the workspace")
		}
	}
	return nil
}

func (s *source) checkTabs() error {
	cost, behind := 0, 0
	for at := len(s.text) - 1; at >= 0; at-- {
		switch s.text[at] {
		case '\n':
			behind = 0
		case '\t':
			if cost += behind; cost > maxTabs {
				return s.fault(s.position(at), "the plan has more tabs than can be read in lines of this length",
					"keep large contents in files of the workspace")
			}
		}
		behind++
	}
	return nil
}

// level is one open mapping or sequence: a flow one until its bracket closes, a block one
// until something begins further left.
type level struct {
	column int // of its first token; flow brackets have their own
	flow   *token.Token
	keys   int
}

// syntaxHint is the next step of what is no YAML: the messages of its parser are terse, and nearly
// always it is one of these.
const syntaxHint = `put quotes around text that has ": " in it or begins with a sign; indent with spaces, the keys of a step alike, and text below "run: |" further`

// guard looks at the tokens in order and follows how deep they nest.
type guard struct {
	src     *source
	levels  []level
	flows   int // open flow brackets among levels
	line    int // of the last token
	last    *token.Token
	content bool     // something but a header was seen
	ended   bool     // "..." was seen
	reached position // of the last quotes with an escape or a tab
	offset  int      // of reached, in bytes
}

func (g *guard) see(t *token.Token) error {
	if t.Type == token.CommentType {
		return nil
	}
	for _, check := range []func(*token.Token) (why, next string){refused, g.tabbed, g.escaped, g.reread} {
		if why, next := check(t); why != "" {
			return g.src.fault(place(t), why, next)
		}
	}
	if err := g.document(t); err != nil {
		return err
	}
	if err := g.nest(t); err != nil {
		return err
	}
	if len(g.levels) > maxDepth {
		return g.src.fault(place(t), fmt.Sprintf("nested more than %d deep", maxDepth), "")
	}
	g.last = t
	return nil
}

// refused says why a token has no place in a plan; empty when it has.
func refused(t *token.Token) (why, next string) {
	switch t.Type {
	case token.AnchorType:
		return "anchors are not used in a plan", `write the value out; put quotes around text that begins with "&"`
	case token.AliasType:
		return "aliases are not used in a plan", `write the value out; put quotes around text that begins with "*"`
	case token.MergeKeyType:
		return "merge keys are not used in a plan", "write the keys out"
	case token.TagType:
		return "tags are not used in a plan", `put quotes around text that begins with "!"`
	case token.DirectiveType:
		return "directives are not used in a plan", `remove the line, or put quotes around text that begins with "%"`
	case token.MappingKeyType:
		return `keys written with "?" are not used in a plan`, "write the key as key: value"
	case token.InvalidType:
		return printable(t.Error), syntaxHint
	}
	return "", ""
}

// tabbed refuses the tabs that the scanner does not read: those within text without quotes it drops,
// and for each in double quotes it drops a character behind the quotes.
func (g *guard) tabbed(t *token.Token) (why, next string) {
	switch {
	case t.Type == token.DoubleQuoteType:
		if _, text, _ := strings.Cut(t.Origin, `"`); strings.Contains(text, "\t") {
			return "a tab stands in double quotes", `write it as \t, or put the text into single quotes or below "run: |"`
		}
	case t.Type == token.SingleQuoteType, g.follows(token.LiteralType), g.follows(token.FoldedType):
	default:
		for line := range strings.Lines(t.Origin) {
			if strings.Contains(strings.TrimSpace(line), "\t") {
				return "a tab stands in text without quotes", `write blanks, or put the text into single quotes or below "run: |"`
			}
		}
	}
	return "", ""
}

// document refuses a second document.
func (g *guard) document(t *token.Token) error {
	switch t.Type {
	case token.DocumentEndType:
		g.ended = true
		return nil
	case token.DocumentHeaderType:
		if !g.content {
			g.content = true
			return nil
		}
	default:
		g.content = true
		if !g.ended {
			return nil
		}
	}
	return g.src.fault(place(t), "a plan is one YAML document; a second one begins here", "put each plan into a file of its own")
}

func (g *guard) nest(t *token.Token) error {
	at := place(t)
	firstOfLine := at.line != g.line
	g.line = at.line
	switch t.Type {
	case token.MappingStartType, token.SequenceStartType:
		g.levels = append(g.levels, level{flow: t})
		g.flows++
		return nil
	case token.MappingEndType, token.SequenceEndType:
		return g.closeFlow(t)
	case token.MappingValueType:
		return g.key(t)
	}
	if g.flows == 0 && (firstOfLine || t.Type == token.SequenceEntryType || g.follows(token.SequenceEntryType)) {
		g.block(at.column)
	}
	return nil
}

func (g *guard) follows(kind token.Type) bool { return g.last != nil && g.last.Type == kind }

// block opens a level at column unless one is open there, and closes those further right.
func (g *guard) block(column int) {
	n := len(g.levels)
	for n > 0 && g.levels[n-1].column > column {
		n--
	}
	g.levels = g.levels[:n]
	if n == 0 || g.levels[n-1].column < column {
		g.levels = append(g.levels, level{column: column})
	}
}

func (g *guard) closeFlow(t *token.Token) error {
	n := len(g.levels)
	if n == 0 || g.levels[n-1].flow == nil {
		return g.src.fault(place(t), fmt.Sprintf("%q closes nothing", t.Value), "")
	}
	open := g.levels[n-1].flow
	if (open.Type == token.MappingStartType) != (t.Type == token.MappingEndType) {
		return g.src.fault(place(t), fmt.Sprintf("%q does not close the %q of line %d", t.Value, open.Value, open.Position.Line), "")
	}
	g.levels = g.levels[:n-1]
	g.flows--
	return nil
}

// key counts the key before the colon t.
func (g *guard) key(t *token.Token) error {
	if g.last != nil && len(g.last.Value) > maxKey {
		return g.src.fault(place(g.last), fmt.Sprintf("a key is longer than %d bytes", maxKey), "")
	}
	if n := len(g.levels); n > 0 {
		if g.levels[n-1].keys++; g.levels[n-1].keys > maxKeys {
			return g.src.fault(place(t), fmt.Sprintf("more than %d keys in one mapping", maxKeys), "")
		}
	}
	return nil
}

func (g *guard) end() error {
	for _, l := range g.levels {
		if l.flow != nil {
			return g.src.fault(place(l.flow), fmt.Sprintf("this %q is never closed", l.flow.Value), "")
		}
	}
	return nil
}

// tree builds the one document's tree; nil for a file without content.
func tree(src *source, tokens token.Tokens) (body ast.Node, err error) {
	// Duplicate keys are found by the decoder, which says where the first one stands.
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	var syntax *yaml.SyntaxError
	if errors.As(err, &syntax) {
		return nil, src.fault(place(syntax.Token), printable(syntax.Message), syntaxHint)
	}
	if err != nil {
		return nil, src.fault(position{1, 1}, "the file is not YAML", "")
	}
	for _, doc := range file.Docs {
		if doc.Body != nil {
			return doc.Body, nil
		}
	}
	return nil, nil
}

// place gives the position of a token; the scanner counts the column of some from 0.
func place(t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{1, 1}
	}
	return position{max(t.Position.Line, 1), max(t.Position.Column, 1)}
}

// printable spells out the control characters in a message that quotes the file.
func printable(message string) string {
	quoted := strconv.Quote(message)
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(quoted[1 : len(quoted)-1])
}
