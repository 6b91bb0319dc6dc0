package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v4"

	"github.com/acode-dev/acode/session"
)

// source is a file being read, for the places in errors.
type source struct {
	loader *loader
	file   string
	lines  []string
	layer  layer
}

// file reads one layer from a YAML file (F2). data nil is no file.
func (l *loader) file(in layer, name string, data []byte) error {
	if data == nil {
		return nil
	}
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(string(data), "\ufeff"))
	src := &source{loader: l, file: name, lines: strings.Split(text, "\n"), layer: in}
	if reason := unreadable(text); reason != "" {
		return src.errorAt(nil, reason)
	}
	doc, err := src.parse(text)
	if err != nil || doc == nil {
		return err
	}
	return src.mapping(doc, "")
}

func (s *source) mapping(n *yaml.Node, prefix string) error {
	if err := s.plain(n); err != nil {
		return err
	}
	if n.Kind != yaml.MappingNode && n.Tag != "!!null" {
		what := cmp.Or(strings.TrimSuffix(prefix, "."), "the file")
		return s.errorAt(n, what+" must be a mapping of keys to values, not "+describe(n))
	}
	first := map[string]int{}
	for i := 0; i < len(n.Content); i += 2 {
		name := n.Content[i]
		if err := s.name(name); err != nil {
			return err
		}
		if line, twice := first[name.Value]; twice {
			return s.errorAt(name, fmt.Sprintf("%s is set twice, first on line %d", prefix+name.Value, line))
		}
		first[name.Value] = name.Line
		if err := s.entry(prefix+name.Value, name, n.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func (s *source) name(n *yaml.Node) error {
	if err := s.plain(n); err != nil {
		return err
	}
	if !isText(n) {
		return s.errorAt(n, "a key must be a name, not "+describe(n))
	}
	return nil
}

// entry takes one key, which is a setting or a section of several.
func (s *source) entry(path string, name, value *yaml.Node) error {
	k, isKey := s.loader.key(path)
	isSection := slices.ContainsFunc(s.loader.keys, func(k key) bool { return strings.HasPrefix(k.path, path+".") })
	switch {
	case !isKey && !isSection:
		return s.unknown(path, name)
	case s.layer == layerProject && !s.open(path):
		err := s.errorAt(name, fmt.Sprintf("a project's file cannot set %s, only resume keys", path))
		err.Next = "remove it here and set it in your own file, in the environment or by a flag"
		return err
	case isSection:
		return s.mapping(value, path+".")
	case value.Tag == "!!null":
		return s.errorAt(name, path+" has no value; it must be "+k.wants())
	}
	v, err := s.value(k, value)
	if err != nil {
		return err
	}
	if s.loader.set[path].layer == s.layer { // once as log.level, once below log
		return s.errorAt(name, path+" is set twice")
	}
	s.loader.put(k, v, fmt.Sprintf("%s:%d", s.display(), name.Line), s.layer)
	return nil
}

// open reports whether a project may set path or something below it.
func (s *source) open(path string) bool {
	return slices.ContainsFunc(s.loader.keys, func(k key) bool {
		return k.project && (k.path == path || strings.HasPrefix(k.path, path+"."))
	})
}

func (s *source) unknown(path string, name *yaml.Node) error {
	names := s.siblings(path)
	message := "unknown key " + path
	parent, last := "", path
	if at := strings.LastIndexByte(path, '.'); at >= 0 {
		parent, last = path[:at+1], path[at+1:]
	}
	if near := nearest(last, names); near != "" {
		message += "; did you mean " + parent + near + "?"
	}
	err := s.errorAt(name, message)
	err.Next = "known here: " + strings.Join(names, ", ")
	return err
}

// siblings lists the names that path's last part could have been.
func (s *source) siblings(path string) []string {
	parent := path[:strings.LastIndexByte(path, '.')+1]
	var names []string
	for _, k := range s.loader.keys {
		rest, ok := strings.CutPrefix(k.path, parent)
		if !ok || s.layer == layerProject && !k.project {
			continue
		}
		name, _, _ := strings.Cut(rest, ".")
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// value reads what stands after a key; its type must fit, for text in quotes is no
// number.
func (s *source) value(k key, n *yaml.Node) (parsed, error) {
	if err := s.plain(n); err != nil {
		return parsed{}, err
	}
	if n.Kind == yaml.SequenceNode && k.kind == kindPaths {
		return s.paths(k, n.Content)
	}
	text, ok := scalar(k.kind, n)
	if !ok {
		return parsed{}, s.wrong(k, n, fmt.Sprintf("must be %s, not %s", k.wants(), describe(n)))
	}
	v, err := k.parse(text, s.loader.home)
	if err != nil {
		return parsed{}, s.wrong(k, n, err.Error())
	}
	return v, nil
}

func (s *source) paths(k key, list []*yaml.Node) (parsed, error) {
	var texts []string
	for _, n := range list {
		if err := s.plain(n); err != nil {
			return parsed{}, err
		}
		if !isText(n) {
			return parsed{}, s.wrong(k, n, fmt.Sprintf("must be %s, not %s", k.wants(), describe(n)))
		}
		if _, err := k.parsePaths([]string{n.Value}, s.loader.home); err != nil {
			return parsed{}, s.wrong(k, n, err.Error())
		}
		texts = append(texts, n.Value)
	}
	return k.parsePaths(texts, s.loader.home)
}

// scalar returns the text of a node whose type suits a kind.
func scalar(want kind, n *yaml.Node) (string, bool) {
	switch {
	case isText(n):
		suits := slices.Contains([]kind{kindEnum, kindBytes, kindDuration, kindServer, kindListen}, want)
		return n.Value, suits || want == kindPath && n.Value != ""
	case n.Tag == "!!bool":
		return n.Value, want == kindBool
	case n.Tag == "!!int":
		return n.Value, want == kindCount || want == kindBytes
	}
	return "", false
}

func (s *source) wrong(k key, n *yaml.Node, reason string) error {
	return s.errorAt(n, k.path+" "+reason)
}

func (s *source) display() string {
	if s.file == "" {
		return "configuration"
	}
	return s.file
}

// errorAt makes the error for a place in the file, with its line and a caret below.
func (s *source) errorAt(n *yaml.Node, message string) *session.Error {
	err := &session.Error{Code: session.ErrConfig, Message: printable(message), Place: s.display(),
		Next: "correct the file; acode config validate checks it"}
	if n == nil {
		return err
	}
	err.Place = fmt.Sprintf("%s:%d:%d", s.display(), n.Line, n.Column)
	err.Message += "\n" + excerpt(hidePasswords(s.line(n.Line)), n.Line, n.Column)
	return err
}

// line gives line n, counted from 1; empty when there is none.
func (s *source) line(n int) string {
	if n < 1 || n > len(s.lines) {
		return ""
	}
	return s.lines[n-1]
}

// excerptWidth is how many characters stand before and after the caret at most.
const excerptWidth = 60

// excerpt shows a line with a caret below a column, both counted from 1.
func excerpt(text string, line, column int) string {
	chars := []rune(printable(text))
	at := min(column-1, len(chars))
	from, to := max(at-excerptWidth, 0), min(at+excerptWidth, len(chars))
	cutBefore, cutAfter := "", ""
	if from > 0 {
		cutBefore = "…"
	}
	if to < len(chars) {
		cutAfter = "…"
	}
	pad := strings.Map(func(c rune) rune {
		if c == '\t' {
			return c
		}
		return ' '
	}, cutBefore+string(chars[from:at]))
	return fmt.Sprintf("%4d | %s%s%s\n     | %s^", line, cutBefore, string(chars[from:to]), cutAfter, pad)
}

// printable replaces what would steer a terminal: the file is foreign.
func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if c == '\t' || unicode.IsPrint(c) {
			return c
		}
		return unicode.ReplacementChar
	}, s)
}
