package plan

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
)

// decoder walks the tree in the order of the file. It keeps the first error; after it every
// result is meaningless and the walk ends soon.
type decoder struct {
	src *source
	err error
}

func (d *decoder) fail(at position, next, format string, args ...any) {
	if d.err == nil {
		d.err = d.src.fault(at, fmt.Sprintf(format, args...), next)
	}
}

// field is one key of a mapping with its value.
type field struct {
	key   string
	at    position // of the key
	value ast.Node
}

// object is a mapping whose keys are all known, each at most once.
type object struct {
	what   string // for messages: "a step"
	at     position
	fields []field
}

// get gives the field called key, nil when it is absent. Mappings are small: a scan costs less
// than a map for each of 100,000 steps.
func (o *object) get(key string) *field {
	for i := range o.fields {
		if o.fields[i].key == key {
			return &o.fields[i]
		}
	}
	return nil
}

func (o *object) has(key string) bool { return o.get(key) != nil }

// need gives the field called key and fails when it is absent.
func (d *decoder) need(o *object, key string) *field {
	f := o.get(key)
	if f == nil {
		d.fail(o.at, "", "%s needs the key %q", o.what, key)
	}
	return f
}

// object reads a mapping. Without known, any key of text is allowed.
func (d *decoder) object(n ast.Node, at position, what string, known ...string) *object {
	o := &object{what: what, at: at}
	pairs, ok := mapping(n)
	if !ok {
		d.fail(at, "", "%s is a mapping of keys to values, not %s", what, describe(n))
		return o
	}
	if n != nil && len(pairs) > 0 {
		o.at = start(n)
	}
	first := make(map[string]int, len(pairs))
	for _, p := range pairs {
		f := field{at: place(p.Key.GetToken()), value: p.Value}
		key, ok := p.Key.(*ast.StringNode)
		if !ok {
			d.fail(f.at, "put quotes around it", "a key is text, not %s", describe(p.Key))
			return o
		}
		f.key = key.Value
		if len(known) > 0 && !slices.Contains(known, f.key) {
			d.fail(f.at, "", "unknown key %q; %s has %s", f.key, what, strings.Join(known, ", "))
			return o
		}
		if line, twice := first[f.key]; twice {
			d.fail(f.at, "remove one of the two", "key %q stands twice, first on line %d", f.key, line)
			return o
		}
		first[f.key] = f.at.line
		o.fields = append(o.fields, f)
	}
	return o
}

func mapping(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch m := n.(type) {
	case *ast.MappingNode:
		return m.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{m}, true
	}
	return nil, false
}

// list reads a sequence that must not be empty.
func (d *decoder) list(f *field, of string) []ast.Node {
	seq, ok := f.value.(*ast.SequenceNode)
	if !ok {
		d.fail(f.place(), "", "%q is a list of %s, not %s", f.key, of, describe(f.value))
		return nil
	}
	if len(seq.Values) == 0 {
		d.fail(f.place(), "", "%q must not be empty", f.key)
	}
	return seq.Values
}

// text reads the text of a field, byte for byte. Numbers and the like are not turned into
// text: 1.10 would become another version.
func (d *decoder) text(f *field) string {
	return d.textOf(f.value, f.place(), fmt.Sprintf("%q", f.key))
}

func (d *decoder) textOf(n ast.Node, at position, what string) string {
	s, ok := text(n)
	if !ok {
		next := ""
		if quotable(n) {
			next = fmt.Sprintf("if text is meant, put quotes around it: %q", n.GetToken().Value)
		} else if _, colon := mapping(n); colon {
			next = `put quotes around text that has ":" in it`
		}
		d.fail(at, next, "%s is text, not %s", what, describe(n))
	}
	if !utf8.ValidString(s) {
		d.fail(at, "", "%s is not valid UTF-8 once its escapes are read", what)
	}
	return s
}

func text(n ast.Node) (string, bool) {
	switch s := n.(type) {
	case *ast.StringNode:
		return s.Value, true
	case *ast.LiteralNode:
		return s.Value.Value, true
	}
	return "", false
}

func quotable(n ast.Node) bool {
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return true
	}
	return false
}

// shown reads text that people are shown: no control characters, which could rewrite the
// question that somebody approves, and one line unless lines allows more.
func (d *decoder) shown(f *field, lines bool) string {
	s := d.text(f)
	for _, r := range s {
		if !unicode.IsControl(r) || r == '\t' || r == '\n' && lines {
			continue
		}
		if r == '\n' {
			d.fail(f.place(), "", "%q is one line", f.key)
		}
		d.fail(f.place(), "", "%q holds the control character %U", f.key, r)
		break
	}
	return s
}

// system reads text that goes to the system as a C string: not empty, no NUL.
func (d *decoder) system(f *field) string {
	s := d.text(f)
	if s == "" {
		d.fail(f.place(), "", "%q must not be empty", f.key)
	}
	d.noNUL(s, f.place(), fmt.Sprintf("%q", f.key))
	return s
}

func (d *decoder) noNUL(s string, at position, what string) {
	if strings.IndexByte(s, 0) >= 0 {
		d.fail(at, "", "%s holds a NUL byte", what)
	}
}

func (d *decoder) boolean(o *object, key string, otherwise bool) bool {
	f := o.get(key)
	if f == nil {
		return otherwise
	}
	b, ok := f.value.(*ast.BoolNode)
	if !ok {
		d.fail(f.place(), "", "%q is true or false, not %s", key, describe(f.value))
		return otherwise
	}
	return b.Value
}

// oneOf reads one of a closed set of words.
func (d *decoder) oneOf(o *object, key string, valid ...string) string {
	f := o.get(key)
	if f == nil {
		return ""
	}
	s := d.text(f)
	if !slices.Contains(valid, s) {
		d.fail(f.place(), "", "%q is one of %s, not %q", key, strings.Join(valid, ", "), s)
	}
	return s
}

// place is where the value stands, or its key when nothing is written.
func (f *field) place() position {
	if isNull(f.value) {
		return f.at
	}
	return start(f.value)
}

func isNull(n ast.Node) bool {
	if n == nil {
		return true
	}
	_, null := n.(*ast.NullNode)
	return null
}

// start gives where a node begins: for a block mapping its first key, not its first colon.
func start(n ast.Node) position {
	switch m := n.(type) {
	case *ast.MappingNode:
		if !m.IsFlowStyle && len(m.Values) > 0 {
			return start(m.Values[0])
		}
	case *ast.MappingValueNode:
		return place(m.Key.GetToken())
	}
	return place(n.GetToken())
}

func describe(n ast.Node) string {
	switch v := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode, *ast.LiteralNode:
		return "text"
	case *ast.BoolNode:
		return "the truth value " + v.GetToken().Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "the number " + v.GetToken().Value
	}
	return "nothing"
}
