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
)

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
	// def is the default, whose type is that of the argument: string, int64 or bool.
	def      any
	required bool
	// least and most limit an int64.
	least, most int64
	// path says that the argument is a path of the workspace.
	path bool
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

func handle() argument {
	return text("handle", `the operation, for example "n12", from the result that named it`)
}

// fresh is an argument of every tool that changes something. Calls are equal without it.
const fresh = "fresh"

func freshArgument() argument {
	return argument{name: fresh, def: false, about: "carry the call out even if it equals an earlier one whose answer you may have lost"}
}

// tools returns all tools in the order in which they are listed.
func tools() []tool {
	dir := argument{name: "path", def: ".", path: true}
	where := dir
	where.about = "a directory, or a glob such as src/**/*.go"
	below := dir
	below.about = "a file, a directory or a glob to search in"
	all := []tool{
		{name: "read_file", title: "Read file", about: "Read lines of a text file. Secrets in it are masked with asterisks.",
			args: []argument{file("path", "the file, relative to the workspace"), number("line", "the first line, from 1", 1, 1, 1<<40), number("lines", "how many lines at most; 0 means as many as fit", 0, 0, 1<<40)}},
		{name: "list_files", title: "List files", about: "List a directory, or the files that match a glob.",
			args: []argument{where, number("limit", "how many entries at most", 1000, 1, 100_000)}},
		{name: "search", title: "Search", about: "Find lines that match a regular expression (RE2).",
			args: []argument{text("pattern", "a regular expression"), below}},
		{name: "write_file", title: "Write file", needs: powerFiles, destroys: true,
			about: "Write a whole file. A mask of asterisks in content stands for the secret that it masked in this file.",
			args:  []argument{file("path", "the file, relative to the workspace"), text("content", "the whole new content")}},
		{name: "edit_file", title: "Edit file", needs: powerFiles, destroys: true,
			about: "Replace a text in a file. The text must occur exactly once, unless replace_all is true.",
			args: []argument{file("path", "the file, relative to the workspace"), text("old_string", "the text to replace"), text("new_string", "the text to put in its place"),
				{name: "replace_all", def: false, about: "replace every occurrence"}}},
		{name: "delete_file", title: "Delete file", needs: powerFiles, destroys: true, about: "Delete a file.",
			args: []argument{file("path", "the file, relative to the workspace")}},
		{name: "move_file", title: "Move file", needs: powerFiles, destroys: true, about: "Move or rename a file. Nothing may exist at the new path.",
			args: []argument{file("from", "the file, relative to the workspace"), file("to", "its new path")}},
		{name: "run_command", title: "Run command", needs: powerCommands, destroys: true, open: true,
			about: "Run a command with /bin/sh -e -c. A long command returns a handle and continues; it also continues if you are interrupted.",
			args: []argument{text("command", "the command"), number("timeout_s", "end the command after this many seconds; 0 means never", 0, 0, 7*24*3600),
				{name: "dir", def: ".", path: true, about: "the directory to run in, relative to the workspace"}}},
		{name: "wait_command", title: "Wait for a command", about: "Wait for a command that still runs, and return its result.", args: []argument{handle()}},
		{name: "command_output", title: "Read the output of a command", about: "Read a part of the output of a command, also while it runs.",
			args: []argument{handle(), number("from", "the offset of the first byte", 0, 0, 1<<50), number("limit", "how many bytes at most", 20_000, 1, 100_000)}},
		{name: "stop_command", title: "Stop a command", needs: powerCommands, destroys: true, control: true, about: "End a command that still runs.", args: []argument{handle()}},
		{name: "session_state", title: "Session state", about: "List the operations that still run, and those whose answers you may not have seen."},
		{name: "operation_result", title: "Result of an operation", about: "Return the recorded result of an operation. Nothing is carried out.", args: []argument{handle()}},
	}
	for i := range all {
		if all[i].changes() {
			all[i].args = append(all[i].args, freshArgument())
		}
	}
	return all
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
		panic(err) // strings, numbers and booleans can be encoded
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
	}
	var s string
	if raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return nil, usage("the argument "+a.name+" is not a string", "send a JSON string")
	}
	if strings.ContainsRune(s, 0) {
		return nil, usage("the argument "+a.name+" contains a NUL", "leave the NUL out; acode writes text files")
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

// operation returns the operation that a handle names.
func operation(handle string) (session.StepID, error) {
	id := session.CallsStep()
	id.Op = handle
	if n, err := strconv.Atoi(strings.TrimPrefix(handle, "n")); err != nil || n < 1 || session.CallID(session.CallsStep(), n) != id {
		return id, &session.Error{Code: session.ErrUnknownID, Message: fmt.Sprintf("%q is not a handle; nothing was changed", cut(handle, 60)),
			Next: session.Words("use the handle from a result; session_state lists those that are open")}
	}
	return id, nil
}

// find returns the tool with a name, if o allows it.
func (o *Options) find(name string) (tool, error) {
	all := tools()
	i := slices.IndexFunc(all, func(t tool) bool { return t.name == name })
	if i < 0 {
		names := make([]string, len(all))
		for i, t := range all {
			names[i] = t.name
		}
		return tool{}, usage(fmt.Sprintf("there is no tool %q", cut(name, 60)), "the tools are "+strings.Join(names, ", "))
	}
	if !o.allows(all[i].needs) {
		return tool{}, &session.Error{Code: session.ErrDenied, Message: name + " is not allowed on this server; nothing was changed",
			Next: session.Words("a person can start the server with --allow " + string(all[i].needs))}
	}
	return all[i], nil
}
