package config

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

const (
	maxFileBytes = 64 << 10 // far more than a configuration needs
	maxDepth     = 32       // the YAML parser recurses
)

// unreadable says why a file is not even parsed.
func unreadable(text string) string {
	odd := strings.IndexFunc(text, func(r rune) bool { return !stands(r) })
	switch {
	case len(text) > maxFileBytes:
		return fmt.Sprintf("the file is larger than %d bytes", maxFileBytes)
	case !utf8.ValidString(text) || strings.Contains(text, "\x00"):
		return "the file is not UTF-8 text"
	case odd >= 0:
		r, _ := utf8.DecodeRuneInString(text[odd:])
		return fmt.Sprintf("the character %U cannot stand in the file as it is", r)
	}
	return ""
}

// stands reports whether r may stand in a file: YAML allows no control characters, and what was the end of a
// line in YAML 1.1, or the mark of a byte order, is read differently by its parsers.
func stands(r rune) bool {
	switch r {
	case '\t', '\n':
		return true
	case '\u0085', '\u2028', '\u2029', '\ufeff', '\ufffe', '\uffff':
		return false
	}
	return r >= ' '
}

// parse returns the root of the only document, or nil when it is empty.
func (s *source) parse(text string) (root *yaml.Node, err error) {
	defer func() {
		// The file is foreign, and a parser that trips over it must not end the program.
		if p := recover(); p != nil {
			root, err = nil, s.errorAt(nil, fmt.Sprintf("the file is not valid YAML (%v)", p))
		}
	}()
	loader, err := yaml.NewLoader(strings.NewReader(text), yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(maxDepth))))
	for err == nil {
		var document yaml.Node
		if err = loader.Load(&document); err != nil || document.Content[0].Tag == "!!null" {
			continue
		}
		if root != nil {
			return nil, s.errorAt(document.Content[0], "the file holds more than one document")
		}
		root = document.Content[0]
	}
	if errors.Is(err, io.EOF) {
		return root, nil
	}
	return nil, s.syntax(err)
}

// syntax makes the error for a file that is no YAML.
func (s *source) syntax(err error) error {
	var e *yaml.LoadError
	if !errors.As(err, &e) {
		return s.errorAt(nil, "not valid YAML: "+err.Error())
	}
	at := &yaml.Node{Line: e.Mark.Line, Column: e.Mark.Column}
	line := s.line(at.Line)
	switch {
	case strings.HasPrefix(e.Message, "exceeded max depth"):
		return s.errorAt(at, fmt.Sprintf("the file is nested more than %d deep", maxDepth))
	case strings.HasPrefix(e.Message, "unknown anchor"):
		return s.errorAt(at, notPlain)
	case at.Column <= len(line) && line[at.Column-1] == '\t':
		return s.errorAt(at, "not valid YAML: a tab stands where lines are indented")
	case line == "" && e.ContextMark.Line > 0: // the end of the file, where nothing is to be seen
		at = &yaml.Node{Line: e.ContextMark.Line, Column: e.ContextMark.Column}
	}
	return s.errorAt(at, "not valid YAML: "+strings.TrimPrefix(e.ContextMsg+", "+e.Message, ", "))
}

const notPlain = "anchors, aliases, merge keys and tags are not accepted; write the value out"

// plain refuses what gives one text a meaning that stands elsewhere.
func (s *source) plain(n *yaml.Node) error {
	if n.Anchor != "" || n.Kind == yaml.AliasNode || n.Style&yaml.TaggedStyle != 0 || n.Tag == "!" || n.Tag == "!!merge" {
		return s.errorAt(n, notPlain)
	}
	return nil
}

// isText reports whether n is text: dates are, for YAML 1.2 knows none.
func isText(n *yaml.Node) bool { return n.Tag == "!!str" || n.Tag == "!!timestamp" }

// describe names a node for a person.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isText(n):
		return "text"
	case n.Tag == "!!null":
		return "nothing"
	case n.Tag == "!!bool":
		return "true or false"
	}
	return "a number"
}
