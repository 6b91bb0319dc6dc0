package tool

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

// Fresh is an argument of the tools for agents that change something. Calls are equal
// without it.
const Fresh = "fresh"

// MaxArgumentBytes is the greatest length of the arguments of a call.
const MaxArgumentBytes = 8 << 20

// Power is a permission that a person must give before a tool may be used.
type Power string

// The permissions.
const (
	Files    Power = "files"
	Commands Power = "commands"
	Write    Power = "write"
)

// Tool describes a tool: its schema, its hints, and the check of its arguments.
type Tool struct {
	Name, Title, About string
	Args               []Argument
	// Needs is empty for a tool that only reads.
	Needs Power
	// Destroys and Open are the hints of a tool that changes something.
	Destroys, Open bool
	// Control says that the tool acts on an operation and is none itself.
	Control bool
}

// Argument is a field of the arguments.
type Argument struct {
	Name, About string
	// Default has the type of the argument: string, int64, bool, or map[string]string for
	// an object of strings.
	Default  any
	Required bool
	// Least and Most limit an int64.
	Least, Most int64
	// Path says that the argument is a path of the workspace.
	Path bool
	// Choices are the valid values of a string; nil for any.
	Choices []string
}

// Changes reports whether calls of the tool are operations that may be owed.
func (t Tool) Changes() bool { return t.Needs != "" && !t.Control }

// Text returns a required argument that is a text.
func Text(name, about string) Argument {
	return Argument{Name: name, About: about, Default: "", Required: true}
}

// File returns a required argument that is a path of the workspace.
func File(name, about string) Argument {
	a := Text(name, about)
	a.Path = true
	return a
}

// Number returns an optional argument that is a whole number from least to most.
func Number(name, about string, def, least, most int64) Argument {
	return Argument{Name: name, About: about, Default: def, Least: least, Most: most}
}

// Schema returns the JSON Schema of the arguments.
func (t Tool) Schema() map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, a := range t.Args {
		p := map[string]any{"description": a.About}
		switch a.Default.(type) {
		case string:
			p["type"] = "string"
		case bool:
			p["type"] = "boolean"
		case int64:
			p["type"], p["minimum"], p["maximum"] = "integer", a.Least, a.Most
		case map[string]string:
			p["type"], p["additionalProperties"] = "object", map[string]any{"type": "string"}
		}
		if a.Choices != nil {
			p["enum"] = a.Choices
		}
		if a.Required {
			required = append(required, a.Name)
		} else {
			p["default"] = a.Default
		}
		properties[a.Name] = p
	}
	s := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// Arguments holds checked values by name, with the defaults filled in.
type Arguments map[string]any

// Text returns the value of an argument that is a text.
func (a Arguments) Text(name string) string { return a[name].(string) }

// Number returns the value of an argument that is a number.
func (a Arguments) Number(name string) int64 { return a[name].(int64) }

// Yes returns the value of an argument that is true or false. It returns false if the
// tool has no such argument.
func (a Arguments) Yes(name string) bool { b, _ := a[name].(bool); return b }

// Values returns the value of an argument that is an object of strings.
func (a Arguments) Values(name string) map[string]string { return a[name].(map[string]string) }

// Canonical returns the encoding that makes two calls equal.
func (a Arguments) Canonical() string {
	rest := map[string]any{}
	for name, value := range a {
		if name != Fresh {
			rest[name] = value
		}
	}
	out, err := json.Marshal(rest)
	if err != nil {
		panic(err) // values of these types can be encoded
	}
	return string(out)
}

// Usage returns the error for arguments that cannot be used. Nothing was changed.
func Usage(message, next string) error {
	return &session.Error{Code: session.ErrUsage, Message: message + "; nothing was changed", Next: session.Words(next)}
}

// Check decodes and checks the arguments of a call. workspace is the absolute path by
// which the client may begin paths.
func (t Tool) Check(raw json.RawMessage, workspace string) (Arguments, error) {
	if len(raw) > MaxArgumentBytes {
		return nil, Usage(fmt.Sprintf("the arguments have %d bytes; at most %d are accepted", len(raw), MaxArgumentBytes), "write the content in parts, or with a command")
	}
	given, err := fields(raw)
	if err != nil {
		return nil, Usage("the arguments are not a JSON object: "+err.Error(), t.takes())
	}
	out := Arguments{}
	for _, a := range t.Args {
		raw, ok := given[a.Name]
		delete(given, a.Name)
		if !ok || string(raw) == "null" && !a.Required {
			if a.Required {
				return nil, Usage("the argument "+a.Name+" is missing", t.takes())
			}
			out[a.Name] = a.Default
			continue
		}
		if out[a.Name], err = a.decode(raw, workspace); err != nil {
			return nil, err
		}
	}
	for name := range given {
		return nil, Usage(fmt.Sprintf("%s has no argument %q", t.Name, Cut(name, 60)), t.takes())
	}
	return out, nil
}

// takes says which arguments the tool has.
func (t Tool) takes() string {
	names := make([]string, len(t.Args))
	for i, a := range t.Args {
		names[i] = a.Name
		if !a.Required {
			names[i] = "[" + a.Name + "]"
		}
	}
	return t.Name + " takes: " + strings.Join(names, ", ")
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
		return nil, cause(err, "it begins otherwise")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		key := name.(string) // More was true inside an object
		if _, twice := out[key]; twice {
			return nil, fmt.Errorf("%q occurs twice", Cut(key, 60))
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

func cause(err error, otherwise string) error {
	if err != nil {
		return err
	}
	return errors.New(otherwise)
}

// decode returns the value of an argument.
func (a Argument) decode(raw json.RawMessage, workspace string) (any, error) {
	switch a.Default.(type) {
	case bool:
		if value := string(raw); value == "true" || value == "false" {
			return value == "true", nil
		}
		return nil, Usage("the argument "+a.Name+" is not true or false", "send true or false without quotes")
	case int64:
		n, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil || n < a.Least || n > a.Most {
			return nil, Usage(fmt.Sprintf("the argument %s is not a whole number from %d to %d", a.Name, a.Least, a.Most), "send a number without quotes")
		}
		return n, nil
	case map[string]string:
		return a.object(raw)
	}
	return a.string(raw, workspace)
}

// object returns the value of an object of strings.
func (a Argument) object(raw json.RawMessage) (any, error) {
	given, err := fields(raw)
	if err != nil {
		return nil, Usage("the argument "+a.Name+" is not a JSON object: "+err.Error(), "send an object whose values are strings")
	}
	out := map[string]string{}
	for name, value := range given {
		of := Argument{Name: a.Name + "." + Cut(name, 60)}
		text, err := of.string(value, "")
		if err != nil {
			return nil, err
		}
		out[name] = text.(string)
	}
	return out, nil
}

// string returns the value of a string or of a path.
func (a Argument) string(raw json.RawMessage, workspace string) (any, error) {
	var s string
	if raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return nil, Usage("the argument "+a.Name+" is not a string", "send a JSON string")
	}
	if strings.ContainsRune(s, 0) {
		return nil, Usage("the argument "+a.Name+" contains a NUL", "leave the NUL out; acode writes text files")
	}
	if a.Choices != nil && !slices.Contains(a.Choices, s) {
		return nil, Usage(fmt.Sprintf("the argument %s is not one of: %s", a.Name, strings.Join(a.Choices, ", ")), "send one of these")
	}
	if a.Path {
		return cleaned(a.Name, s, workspace)
	}
	return s, nil
}

// cleaned returns a path relative to the workspace, in the form that makes equal paths
// equal. Whether it leads through a link to the outside is checked when it is opened.
func cleaned(name, s, workspace string) (string, error) {
	if s == "" {
		return "", Usage("the argument "+name+" is empty", "name a path of the workspace")
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
		return "", &session.Error{Code: session.ErrEscape, Message: "the path leaves the workspace; nothing was changed", Place: Cut(s, 200),
			Next: session.Words("name a path inside " + workspace)}
	}
	return rel, nil
}

// Cut shortens s for a message.
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// Names returns the names of tools.
func Names(all []Tool) []string {
	out := make([]string, len(all))
	for i, t := range all {
		out[i] = t.Name
	}
	return out
}

// JSONSchema returns Schema as text.
func (t Tool) JSONSchema() string {
	out, err := json.Marshal(t.Schema())
	if err != nil {
		panic(err) // a schema has texts, numbers and lists
	}
	return string(out)
}
