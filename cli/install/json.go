package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// entry is an addition to a JSON file: the member at Path, or an element of the array at
// Path.
type entry struct {
	Path    []string        `json:"path"`
	Element bool            `json:"element,omitempty"`
	Value   json.RawMessage `json:"value"`
	// Was is the text of the container or file that held nothing else before; nil if it
	// did hold something.
	Was *string `json:"was,omitempty"`
}

func (e entry) String() string { return strings.Join(e.Path, ".") }

const mark = "\ufeff"

// jsonText is a JSON file that is edited as text.
type jsonText struct {
	// bom is the byte order mark, if the file has one.
	bom, text string
	root      node
}

// parse reads a JSON object. Blank text is a file that holds nothing yet.
func parse(text string) (*jsonText, error) {
	j := &jsonText{}
	if rest, ok := strings.CutPrefix(text, mark); ok {
		j.bom, text = mark, rest
	}
	var syntax *json.SyntaxError
	if err := json.Unmarshal([]byte(text), new(any)); errors.As(err, &syntax) && strings.TrimSpace(text) != "" {
		return nil, fmt.Errorf("line %d is not JSON: %w", 1+strings.Count(text[:min(int(syntax.Offset), len(text))], "\n"), err)
	}
	if j.set(text); strings.TrimSpace(text) != "" && j.root.kind != '{' {
		return nil, errors.New("it does not hold an object")
	}
	return j, nil
}

func (j *jsonText) set(text string) {
	j.text, j.root = text, node{}
	if strings.TrimSpace(text) != "" {
		j.root = scan(text)
	}
}

func (j *jsonText) String() string { return j.bom + j.text }

// at returns the value at path, and whether there is one.
func (j *jsonText) at(path []string) (node, bool) {
	n := j.root
	for _, key := range path {
		i := n.find(key)
		if i < 0 {
			return node{}, false
		}
		n = n.items[i].value
	}
	return n, true
}

// same reports whether a value equals another one, apart from spaces and the order of
// its members.
func (j *jsonText) same(n node, value json.RawMessage) bool {
	var a, b any
	return json.Unmarshal([]byte(j.text[n.start:n.end]), &a) == nil && json.Unmarshal(value, &b) == nil && reflect.DeepEqual(a, b)
}

// add adds an entry and the containers that it needs, and returns these additions. An
// element that is there already is not added again.
func (j *jsonText) add(e entry) (added []entry, err error) {
	holders := len(e.Path)
	if !e.Element {
		holders--
	}
	for i := range holders {
		empty, kind := "{}", byte('{')
		if e.Element && i == holders-1 {
			empty, kind = "[]", '['
		}
		path := e.Path[:i+1]
		n, ok := j.at(path)
		if !ok {
			added = append(added, j.insert(entry{Path: path, Value: json.RawMessage(empty)}))
		} else if n.kind != kind {
			return nil, fmt.Errorf("%s holds a value of another type than clients expect", strings.Join(path, "."))
		}
	}
	n, ok := j.at(e.Path)
	switch {
	case e.Element && slices.ContainsFunc(n.items, func(i item) bool { return j.same(i.value, e.Value) }):
		return added, nil
	case !e.Element && ok && j.same(n, e.Value):
		return added, nil
	case !e.Element && ok:
		return nil, fmt.Errorf("it has an entry %s already, which is not the one that acode writes", e)
	}
	return append(added, j.insert(e)), nil
}

// insert adds an entry at the end of its container, which exists.
func (j *jsonText) insert(e entry) entry {
	path := e.Path
	if !e.Element {
		path = path[:len(path)-1]
	}
	n, _ := j.at(path)
	switch {
	case strings.TrimSpace(j.text) == "":
		was := j.text
		e.Was = &was
		j.set(j.wrapped("{", e, "", "}") + j.newline())
	case len(n.items) == 0:
		was := j.text[n.start:n.end]
		e.Was = &was
		j.replace(n.start, n.end, j.wrapped(was[:1], e, j.indent(n.start), was[len(was)-1:]))
	default:
		last := n.items[len(n.items)-1]
		before := j.text[:last.start]
		space := before[len(strings.TrimRight(before, " \t\r\n")):]
		j.replace(last.value.end, last.value.end, ","+space+j.render(e, space))
	}
	return e
}

func (j *jsonText) replace(from, to int, with string) { j.set(j.text[:from] + with + j.text[to:]) }

// newline returns the line end of the file.
func (j *jsonText) newline() string {
	if strings.Contains(j.text, "\r\n") {
		return "\r\n"
	}
	return "\n"
}

// unit returns the indentation of one level; empty for a file on one line.
func (j *jsonText) unit() string {
	if len(j.root.items) == 0 {
		return "  "
	}
	_, space, ok := cutLast(j.text[j.root.start:j.root.items[0].start], "\n")
	if !ok {
		return ""
	}
	return space
}

// indent returns the spaces at the beginning of the line of an offset.
func (j *jsonText) indent(at int) string {
	_, line, _ := cutLast(j.text[:at], "\n")
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return "", s, false
}

// wrapped returns a container that holds only e. indent is that of its line.
func (j *jsonText) wrapped(open string, e entry, indent, end string) string {
	unit := j.unit()
	if unit == "" {
		return open + j.render(e, "") + end
	}
	space := j.newline() + indent + unit
	return open + space + j.render(e, space) + j.newline() + indent + end
}

// render returns the text of an entry that stands behind space. It has one line, unless
// space has a line end.
func (j *jsonText) render(e entry, space string) string {
	key := ""
	if !e.Element {
		key = quote(e.Path[len(e.Path)-1]) + ": "
	}
	_, indent, lines := cutLast(space, "\n")
	var b bytes.Buffer
	if lines {
		_ = json.Indent(&b, e.Value, indent, j.unit()) // the value is valid
		return key + strings.ReplaceAll(b.String(), "\n", j.newline())
	}
	_ = json.Compact(&b, e.Value) // the value is valid
	return key + b.String()
}

func quote(s string) string {
	b, _ := json.Marshal(s) // a string has a text
	return string(b)
}

// remove removes an entry that add returned. A container that it made stays if it holds
// something now. An entry that is gone is no error.
func (j *jsonText) remove(e entry) {
	path, key := e.Path, ""
	if !e.Element {
		path, key = path[:len(path)-1], path[len(path)-1]
	}
	n, _ := j.at(path)
	i := n.find(key)
	if e.Element {
		i = slices.IndexFunc(n.items, func(i item) bool { return j.same(i.value, e.Value) })
	}
	if i < 0 || e.container() && len(n.items[i].value.items) > 0 {
		return
	}
	switch it := n.items[i]; {
	case len(n.items) == 1 && e.Was != nil && strings.TrimSpace(*e.Was) == "":
		j.set(*e.Was)
	case len(n.items) == 1 && e.Was != nil:
		j.replace(n.start, n.end, *e.Was)
	case len(n.items) == 1:
		j.replace(n.start+1, n.end-1, "")
	case i == len(n.items)-1:
		j.replace(n.items[i-1].value.end, it.value.end, "")
	default:
		j.replace(it.start, n.items[i+1].start, "")
	}
}

// container reports whether the entry was made to hold others.
func (e entry) container() bool {
	v := string(e.Value)
	return v == "{}" || v == "[]"
}
