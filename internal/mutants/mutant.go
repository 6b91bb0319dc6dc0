package main

import (
	"bufio"
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

//go:embed tables/*.txt
var tables embed.FS

// named is the table of the mutants that must all be killed.
const named = "named"

// mutant is one mistake and the tests that claim to notice it.
type mutant struct {
	// id is table/name.
	id string
	// file is relative to the root of the module.
	file string
	// old occurs in file exactly once.
	old string
	new string
	// why is the consequence of the mistake.
	why   string
	tests []claim
}

// claim names tests of one package. A name with a slash is a subtest and must be the only
// name.
type claim struct {
	folder string
	names  []string
}

// pattern returns the argument of go test -run.
func (c claim) pattern() string {
	if len(c.names) == 1 && strings.Contains(c.names[0], "/") {
		parts := strings.Split(c.names[0], "/")
		for i, p := range parts {
			parts[i] = "^" + regexp.QuoteMeta(p) + "$"
		}
		return strings.Join(parts, "/")
	}
	return "^(" + strings.Join(c.names, "|") + ")$"
}

// load reads every table. The mutants of the table named come first.
func load() ([]mutant, error) {
	names, err := fs.Glob(tables, "tables/*.txt")
	if err != nil {
		return nil, err
	}
	var first, rest []mutant
	seen := map[string]bool{}
	for _, name := range names {
		text, err := tables.ReadFile(name)
		if err != nil {
			return nil, err
		}
		group := strings.TrimSuffix(path.Base(name), ".txt")
		ms, err := parse(group, text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, m := range ms {
			if seen[m.id] {
				return nil, fmt.Errorf("%s: %s occurs twice", name, m.id)
			}
			seen[m.id] = true
		}
		if group == named {
			first = ms
		} else {
			rest = append(rest, ms...)
		}
	}
	return append(first, rest...), nil
}

// parse reads one table. A mutant is a block of lines that an empty line ends:
//
//	mutant NAME
//	file PATH
//	tests FOLDER TEST...
//	why TEXT
//	-old text
//	+new text
//
// The old and the new text follow the sign; several lines are joined. A line that begins
// with # is a comment.
func parse(group string, text []byte) ([]mutant, error) {
	var out []mutant
	var m *mutant
	var before, after []string
	end := func() error {
		if m == nil {
			return nil
		}
		m.old, m.new = strings.Join(before, "\n"), strings.Join(after, "\n")
		if err := m.complete(); err != nil {
			return fmt.Errorf("%s: %w", m.id, err)
		}
		out = append(out, *m)
		m, before, after = nil, nil, nil
		return nil
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		if line == "" {
			if err := end(); err != nil {
				return nil, err
			}
			continue
		}
		word, value, _ := strings.Cut(line, " ")
		if m == nil {
			if word != "mutant" {
				return nil, fmt.Errorf("%q: want mutant NAME", line)
			}
			m = &mutant{id: group + "/" + value}
			continue
		}
		switch {
		case line[0] == '-':
			before = append(before, line[1:])
		case line[0] == '+':
			after = append(after, line[1:])
		case word == "file":
			m.file = value
		case word == "why":
			m.why = value
		case word == "tests":
			fields := strings.Fields(value)
			if len(fields) < 2 {
				return nil, fmt.Errorf("%s: %q: want a folder and names of tests", m.id, line)
			}
			m.tests = append(m.tests, claim{fields[0], fields[1:]})
		default:
			return nil, fmt.Errorf("%s: %q is no line of a mutant", m.id, line)
		}
	}
	return out, errors.Join(lines.Err(), end())
}

func (m *mutant) complete() error {
	switch {
	case m.file == "" || m.why == "" || m.old == "":
		return errors.New("file, why or old text is missing")
	case len(m.tests) == 0:
		return errors.New("no test claims it")
	case m.old == m.new:
		return errors.New("it changes nothing")
	}
	return nil
}

// plant returns the file below root with the mistake in it.
func (m *mutant) plant(root string) ([]byte, error) {
	b, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.id, err)
	}
	if n := bytes.Count(b, []byte(m.old)); n != 1 {
		return nil, fmt.Errorf("%s: the old text occurs %d times in %s, want once", m.id, n, m.file)
	}
	return bytes.Replace(b, []byte(m.old), []byte(m.new), 1), nil
}

// claimed checks that the tests of m exist.
func (m *mutant) claimed(root string) error {
	for _, c := range m.tests {
		files, err := filepath.Glob(filepath.Join(root, c.folder, "*_test.go"))
		if err != nil {
			return err
		}
		var all []byte
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				return err
			}
			all = append(all, b...)
		}
		for _, name := range c.names {
			name, _, _ = strings.Cut(name, "/")
			if !bytes.Contains(all, []byte("\nfunc "+name+"(t ")) {
				return fmt.Errorf("%s: %s has no test %s", m.id, c.folder, name)
			}
		}
	}
	return nil
}
