package strictyaml

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v4"
)

// Kind is the kind of a value.
type Kind int

// The kinds of values. A date is Text, because YAML 1.2 has no dates. A merge key is Text
// too.
const (
	Text Kind = iota + 1
	Mapping
	List
	Bool
	Int
	Float
	Nothing
)

// Value is one value of a file. For the methods of Reader a nil Value is an absent value.
type Value struct {
	// Key is the key in its mapping. It is empty in a list.
	Key string
	// At is the place of the value, or of its key if the value is empty.
	At Position
	// KeyAt is the place of its key.
	KeyAt Position
	// What is the name of the value in messages. If it is empty, messages use the key in
	// quotes.
	What string

	node *yaml.Node
}

func valueOf(n *yaml.Node, what string) *Value {
	return &Value{At: place(n), node: n, What: what}
}

// String returns the name of v in messages.
func (v *Value) String() string { return cmp.Or(v.What, strconv.Quote(v.Key)) }

// Written returns a scalar as in the file, without quotes.
func (v *Value) Written() string { return v.node.Value }

// Kind returns the kind of v.
func (v *Value) Kind() Kind {
	switch v.node.Kind {
	case yaml.MappingNode:
		return Mapping
	case yaml.SequenceNode:
		return List
	}
	switch v.node.Tag {
	case "!!str", "!!timestamp", "!!merge":
		return Text
	case "!!bool":
		return Bool
	case "!!null":
		return Nothing
	case "!!int":
		return Int
	}
	return Float
}

// Describe describes v for messages.
func (v *Value) Describe() string {
	switch v.Kind() {
	case Mapping:
		return "a mapping"
	case List:
		return "a list"
	case Text:
		return "text"
	case Bool:
		return "the truth value " + v.Written()
	case Nothing:
		return "nothing"
	}
	return "the number " + v.Written()
}

// place returns the beginning of a node.
func place(n *yaml.Node) Position { return Position{n.Line, n.Column} }

// pairs returns the keys of a mapping with their values.
func pairs(n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		for i := 0; i < len(n.Content) && yield(n.Content[i], n.Content[i+1]); i += 2 {
		}
	}
}

// Object is a mapping in which all keys are known and unique.
type Object struct {
	At     Position
	Fields []Value
	// Broken says that the mapping had invalid keys. A missing key may be one of them.
	Broken bool

	what string
}

// Get returns the value of key, or nil if it is absent. It scans the fields, because
// mappings are small and a map for each of 100,000 steps would cost more.
func (o *Object) Get(key string) *Value {
	for i := range o.Fields {
		if o.Fields[i].Key == key {
			return &o.Fields[i]
		}
	}
	return nil
}

// Need returns the value of key. It fails if the key is absent.
func (r *Reader) Need(o *Object, key string) *Value {
	v := o.Get(key)
	if v == nil && !o.Broken {
		r.Fail(o.At, "", "%s needs the key %q", o.what, key)
	}
	return v
}

// Object reads a mapping. Without known, every key that is text is valid.
func (r *Reader) Object(v *Value, known ...string) *Object {
	if v == nil {
		return &Object{}
	}
	o := &Object{what: v.String(), At: v.At}
	if v.Kind() != Mapping {
		r.Fail(v.At, "", "%s is a mapping of keys to values, not %s", v, v.Describe())
		o.Broken = true
		return o
	}
	first := make(map[string]int, len(v.node.Content)/2)
	for key, value := range pairs(v.node) {
		f := Value{Key: key.Value, KeyAt: place(key), At: place(value), node: value}
		if f.Kind() == Nothing {
			f.At = f.KeyAt
		}
		if k := valueOf(key, ""); k.Kind() != Text {
			r.Fail(f.KeyAt, "put quotes around it", "a key is text, not %s", k.Describe())
			o.Broken = true
			continue
		}
		if len(known) > 0 && !slices.Contains(known, f.Key) {
			next := ""
			if strings.Contains(f.Key, ":") {
				next = `put a space after ":"`
			}
			r.Fail(f.KeyAt, next, "unknown key %q; %s has %s", f.Key, v, strings.Join(known, ", "))
			o.Broken = true
			continue
		}
		if line, twice := first[f.Key]; twice {
			r.Fail(f.KeyAt, "remove one of the two", "key %q occurs twice, first on line %d", f.Key, line)
			continue
		}
		first[f.Key] = f.KeyAt.Line
		o.Fields = append(o.Fields, f)
	}
	return o
}

// Entries returns the values of a list. Messages use the name each for them.
func (v *Value) Entries(each string) []*Value {
	entries := make([]*Value, 0, len(v.node.Content))
	if v.Kind() == List {
		for _, n := range v.node.Content {
			entries = append(entries, valueOf(n, each))
		}
	}
	return entries
}

// List reads a list that must not be empty. of and each name its elements in messages.
func (r *Reader) List(v *Value, of, each string) []*Value {
	switch {
	case v == nil:
		return nil
	case v.Kind() != List:
		r.Fail(v.At, "", "%s is a list of %s, not %s", v, of, v.Describe())
	case len(v.node.Content) == 0:
		r.Fail(v.At, "", "%s must not be empty", v)
	}
	return v.Entries(each)
}

// Text reads text, byte for byte. It does not accept numbers and other scalars, because
// 1.10 would become a different version.
func (r *Reader) Text(v *Value) string {
	if v == nil {
		return ""
	}
	next := ""
	switch v.Kind() {
	case Text:
		return v.Written()
	case Mapping:
		next = `put quotes around text that has ": " in it`
	case Bool, Int, Float:
		next = fmt.Sprintf("if text is meant, put quotes around it: %q", v.Written())
	}
	r.Fail(v.At, next, "%s is text, not %s", v, v.Describe())
	return v.Written()
}

// Filled reads text that must not be empty.
func (r *Reader) Filled(v *Value) string {
	s := r.Text(v)
	if v != nil && s == "" {
		r.Fail(v.At, "", "%s must not be empty", v)
	}
	return s
}

// Shown reads text for people. It refuses control characters, because they could rewrite
// the question that a person approves. Unless lines is true, the text must be one line.
func (r *Reader) Shown(v *Value, lines bool) string {
	s := r.Text(v)
	for _, c := range s {
		if !unicode.IsControl(c) || c == '\t' || c == '\n' && lines {
			continue
		}
		if c == '\n' {
			r.Fail(v.At, "", "%s is one line", v)
		}
		r.Fail(v.At, "", "%s holds the control character %U", v, c)
		break
	}
	return s
}

// System reads text that the system takes as a C string, so it must not contain a NUL.
func (r *Reader) System(v *Value) string {
	s := r.Text(v)
	if strings.IndexByte(s, 0) >= 0 {
		r.Fail(v.At, "", "%s holds a NUL byte", v)
	}
	return s
}

// Bool reads a truth value. It returns otherwise if v is absent.
func (r *Reader) Bool(v *Value, otherwise bool) bool {
	if v == nil {
		return otherwise
	}
	if v.Kind() != Bool {
		r.Fail(v.At, "", "%s is true or false, not %s", v, v.Describe())
		return otherwise
	}
	return strings.EqualFold(v.Written(), "true")
}

// OneOf reads one of the words in valid.
func (r *Reader) OneOf(v *Value, valid ...string) string {
	s := r.Text(v)
	if v != nil && !slices.Contains(valid, s) {
		r.Fail(v.At, "", "%s is one of %s, not %q", v, strings.Join(valid, ", "), s)
	}
	return s
}
