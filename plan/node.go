package plan

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v4"

	"github.com/acode-dev/acode/session"
)

// decoder walks the tree in the order of the file and keeps the errors that it meets. After the
// first one the result is no plan.
type decoder struct {
	src   *source
	most  int // errors that are kept
	errs  []error
	at    []position                  // of errs
	steps map[session.StepID]position // nil: nobody asks where steps stand
	wrong map[position]bool           // where something is wrong: one error is said of one place
	added int                         // bytes that defaults added to the steps
}

func (d *decoder) fail(at position, next, format string, args ...any) {
	if len(d.errs) == d.most || d.wrong[at] {
		return
	}
	if d.wrong == nil {
		d.wrong = map[position]bool{}
	}
	d.wrong[at] = true
	d.at = append(d.at, at)
	d.errs = append(d.errs, d.src.fault(at, fmt.Sprintf(format, args...), next))
}

// failed reports whether something was wrong since there were so many errors.
func (d *decoder) failed(since int) bool { return len(d.errs) > since || len(d.errs) == d.most }

// field is one key of a mapping with its value.
type field struct {
	key   string
	at    position // of the key
	value *yaml.Node
}

// object is a mapping whose keys are all known, each at most once.
type object struct {
	what   string // for messages: "a step"
	at     position
	fields []field
	broken bool // some keys could not be taken: what is missing may be one of them
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
	if f == nil && !o.broken {
		d.fail(o.at, "", "%s needs the key %q", o.what, key)
	}
	return f
}

// object reads a mapping. Without known, any key of text is allowed.
func (d *decoder) object(n *yaml.Node, at position, what string, known ...string) *object {
	o := &object{what: what, at: at}
	if n.Kind != yaml.MappingNode {
		d.fail(at, "", "%s is a mapping of keys to values, not %s", what, describe(n))
		o.broken = true
		return o
	}
	o.at = place(n)
	first := make(map[string]int, len(n.Content)/2)
	for key, value := range pairs(n) {
		f := field{key: key.Value, at: place(key), value: value}
		if !isText(key) {
			d.fail(f.at, "put quotes around it", "a key is text, not %s", describe(key))
			o.broken = true
			continue
		}
		if len(known) > 0 && !slices.Contains(known, f.key) {
			next := ""
			if strings.Contains(f.key, ":") {
				next = `put a blank behind ":"`
			}
			d.fail(f.at, next, "unknown key %q; %s has %s", f.key, what, strings.Join(known, ", "))
			o.broken = true
			continue
		}
		if line, twice := first[f.key]; twice {
			d.fail(f.at, "remove one of the two", "key %q stands twice, first on line %d", f.key, line)
			continue
		}
		first[f.key] = f.at.line
		o.fields = append(o.fields, f)
	}
	return o
}

// pairs gives the keys of a mapping with their values.
func pairs(n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		for i := 0; i < len(n.Content) && yield(n.Content[i], n.Content[i+1]); i += 2 {
		}
	}
}

// list reads a sequence that must not be empty.
func (d *decoder) list(f *field, of string) []*yaml.Node {
	if f.value.Kind != yaml.SequenceNode {
		d.fail(f.place(), "", "%q is a list of %s, not %s", f.key, of, describe(f.value))
		return nil
	}
	if len(f.value.Content) == 0 {
		d.fail(f.place(), "", "%q must not be empty", f.key)
	}
	return f.value.Content
}

// text reads the text of a field, byte for byte. Numbers and the like are not turned into
// text: 1.10 would become another version.
func (d *decoder) text(f *field) string {
	return d.textOf(f.value, f.place(), fmt.Sprintf("%q", f.key))
}

func (d *decoder) textOf(n *yaml.Node, at position, what string) string {
	if !isText(n) {
		next := ""
		if n.Kind == yaml.ScalarNode && !isNull(n) {
			next = fmt.Sprintf("if text is meant, put quotes around it: %q", n.Value)
		} else if n.Kind == yaml.MappingNode {
			next = `put quotes around text that has ": " in it`
		}
		d.fail(at, next, "%s is text, not %s", what, describe(n))
	}
	return n.Value
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
	if f.value.Tag != "!!bool" {
		d.fail(f.place(), "", "%q is true or false, not %s", key, describe(f.value))
		return otherwise
	}
	return strings.EqualFold(f.value.Value, "true")
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
	return place(f.value)
}

// place gives where a node begins.
func place(n *yaml.Node) position { return position{n.Line, n.Column} }

func isNull(n *yaml.Node) bool { return n.Tag == "!!null" }

// isText reports whether n is text: dates are, for YAML 1.2 knows none, and so is what would be a merge key.
func isText(n *yaml.Node) bool {
	return n.Tag == "!!str" || n.Tag == "!!timestamp" || n.Tag == "!!merge"
}

func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isText(n):
		return "text"
	case n.Tag == "!!bool":
		return "the truth value " + n.Value
	case isNull(n):
		return "nothing"
	}
	return "the number " + n.Value
}
