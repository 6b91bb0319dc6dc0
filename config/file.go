package config

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/acode-dev/acode/session"
)

const (
	// maxFileBytes is far more than a configuration needs. The YAML parser takes the
	// square of some files' length: 50 seconds for 1 MiB, and at this size a fifth of a
	// second.
	maxFileBytes = 64 << 10

	// The YAML parser recurses, and a stack that overflows cannot be recovered from.
	// These bound how deep any text can nest.
	maxLineBytes = 4 << 10
	maxBrackets  = 256
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
	text := string(bytes.TrimPrefix(data, []byte("\ufeff")))
	src := &source{loader: l, file: name, lines: strings.Split(text, "\n"), layer: in}
	if reason := unreadable(data, src.lines); reason != "" {
		return src.errorAt(nil, reason)
	}
	doc, err := src.parse(text)
	if err != nil || doc == nil {
		return err
	}
	return src.mapping(doc, "")
}

// unreadable says why a file is not even parsed.
func unreadable(data []byte, lines []string) string {
	switch {
	case len(data) > maxFileBytes:
		return fmt.Sprintf("the file is larger than %d bytes", maxFileBytes)
	case !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0:
		return "the file is not UTF-8 text"
	case bytes.Count(data, []byte("["))+bytes.Count(data, []byte("{")) > maxBrackets:
		return fmt.Sprintf("the file has more than %d brackets", maxBrackets)
	case slices.ContainsFunc(lines, func(s string) bool { return len(s) > maxLineBytes }):
		return fmt.Sprintf("the file has a line of more than %d bytes", maxLineBytes)
	}
	return ""
}

// parse returns the body of the only document, or nil when it is empty.
func (s *source) parse(text string) (body ast.Node, err error) {
	defer func() {
		// The file is foreign, and a parser that trips over it must not end the program.
		if p := recover(); p != nil {
			body, err = nil, s.errorAt(nil, fmt.Sprintf("the file is not valid YAML (%v)", p))
		}
	}()
	f, err := parser.ParseBytes([]byte(text), 0)
	if err != nil {
		var at yaml.Error
		if errors.As(err, &at) {
			return nil, s.errorAt(at.GetToken(), "not valid YAML: "+at.GetMessage())
		}
		return nil, s.errorAt(nil, "not valid YAML: "+err.Error())
	}
	docs := slices.DeleteFunc(f.Docs, func(d *ast.DocumentNode) bool { return d.Body == nil })
	if len(docs) == 0 || docs[0].Body.Type() == ast.NullType {
		return nil, nil
	}
	if len(docs) > 1 {
		return nil, s.errorAt(docs[1].Body.GetToken(), "the file holds more than one document")
	}
	return docs[0].Body, nil
}

// pairs lists what a mapping holds.
func (s *source) pairs(n ast.Node, path string) ([]*ast.MappingValueNode, error) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, nil
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, nil
	case *ast.NullNode:
		return nil, nil
	}
	if err := s.plain(n); err != nil {
		return nil, err
	}
	what := "the file"
	if path != "" {
		what = path
	}
	return nil, s.errorAt(n.GetToken(), what+" must be a mapping of keys to values, not "+describe(n))
}

// plain refuses what gives one text a meaning that stands elsewhere, and a tab in a text: the
// parser drops it, or a character behind the quotes.
func (s *source) plain(n ast.Node) error {
	switch n.Type() {
	case ast.AnchorType, ast.AliasType, ast.MergeKeyType, ast.TagType, ast.DirectiveType:
		return s.errorAt(n.GetToken(), "anchors, aliases, merge keys and tags are not accepted; write the value out")
	}
	if t := n.GetToken(); t.Type != token.SingleQuoteType && strings.Contains(strings.TrimSpace(t.Origin), "\t") {
		return s.errorAt(t, "a tab stands in the text; write it as \\t in double quotes")
	}
	return nil
}

func (s *source) mapping(n ast.Node, prefix string) error {
	pairs, err := s.pairs(n, strings.TrimSuffix(prefix, "."))
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, p := range pairs {
		name, err := s.name(p.Key)
		if err != nil {
			return err
		}
		if seen[name] {
			return s.errorAt(p.Key.GetToken(), prefix+name+" is set twice")
		}
		seen[name] = true
		if err := s.entry(prefix+name, p); err != nil {
			return err
		}
	}
	return nil
}

func (s *source) name(n ast.MapKeyNode) (string, error) {
	if err := s.plain(n); err != nil {
		return "", err
	}
	if text, ok := n.(*ast.StringNode); ok {
		return text.Value, nil
	}
	return "", s.errorAt(n.GetToken(), "a key must be a name, not "+describe(n))
}

// entry takes one key, which is a setting or a section of several.
func (s *source) entry(path string, p *ast.MappingValueNode) error {
	k, isKey := s.loader.key(path)
	isSection := slices.ContainsFunc(s.loader.keys, func(k key) bool { return strings.HasPrefix(k.path, path+".") })
	switch {
	case !isKey && !isSection:
		return s.unknown(path, p)
	case s.layer == layerProject && !s.open(path):
		err := s.errorAt(p.Key.GetToken(), fmt.Sprintf("a project's file cannot set %s, only resume keys", path))
		err.Next = "remove it here and set it in your own file, in the environment or by a flag"
		return err
	case isSection:
		return s.mapping(p.Value, path+".")
	case p.Value.Type() == ast.NullType:
		return s.errorAt(p.Key.GetToken(), path+" has no value; it must be "+k.wants())
	}
	v, err := s.value(k, p.Value)
	if err != nil {
		return err
	}
	if s.loader.set[path].layer == s.layer { // once as log.level, once below log
		return s.errorAt(p.Key.GetToken(), path+" is set twice")
	}
	line := p.Key.GetToken().Position.Line
	s.loader.put(k, v, fmt.Sprintf("%s:%d", s.display(), line), s.layer)
	return nil
}

// open reports whether a project may set path or something below it.
func (s *source) open(path string) bool {
	return slices.ContainsFunc(s.loader.keys, func(k key) bool {
		return k.project && (k.path == path || strings.HasPrefix(k.path, path+"."))
	})
}

func (s *source) unknown(path string, p *ast.MappingValueNode) error {
	names := s.siblings(path)
	message := "unknown key " + path
	parent, last := "", path
	if at := strings.LastIndexByte(path, '.'); at >= 0 {
		parent, last = path[:at+1], path[at+1:]
	}
	if near := nearest(last, names); near != "" {
		message += "; did you mean " + parent + near + "?"
	}
	err := s.errorAt(p.Key.GetToken(), message)
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
func (s *source) value(k key, n ast.Node) (parsed, error) {
	if err := s.plain(n); err != nil {
		return parsed{}, err
	}
	if list, ok := n.(*ast.SequenceNode); ok && k.kind == kindPaths {
		return s.paths(k, list)
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

func (s *source) paths(k key, list *ast.SequenceNode) (parsed, error) {
	var texts []string
	for _, n := range list.Values {
		if err := s.plain(n); err != nil {
			return parsed{}, err
		}
		text, ok := n.(*ast.StringNode)
		if !ok {
			return parsed{}, s.wrong(k, n, fmt.Sprintf("must be %s, not %s", k.wants(), describe(n)))
		}
		if _, err := k.parsePaths([]string{text.Value}, s.loader.home); err != nil {
			return parsed{}, s.wrong(k, n, err.Error())
		}
		texts = append(texts, text.Value)
	}
	return k.parsePaths(texts, s.loader.home)
}

// scalar returns the text of a node whose type suits a kind.
func scalar(want kind, n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		switch want {
		case kindEnum, kindBytes, kindDuration, kindServer, kindListen:
			return n.Value, true
		}
		return n.Value, want == kindPath && n.Value != ""
	case *ast.BoolNode:
		return fmt.Sprint(n.Value), want == kindBool
	case *ast.IntegerNode:
		return fmt.Sprint(n.Value), want == kindCount || want == kindBytes
	}
	return "", false
}

// describe names a node for a person.
func describe(n ast.Node) string {
	switch n.Type() {
	case ast.NullType:
		return "nothing"
	case ast.MappingType, ast.MappingValueType:
		return "a mapping"
	case ast.SequenceType:
		return "a list"
	case ast.StringType, ast.LiteralType:
		return "text"
	case ast.BoolType:
		return "true or false"
	}
	return "a number"
}

func (s *source) wrong(k key, n ast.Node, reason string) error {
	return s.errorAt(n.GetToken(), k.path+" "+reason)
}

func (s *source) display() string {
	if s.file == "" {
		return "configuration"
	}
	return s.file
}

// errorAt makes the error for a place in the file, with its line and a caret below.
func (s *source) errorAt(t *token.Token, message string) *session.Error {
	err := &session.Error{Code: session.ErrConfig, Message: printable(message), Place: s.display(),
		Next: "correct the file; acode config validate checks it"}
	if t == nil || t.Position == nil || t.Position.Line < 1 || t.Position.Line > len(s.lines) {
		return err
	}
	line, column := t.Position.Line, max(t.Position.Column, 1)
	err.Place = fmt.Sprintf("%s:%d:%d", s.display(), line, column)
	err.Message += "\n" + excerpt(hidePasswords(strings.TrimRight(s.lines[line-1], "\r")), line, column)
	return err
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
