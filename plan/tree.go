package plan

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// The bounds of a plan's tree; a plan nests 8 deep.
const (
	maxDepth = 32
	maxKeys  = 1000 // in one mapping
	maxKey   = 256  // bytes in one key
)

// tree gives the root of the one document, in which nothing is left that a plan does not use; nil for a
// file without content.
func tree(src *source) (*yaml.Node, error) {
	if err := src.checkDirectives(); err != nil {
		return nil, err
	}
	loader, err := yaml.NewLoader(bytes.NewReader(joined(src.text)), yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(maxDepth))))
	if err != nil {
		return nil, err
	}
	first, err := src.document(loader)
	if err != nil || first == nil {
		return nil, err
	}
	second, err := src.document(loader)
	if err != nil {
		return nil, err
	}
	if second != nil {
		return nil, src.fault(place(second), "a plan is one YAML document; a second one begins here", "put each plan into a file of its own")
	}
	root := first.Content[0]
	return root, src.check(root, 1)
}

// document reads the next document; nil when there is none.
func (s *source) document(loader *yaml.Loader) (*yaml.Node, error) {
	var n yaml.Node
	var syntax *yaml.LoadError
	switch err := loader.Load(&n); {
	case errors.As(err, &syntax):
		return nil, s.syntax(syntax)
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, s.fault(position{1, 1}, "the file is not YAML", "")
	}
	return &n, nil
}

// checkDirectives refuses them before the parser, in whose tree they do not show.
func (s *source) checkDirectives() error {
	n := 0
	for line := range bytes.Lines(s.text) {
		n++
		if line[0] == '%' {
			return s.refuse(position{n, 1}, "directives")
		}
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			break
		}
	}
	return nil
}

// check refuses what a plan does not use, in n and below it.
func (s *source) check(n *yaml.Node, depth int) error {
	switch at := place(n); {
	case depth > maxDepth:
		return s.tooDeep(at)
	case n.Kind == yaml.AliasNode:
		return s.refuse(at, "aliases")
	case n.Anchor != "":
		return s.refuse(at, "anchors")
	case n.Style&yaml.TaggedStyle != 0 || n.Tag == "!":
		return s.refuse(at, "tags")
	}
	if n.Kind == yaml.MappingNode {
		if err := s.checkKeys(n); err != nil {
			return err
		}
	}
	for _, child := range n.Content {
		if s.lost(child, n.Column) {
			return s.fault(place(child), "a line without text stands above this text and has more blanks than it", "remove its blanks")
		}
		if err := s.check(child, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// lost reports whether the parser left out text below the "|" or ">" of n, in what begins at column: where a
// line without text stands above it with more blanks, it takes those for the indentation, and lines that are
// indented less for comments if they begin with "#".
func (s *source) lost(n *yaml.Node, column int) bool {
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 || strings.Trim(n.Value, "\n") != "" {
		return false
	}
	most := 0
	for _, line := range s.split()[n.Line:] {
		blanks := len(line) - len(bytes.TrimLeft(line, " "))
		if text := bytes.TrimSpace(line); len(text) > 0 {
			return text[0] == '#' && blanks >= column && blanks < most
		}
		most = max(most, blanks)
	}
	return false
}

func (s *source) tooDeep(at position) error {
	return s.fault(at, fmt.Sprintf("nested more than %d deep", maxDepth), "")
}

func (s *source) checkKeys(n *yaml.Node) error {
	if len(n.Content) > 2*maxKeys {
		return s.fault(place(n.Content[2*maxKeys]), fmt.Sprintf("more than %d keys in one mapping", maxKeys), "")
	}
	for key := range pairs(n) {
		switch at := place(key); {
		case len(key.Value) > maxKey:
			return s.fault(at, fmt.Sprintf("a key is longer than %d bytes", maxKey), "")
		case key.Tag == "!!merge":
			return s.refuse(at, "merge keys")
		case n.Style&yaml.FlowStyle == 0 && key.Column != n.Column: // the mapping begins at its first "?"
			return s.refuse(position{at.line, n.Column}, `keys written with "?"`)
		}
	}
	return nil
}
