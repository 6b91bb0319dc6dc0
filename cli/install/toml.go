package install

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// errForm refuses a file that a search by lines misreads.
var errForm = errors.New("its form leaves no place for the change")

// table is an addition to a TOML file: keys of a table, or a table as a whole.
type table struct {
	// Name is the name of the table, such as mcp_servers.acode.
	Name string `json:"name"`
	// Lines are the keys with their values.
	Lines []string `json:"lines"`
	// Whole says that all of the table and of the tables below it belongs to acode.
	Whole bool `json:"whole,omitempty"`
	// Made says that acode wrote the header.
	Made bool `json:"made,omitempty"`
	// Joined says that the last line of the file had no line end.
	Joined bool `json:"joined,omitempty"`
}

// tomlText is a TOML file that is edited as lines, each with its end.
type tomlText struct{ lines []string }

func parseTOML(text string) (*tomlText, error) {
	_, err := decode(text)
	return &tomlText{slices.Collect(strings.Lines(text))}, err
}

func decode(text string) (map[string]any, error) {
	values := map[string]any{}
	err := toml.Unmarshal([]byte(text), &values)
	var wrong *toml.DecodeError
	if errors.As(err, &wrong) {
		line, _ := wrong.Position()
		return nil, fmt.Errorf("line %d is not TOML: %w", line, err)
	}
	return values, err
}

func (t *tomlText) String() string { return strings.Join(t.lines, "") }

// newline returns the line end of the file.
func (t *tomlText) newline() string {
	if len(t.lines) > 0 && strings.HasSuffix(t.lines[0], "\r\n") {
		return "\r\n"
	}
	return "\n"
}

// add adds a table, or those of its keys that the file does not have. It returns the
// addition, which has no lines if all of it is there.
func (t *tomlText) add(want table) (table, error) {
	have, err := decode(t.String())
	if err != nil {
		return want, err
	}
	all, err := decode("[" + want.Name + "]\n" + strings.Join(want.Lines, "\n"))
	if err != nil {
		return want, err
	}
	path := strings.Split(want.Name, ".")
	lines := want.Lines
	want.Lines = nil
	switch old, ok := lookup(have, path).(map[string]any); {
	case reflect.DeepEqual(old, lookup(all, path)):
		return want, nil
	case ok && want.Whole:
		return want, fmt.Errorf("it has a table %s already, which is not the one that acode writes", want.Name)
	default:
		for _, line := range lines {
			key := keyOf(line)
			if value, ok := old[key]; !ok {
				want.Lines = append(want.Lines, line)
			} else if !reflect.DeepEqual(value, lookup(all, append(path, key))) {
				return want, fmt.Errorf("%s.%s has another value already", want.Name, key)
			}
		}
	}
	if len(want.Lines) == 0 {
		return want, nil
	}
	t.insert(&want)
	return want, t.check(merged(have, all))
}

func keyOf(line string) string { return strings.TrimSpace(strings.SplitN(line, "=", 2)[0]) }

// insert writes the lines behind the header of their table, or a new table at the end.
func (t *tomlText) insert(add *table) {
	nl, last := t.newline(), len(t.lines)-1
	at := slices.IndexFunc(t.lines, func(l string) bool { return header(l) == add.Name })
	var block []string
	if at < 0 {
		add.Made, at = true, last
		if at >= 0 {
			block = append(block, nl)
		}
		block = append(block, "["+add.Name+"]"+nl)
	}
	if at >= 0 && !strings.HasSuffix(t.lines[at], "\n") {
		t.lines[at] += nl
		add.Joined = true
	}
	for _, line := range add.Lines {
		block = append(block, line+nl)
	}
	t.lines = slices.Insert(t.lines, at+1, block...)
}

// remove removes a table or keys that add added. Those that are gone are no error.
func (t *tomlText) remove(gone table) error {
	have, err := decode(t.String())
	if err != nil {
		return err
	}
	path := strings.Split(gone.Name, ".")
	if gone.Whole {
		drop(have, path)
	} else {
		for _, line := range gone.Lines {
			drop(have, append(path, keyOf(line)))
		}
	}
	for i := len(t.lines) - 1; i >= 0; i = min(i, len(t.lines)) - 1 {
		switch name := header(t.lines[i]); {
		case gone.Whole && (name == gone.Name || strings.HasPrefix(name, gone.Name+".")):
			t.cut(i, t.section(i), gone.Joined)
		case !gone.Whole && name == gone.Name:
			t.cutKeys(i, gone)
		}
	}
	return t.check(have)
}

// cutKeys removes keys of the table whose header is line i, and the header if acode wrote
// it and nothing is left.
func (t *tomlText) cutKeys(i int, gone table) {
	for _, line := range gone.Lines {
		same := func(l string) bool { return strings.TrimSpace(l) == line }
		if n := slices.IndexFunc(t.lines[i:t.section(i)], same); n > 0 {
			t.cut(i+n, i+n+1, false)
		}
	}
	if end := t.section(i); gone.Made && end == i+1 {
		t.cut(i, end, gone.Joined)
	} else if last := len(t.lines) - 1; gone.Joined && end == len(t.lines) {
		t.lines[last] = strings.TrimRight(t.lines[last], "\r\n")
	}
}

// section returns the end of the table whose header is line i. The blank lines and
// comments before the next header belong to that one.
func (t *tomlText) section(i int) int {
	end := i + 1
	for n := end; n < len(t.lines) && header(t.lines[n]) == ""; n++ {
		if text := strings.TrimSpace(t.lines[n]); text != "" && !strings.HasPrefix(text, "#") {
			end = n + 1
		}
	}
	return end
}

// cut removes lines. Before a table it also removes the blank line that add wrote, and at
// the end of a file the line end.
func (t *tomlText) cut(from, to int, joined bool) {
	atEnd := to == len(t.lines)
	if from > 0 && header(t.lines[from]) != "" && strings.TrimSpace(t.lines[from-1]) == "" {
		from--
	}
	t.lines = slices.Delete(t.lines, from, to)
	if joined && atEnd && from > 0 {
		t.lines[from-1] = strings.TrimRight(t.lines[from-1], "\r\n")
	}
}

// header returns the name of the table that a line begins; empty for other lines.
func header(line string) string {
	line, _, _ = strings.Cut(strings.TrimSpace(line), "#")
	name, ok := strings.CutPrefix(strings.TrimSpace(line), "[")
	if !ok {
		return ""
	}
	parts := strings.Split(strings.Trim(name, "[]"), ".")
	for i := range parts {
		parts[i] = strings.Trim(strings.TrimSpace(parts[i]), `"'`)
	}
	return strings.Join(parts, ".")
}

// check reports whether the text now means want.
func (t *tomlText) check(want map[string]any) error {
	got, err := decode(t.String())
	if err != nil || !reflect.DeepEqual(pruned(got), pruned(want)) {
		return errForm
	}
	return nil
}

// lookup returns the value at path, or nil.
func lookup(values map[string]any, path []string) any {
	var v any = values
	for _, key := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}

// drop removes the value at path.
func drop(values map[string]any, path []string) {
	if m, ok := lookup(values, path[:len(path)-1]).(map[string]any); ok {
		delete(m, path[len(path)-1])
	}
}

// merged returns a with the values of b.
func merged(a, b map[string]any) map[string]any {
	for key, value := range b {
		old, ok := a[key].(map[string]any)
		add, both := value.(map[string]any)
		if ok && both {
			a[key] = merged(old, add)
		} else {
			a[key] = value
		}
	}
	return a
}

// pruned returns values without the tables that hold nothing.
func pruned(values map[string]any) map[string]any {
	for key, value := range values {
		if m, ok := value.(map[string]any); ok && len(pruned(m)) == 0 {
			delete(values, key)
		}
	}
	return values
}
