package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Object is a JSON object whose fields keep their order, and whose values keep their
// bytes. Its zero value is empty.
type Object struct {
	names  []string
	values map[string]json.RawMessage
}

// ReadObject reads an object.
func ReadObject(raw []byte) (*Object, error) {
	o := &Object{}
	dec := json.NewDecoder(bytes.NewReader(raw))
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	if t != json.Delim('{') {
		return nil, errors.New("it is not an object")
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		o.Set(name.(string), value)
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	return o, nil
}

// Names returns the names of the fields in their order.
func (o *Object) Names() []string { return o.names }

// Get returns the value of a field; nil if there is none or it is null.
func (o *Object) Get(name string) json.RawMessage {
	if v := o.values[name]; string(v) != "null" {
		return v
	}
	return nil
}

// Text returns the value of a field that is a text; empty otherwise.
func (o *Object) Text(name string) (s string) {
	if json.Unmarshal(o.values[name], &s) != nil {
		return ""
	}
	return s
}

// Set sets a field.
func (o *Object) Set(name string, value json.RawMessage) {
	if o.values == nil {
		o.values = map[string]json.RawMessage{}
	}
	if _, ok := o.values[name]; !ok {
		o.names = append(o.names, name)
	}
	o.values[name] = value
}

// Remove removes a field.
func (o *Object) Remove(name string) {
	if i := slices.Index(o.names, name); i >= 0 {
		o.names = slices.Delete(o.names, i, i+1)
	}
	delete(o.values, name)
}

// Bytes returns the object as JSON.
func (o *Object) Bytes() json.RawMessage {
	out := []byte{'{'}
	for i, name := range o.names {
		if i > 0 {
			out = append(out, ',')
		}
		quoted, err := json.Marshal(name)
		if err != nil {
			panic("wire: a name must encode: " + err.Error())
		}
		out = append(append(append(out, quoted...), ':'), o.values[name]...)
	}
	return append(out, '}')
}

// Join appends a text to the text in a field. It joins the bytes as they were sent, so it
// also joins the halves of a character. A null changes nothing.
func (o *Object) Join(name string, part json.RawMessage) error {
	was := o.values[name]
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
		o.values[name] = append(was[:len(was)-1], part[1:]...)
	}
	return nil
}

// Append appends the elements of a list to the list in a field. A null changes nothing.
func (o *Object) Append(name string, part json.RawMessage) error {
	var was, more []json.RawMessage
	if json.Unmarshal(part, &more) != nil || o.values[name] != nil && json.Unmarshal(o.values[name], &was) != nil {
		return fmt.Errorf("%s is not a list", name)
	}
	if more == nil && o.values[name] != nil {
		return nil
	}
	if more == nil {
		o.Set(name, part)
		return nil
	}
	o.Set(name, list(append(was, more...)))
	return nil
}

// list returns a JSON list.
func list(values []json.RawMessage) json.RawMessage {
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
	was := o.values[name]
	if was != nil && string(was) != "null" && string(value) != "null" && !bytes.Equal(was, value) {
		return fmt.Errorf("%s comes in parts", name)
	}
	if was == nil || string(was) == "null" {
		o.Set(name, bytes.Clone(value))
	}
	return nil
}
