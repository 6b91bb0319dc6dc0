package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Object is a JSON object whose fields keep their order, and whose values keep their
// bytes. Its zero value is empty.
type Object struct{ fields []field }

type field struct {
	name  string
	value json.RawMessage
}

// maxFields limits the fields of an object that is read.
const maxFields = 1000

// ReadObject reads an object. Its values share the memory of raw.
func ReadObject(raw []byte) (*Object, error) {
	if !json.Valid(raw) {
		return nil, json.Unmarshal(raw, &struct{}{})
	}
	i := skip(raw, 0)
	if raw[i] != '{' {
		return nil, errors.New("it is not an object")
	}
	o := &Object{fields: make([]field, 0, 8)}
	for i = skip(raw, i+1); raw[i] != '}'; {
		end := valueEnd(raw, i)
		name := string(raw[i+1 : end-1])
		if strings.ContainsRune(name, '\\') {
			if err := json.Unmarshal(raw[i:end], &name); err != nil {
				return nil, err
			}
		}
		i = skip(raw, skip(raw, end)+1) // behind the colon
		end = valueEnd(raw, i)
		if len(o.fields) == maxFields {
			return nil, fmt.Errorf("an object has more than %d fields", maxFields)
		}
		o.Set(name, raw[i:end:end])
		if i = skip(raw, end); raw[i] == ',' {
			i = skip(raw, i+1)
		}
	}
	return o, nil
}

// skip returns the place of the next byte that is no space.
func skip(raw []byte, i int) int {
	for raw[i] == ' ' || raw[i] == '\t' || raw[i] == '\r' || raw[i] == '\n' {
		i++
	}
	return i
}

// valueEnd returns the end of the value that begins at i. raw is valid JSON.
func valueEnd(raw []byte, i int) int {
	depth := 0
	for ; ; i++ {
		switch raw[i] {
		case '"':
			for i++; raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		default:
			if depth > 0 {
				continue
			}
			for !bytes.ContainsRune([]byte(",]} \t\r\n"), rune(raw[i])) {
				i++
			}
			return i
		}
		if depth == 0 {
			return i + 1
		}
	}
}

// Names returns the names of the fields in their order.
func (o *Object) Names() []string {
	names := make([]string, 0, len(o.fields))
	for _, f := range o.fields {
		names = append(names, f.name)
	}
	return names
}

// find returns a field; nil if there is none.
func (o *Object) find(name string) *field {
	for i := range o.fields {
		if o.fields[i].name == name {
			return &o.fields[i]
		}
	}
	return nil
}

// written returns the value of a field; nil if there is none.
func (o *Object) written(name string) json.RawMessage {
	if f := o.find(name); f != nil {
		return f.value
	}
	return nil
}

// Get returns the value of a field; nil if there is none or it is null.
func (o *Object) Get(name string) json.RawMessage {
	if v := o.written(name); string(v) != "null" {
		return v
	}
	return nil
}

// Text returns the value of a field that is a text; empty otherwise.
func (o *Object) Text(name string) (s string) {
	if v := o.written(name); v == nil || json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}

// Set sets a field.
func (o *Object) Set(name string, value json.RawMessage) {
	if f := o.find(name); f != nil {
		f.value = value
		return
	}
	o.fields = append(o.fields, field{name, value})
}

// Remove removes a field.
func (o *Object) Remove(name string) {
	o.fields = slices.DeleteFunc(o.fields, func(f field) bool { return f.name == name })
}

// Bytes returns the object as JSON.
func (o *Object) Bytes() json.RawMessage {
	out := []byte{'{'}
	for i, f := range o.fields {
		if i > 0 {
			out = append(out, ',')
		}
		quoted, err := json.Marshal(f.name)
		if err != nil {
			panic("wire: a name must encode: " + err.Error())
		}
		out = append(append(append(out, quoted...), ':'), f.value...)
	}
	return append(out, '}')
}

// Join appends a text to the text in a field. It joins the bytes as they were sent, so it
// also joins the halves of a character. A null changes nothing.
func (o *Object) Join(name string, part json.RawMessage) error {
	was := o.written(name)
	switch {
	case string(part) == "null":
		if was == nil {
			o.Set(name, part)
		}
	case part[0] != '"':
		return fmt.Errorf("%s is not a text", name)
	case was == nil || string(was) == "null":
		o.Set(name, bytes.Clone(part))
	case was[0] != '"':
		return fmt.Errorf("%s is not a text", name)
	default:
		o.Set(name, append(was[:len(was)-1], part[1:]...))
	}
	return nil
}

// Append appends the elements of a list to the list in a field. A null changes nothing.
func (o *Object) Append(name string, part json.RawMessage) error {
	var was, more []json.RawMessage
	if json.Unmarshal(part, &more) != nil || o.written(name) != nil && json.Unmarshal(o.written(name), &was) != nil {
		return fmt.Errorf("%s is not a list", name)
	}
	if more == nil && o.written(name) != nil {
		return nil
	}
	if more == nil {
		o.Set(name, part)
		return nil
	}
	o.Set(name, List(append(was, more...)))
	return nil
}

// List returns a JSON list.
func List(values []json.RawMessage) json.RawMessage {
	out := []byte{'['}
	for i, v := range values {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, v...)
	}
	return append(out, ']')
}

// Keep sets a field that no part of a stream continues. Another value than before, except
// null, is an error, because it is not known how to join the two.
func (o *Object) Keep(name string, value json.RawMessage) error {
	was := o.written(name)
	if was != nil && string(was) != "null" && string(value) != "null" && !bytes.Equal(was, value) {
		return fmt.Errorf("%s comes in parts", name)
	}
	if was == nil || string(was) == "null" {
		o.Set(name, bytes.Clone(value))
	}
	return nil
}
