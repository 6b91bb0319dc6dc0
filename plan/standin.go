package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// firstStandIn begins the characters that nobody uses and that stand in for others while a file is parsed.
const firstStandIn = '\U00100000'

// standIns are what the parser does not read as YAML 1.2 does, and what reads that in its tree again: four
// characters that ended lines in YAML 1.1, or marked the order of bytes, and the escapes of two halves in which
// JSON writes a character that it does not have. Places do not change: each takes the room of what it stands for.
type standIns struct {
	inQuotes, elsewhere []string // in pairs, as strings.NewReplacer takes them; quotes are double
}

var (
	oddities = regexp.MustCompile(`(\\*)(\\u[dD][89abAB][[:xdigit:]]{2}\\u[dD][c-fC-F][[:xdigit:]]{2})|[\x{85}\x{2028}\x{2029}\x{feff}]`)
	taken    = regexp.MustCompile(`\\U001|[\x{100000}-\x{10ffff}]`)
)

// standIn gives the text as the parser is to read it. A file that has both what needs one and characters of
// those that stand in is refused.
func (s *source) standIn() (text []byte, in standIns, err error) {
	const odd = "\u0085\u2028\u2029\ufeff"
	at := bytes.IndexAny(s.text, odd)
	if at < 0 && !bytes.Contains(s.text, []byte(`\ud`)) && !bytes.Contains(s.text, []byte(`\uD`)) {
		return s.text, in, nil
	}
	if taken.Match(s.text) {
		if at < 0 {
			return s.text, in, nil
		}
		r, _ := utf8.DecodeRune(s.text[at:])
		return nil, in, s.fault(s.position(at), fmt.Sprintf("the character %U cannot stand as it is in a plan with characters from U+100000", r), fmt.Sprintf(`write it as \u%04x, in double quotes`, r))
	}
	known := map[string]string{}
	text = oddities.ReplaceAllFunc(s.text, func(found []byte) []byte {
		before := len(found) - len(bytes.TrimLeft(found, `\`))
		if before > 0 && before%2 == 0 { // the last one is escaped itself
			return found
		}
		kept := string(found[:max(before-1, 0)])
		written := string(found[len(kept):])
		if known[written] == "" {
			known[written] = in.add(written, firstStandIn+rune(len(known)))
		}
		return []byte(kept + known[written])
	})
	return text, in, nil
}

// add has r stand in for what is written, in each of its places.
func (in *standIns) add(written string, r rune) string {
	means := written
	if strings.HasPrefix(written, `\`) {
		_ = json.Unmarshal([]byte(`"`+written+`"`), &means) // two halves are one character
	}
	by := strings.Repeat(string(r), len([]rune(written)))
	in.inQuotes, in.elsewhere = append(in.inQuotes, by, means), append(in.elsewhere, by, written)
	return by
}

// restore puts into the values of n and below it what they stand for.
func (in *standIns) restore(n *yaml.Node) {
	if len(in.inQuotes) == 0 {
		return
	}
	quoted, other := strings.NewReplacer(in.inQuotes...), strings.NewReplacer(in.elsewhere...)
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		if n.Style&yaml.DoubleQuotedStyle != 0 {
			n.Value = quoted.Replace(n.Value)
		} else {
			n.Value = other.Replace(n.Value)
		}
		for _, child := range n.Content {
			walk(child)
		}
	}
	walk(n)
}
