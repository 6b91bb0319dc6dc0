package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/acode-dev/acode/session"
)

// MaxArgumentBytes is the greatest length of the arguments of a call.
const MaxArgumentBytes = 8 << 20

// power is a permission that a person must give before a tool may be used.
type power string

const (
	powerFiles    power = "files"
	powerCommands power = "commands"
	powerWrite    power = "write"
)

// grant says how a person allows p.
func (p power) grant() string {
	if p == powerWrite {
		return "a person can start the server with --allow-write"
	}
	return "a person can start the server with --allow " + string(p)
}

// tool describes a tool: its schema, its hints, and the check of its arguments.
type tool struct {
	name, title, about string
	args               []argument
	// needs is empty for a tool that only reads.
	needs power
	// destroys and open are the hints of a tool that changes something.
	destroys, open bool
	// control says that the tool acts on an operation and is none itself.
	control bool
}

// argument is a field of the arguments.
type argument struct {
	name, about string
	// def is the default, whose type is that of the argument: string, int64, bool, or
	// map[string]string for an object of strings.
	def      any
	required bool
	// least and most limit an int64.
	least, most int64
	// path says that the argument is a path of the workspace.
	path bool
	// choices are the valid values of a string; nil for any.
	choices []string
}

// changes reports whether calls of the tool are operations that may be owed.
func (t tool) changes() bool { return t.needs != "" && !t.control }

func text(name, about string) argument {
	return argument{name: name, about: about, def: "", required: true}
}

func file(name, about string) argument {
	a := text(name, about)
	a.path = true
	return a
}

func number(name, about string, def, least, most int64) argument {
	return argument{name: name, about: about, def: def, least: least, most: most}
}

// schema returns the JSON Schema of the arguments.
func (t tool) schema() map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, a := range t.args {
		p := map[string]any{"description": a.about}
		switch a.def.(type) {
		case string:
			p["type"] = "string"
		case bool:
			p["type"] = "boolean"
		case int64:
			p["type"], p["minimum"], p["maximum"] = "integer", a.least, a.most
		case map[string]string:
			p["type"], p["additionalProperties"] = "object", map[string]any{"type": "string"}
		}
		if a.choices != nil {
			p["enum"] = a.choices
		}
		if a.required {
			required = append(required, a.name)
		} else {
			p["default"] = a.def
		}
		properties[a.name] = p
	}
	s := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// arguments holds checked values by name, with the defaults filled in.
type arguments map[string]any

func (a arguments) text(name string) string  { return a[name].(string) }
func (a arguments) number(name string) int64 { return a[name].(int64) }
func (a arguments) yes(name string) bool     { b, _ := a[name].(bool); return b }

func (a arguments) values(name string) map[string]string { return a[name].(map[string]string) }

// canonical returns the encoding that makes two calls equal.
func (a arguments) canonical() string {
	rest := map[string]any{}
	for name, value := range a {
		if name != fresh {
			rest[name] = value
		}
	}
	out, err := json.Marshal(rest)
	if err != nil {
		panic(err) // values of these types can be encoded
	}
	return string(out)
}

// usage returns the error for arguments that cannot be used. Nothing was changed.
func usage(message, next string) error {
	return &session.Error{Code: session.ErrUsage, Message: message + "; nothing was changed", Next: session.Words(next)}
}

// check decodes and checks the arguments of a call. workspace is the absolute path by
// which the client may begin paths.
func (t tool) check(raw json.RawMessage, workspace string) (arguments, error) {
	if len(raw) > MaxArgumentBytes {
		return nil, usage(fmt.Sprintf("the arguments have %d bytes; at most %d are accepted", len(raw), MaxArgumentBytes), "write the content in parts, or with a command")
	}
	given, err := fields(raw)
	if err != nil {
		return nil, usage("the arguments are not a JSON object: "+err.Error(), t.takes())
	}
	out := arguments{}
	for _, a := range t.args {
		raw, ok := given[a.name]
		delete(given, a.name)
		if !ok || string(raw) == "null" && !a.required {
			if a.required {
				return nil, usage("the argument "+a.name+" is missing", t.takes())
			}
			out[a.name] = a.def
			continue
		}
		if out[a.name], err = a.decode(raw, workspace); err != nil {
			return nil, err
		}
	}
	for name := range given {
		return nil, usage(fmt.Sprintf("%s has no argument %q", t.name, cut(name, 60)), t.takes())
	}
	return out, nil
}

// takes says which arguments the tool has.
func (t tool) takes() string {
	names := make([]string, len(t.args))
	for i, a := range t.args {
		names[i] = a.name
		if !a.required {
			names[i] = "[" + a.name + "]"
		}
	}
	return t.name + " takes: " + strings.Join(names, ", ")
}

// fields decodes an object and refuses a name that occurs twice. Nothing and null mean an
// empty object.
func fields(raw json.RawMessage) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	if begin := bytes.TrimSpace(raw); len(begin) == 0 || string(begin) == "null" {
		return out, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return nil, cmpError(err, "it begins otherwise")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		key := name.(string) // More was true inside an object
		if _, twice := out[key]; twice {
			return nil, fmt.Errorf("%q occurs twice", cut(key, 60))
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		out[key] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows it")
	}
	return out, nil
}

func cmpError(err error, otherwise string) error {
	if err != nil {
		return err
	}
	return errors.New(otherwise)
}

// decode returns the value of an argument.
func (a argument) decode(raw json.RawMessage, workspace string) (any, error) {
	switch a.def.(type) {
	case bool:
		if value := string(raw); value == "true" || value == "false" {
			return value == "true", nil
		}
		return nil, usage("the argument "+a.name+" is not true or false", "send true or false without quotes")
	case int64:
		n, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil || n < a.least || n > a.most {
			return nil, usage(fmt.Sprintf("the argument %s is not a whole number from %d to %d", a.name, a.least, a.most), "send a number without quotes")
		}
		return n, nil
	case map[string]string:
		return a.object(raw)
	}
	return a.string(raw, workspace)
}

// object returns the value of an object of strings.
func (a argument) object(raw json.RawMessage) (any, error) {
	given, err := fields(raw)
	if err != nil {
		return nil, usage("the argument "+a.name+" is not a JSON object: "+err.Error(), "send an object whose values are strings")
	}
	out := map[string]string{}
	for name, value := range given {
		of := argument{name: a.name + "." + cut(name, 60)}
		text, err := of.string(value, "")
		if err != nil {
			return nil, err
		}
		out[name] = text.(string)
	}
	return out, nil
}

// string returns the value of a string or of a path.
func (a argument) string(raw json.RawMessage, workspace string) (any, error) {
	var s string
	if raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return nil, usage("the argument "+a.name+" is not a string", "send a JSON string")
	}
	if strings.ContainsRune(s, 0) {
		return nil, usage("the argument "+a.name+" contains a NUL", "leave the NUL out; acode writes text files")
	}
	if a.choices != nil && !slices.Contains(a.choices, s) {
		return nil, usage(fmt.Sprintf("the argument %s is not one of: %s", a.name, strings.Join(a.choices, ", ")), "send one of these")
	}
	if a.path {
		return cleaned(a.name, s, workspace)
	}
	return s, nil
}

// cleaned returns a path relative to the workspace, in the form that makes equal paths
// equal. Whether it leads through a link to the outside is checked when it is opened.
func cleaned(name, s, workspace string) (string, error) {
	if s == "" {
		return "", usage("the argument "+name+" is empty", "name a path of the workspace")
	}
	rel := s
	if path.IsAbs(s) {
		var err error
		if rel, err = filepath.Rel(workspace, path.Clean(s)); err != nil {
			rel = ".."
		}
	}
	rel = path.Clean(rel)
	if rel == ".." || strings.HasPrefix(rel, "../") {
		return "", &session.Error{Code: session.ErrEscape, Message: "the path leaves the workspace; nothing was changed", Place: cut(s, 200),
			Next: session.Words("name a path inside " + workspace)}
	}
	return rel, nil
}

// cut shortens s for a message.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// names returns the names of tools.
func names(all []tool) []string {
	out := make([]string, len(all))
	for i, t := range all {
		out[i] = t.name
	}
	return out
}
