package strictyaml

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// The limits of a tree. A plan has a depth of 8.
const (
	maxDepth = 32
	// keys in one mapping
	maxKeys = 1000
	// bytes in one key
	maxKey = 256
)

// read returns the root of the only document, after it has refused everything outside the
// subset. It returns nil for a file without content.
func (r *Reader) read(data []byte) (root *yaml.Node, err error) {
	if len(data) > r.Format.Bytes {
		return nil, r.Format.tooLarge(r.Name)
	}
	r.text = lines(data)
	if err := r.checkText(); err != nil {
		return nil, err
	}
	if err := r.checkDirectives(); err != nil {
		return nil, err
	}
	start := Position{1, 1}
	defer func() {
		// The file may come from a stranger. A panic of the parser must not end the
		// program.
		if p := recover(); p != nil {
			root, err = nil, r.fault(start, "", "the file is not YAML (%v)", p)
		}
	}()
	var documents [2]yaml.Node
	loader, err := yaml.NewLoader(bytes.NewReader(joined(r.text)), yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(maxDepth))))
	for i := 0; i < len(documents) && err == nil; i++ {
		err = loader.Load(&documents[i])
	}
	var syntax *yaml.LoadError
	switch second := &documents[1]; {
	case errors.As(err, &syntax):
		return nil, r.syntax(syntax)
	case err == nil:
		return nil, r.fault(place(second), "put each "+r.Format.Name+" into a file of its own", "a %s is one YAML document; a second one begins here", r.Format.Name)
	case !errors.Is(err, io.EOF):
		return nil, r.fault(start, "", "the file is not YAML")
	case documents[0].Kind == 0:
		return nil, nil
	}
	root = documents[0].Content[0]
	return root, r.check(root, 1)
}

// checkDirectives refuses directives before the parser runs, because the tree does not
// contain them.
func (r *Reader) checkDirectives() error {
	n := 0
	for line := range bytes.Lines(r.text) {
		n++
		if line[0] == '%' {
			return r.refuse(Position{n, 1}, "directives")
		}
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			break
		}
	}
	return nil
}

// check refuses everything outside the subset in n and below it.
func (r *Reader) check(n *yaml.Node, depth int) error {
	switch at := place(n); {
	case depth > maxDepth:
		return r.tooDeep(at)
	case n.Kind == yaml.AliasNode:
		return r.refuse(at, "aliases")
	case n.Anchor != "":
		return r.refuse(at, "anchors")
	case n.Style&yaml.TaggedStyle != 0 || n.Tag == "!":
		return r.refuse(at, "tags")
	}
	if n.Kind == yaml.MappingNode {
		if err := r.checkKeys(n); err != nil {
			return err
		}
	}
	for _, child := range n.Content {
		if r.lost(child, n.Column) {
			return r.fault(place(child), "remove the spaces of the empty line", "an empty line above this text has more spaces than the text")
		}
		if err := r.check(child, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// lost reports whether the parser dropped text from the block scalar n, in a node that
// begins at column. The parser takes an empty line with more spaces as the indentation of
// the text. It then drops less indented lines that begin with "#" as comments.
func (r *Reader) lost(n *yaml.Node, column int) bool {
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 || strings.Trim(n.Value, "\n") != "" {
		return false
	}
	most := 0
	for _, line := range r.split()[n.Line:] {
		blanks := len(line) - len(strings.TrimLeft(line, " "))
		if text := strings.TrimSpace(line); text != "" {
			return text[0] == '#' && blanks >= column && blanks < most
		}
		most = max(most, blanks)
	}
	return false
}

func (r *Reader) tooDeep(at Position) error {
	return r.fault(at, "", "nested more than %d deep", maxDepth)
}

func (r *Reader) checkKeys(n *yaml.Node) error {
	if len(n.Content) > 2*maxKeys {
		return r.fault(place(n.Content[2*maxKeys]), "", "more than %d keys in one mapping", maxKeys)
	}
	for key := range pairs(n) {
		switch at := place(key); {
		case len(key.Value) > maxKey:
			return r.fault(at, "", "a key is longer than %d bytes", maxKey)
		case key.Tag == "!!merge":
			return r.refuse(at, "merge keys")
		case n.Style&yaml.FlowStyle == 0 && key.Column != n.Column: // The mapping begins at its first "?".
			return r.refuse(Position{at.Line, n.Column}, `keys written with "?"`)
		}
	}
	return nil
}
