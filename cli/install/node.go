package install

import (
	"encoding/json"
	"strings"
)

// node is a value in a JSON text, with its place.
type node struct {
	start, end int
	// kind is '{', '[', or 0 for any other value.
	kind  byte
	items []item
}

// item is a member of an object or an element of an array. It begins with its key, if it
// has one.
type item struct {
	start int
	key   string
	value node
}

// scanner reads a JSON text that is known to be valid.
type scanner struct {
	text string
	at   int
}

// scan returns the root of a valid JSON text.
func scan(text string) node {
	s := &scanner{text: text}
	s.space()
	return s.value()
}

func (s *scanner) space() {
	for s.at < len(s.text) && strings.IndexByte(" \t\r\n", s.text[s.at]) >= 0 {
		s.at++
	}
}

func (s *scanner) value() node {
	n := node{start: s.at}
	switch c := s.text[s.at]; c {
	case '{', '[':
		n.kind = c
		s.items(&n)
	case '"':
		s.quoted()
	default:
		s.at += len(s.text[s.at:]) - len(strings.TrimLeft(s.text[s.at:], "+-.0123456789abcdefghijklmnopqrstuvwxyzE"))
	}
	n.end = s.at
	return n
}

// items reads the items between the brackets of n.
func (s *scanner) items(n *node) {
	for s.at++; ; s.at++ {
		s.space()
		if c := s.text[s.at]; c == '}' || c == ']' {
			break
		}
		i := item{start: s.at}
		if n.kind == '{' {
			i.key = s.quoted()
			s.space()
			s.at++ // the colon
			s.space()
		}
		i.value = s.value()
		n.items = append(n.items, i)
		if s.space(); s.text[s.at] != ',' {
			break
		}
	}
	s.at++
}

func (s *scanner) quoted() (out string) {
	from := s.at
	for s.at++; s.text[s.at] != '"'; s.at++ {
		if s.text[s.at] == '\\' {
			s.at++
		}
	}
	s.at++
	_ = json.Unmarshal([]byte(s.text[from:s.at]), &out) // the text is valid
	return out
}

// find returns the number of the member with this key, or -1. Of two members with one key
// the last one counts, as for clients.
func (n node) find(key string) int {
	for i := len(n.items) - 1; i >= 0; i-- {
		if n.kind == '{' && n.items[i].key == key {
			return i
		}
	}
	return -1
}
