package wire

import (
	"bytes"
	"encoding/json"
	"iter"
)

// Events returns the data of the whole events of a stream of server-sent events. An event
// without data is none, and one whose end did not arrive is left out.
func Events(raw []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		raw := bytes.TrimPrefix(raw, []byte("\ufeff"))
		var data []byte
		some := false
		for len(raw) > 0 {
			line, rest, whole := cutLine(raw)
			if !whole {
				return
			}
			raw = rest
			if len(line) == 0 {
				if len(data) > 0 && !yield(data) {
					return
				}
				data, some = nil, false
				continue
			}
			name, value, _ := bytes.Cut(line, []byte(":"))
			if string(name) != "data" {
				continue
			}
			if some {
				data = append(data, '\n')
			}
			data, some = append(data, bytes.TrimPrefix(value, []byte(" "))...), true
		}
	}
}

// Lines returns the lines of a stream of JSON values. A line whose end did not arrive is
// left out, unless it is a whole value.
func Lines(raw []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for line := range bytes.Lines(raw) {
			whole := bytes.HasSuffix(line, []byte("\n")) || json.Valid(line)
			if line = bytes.TrimSpace(line); whole && len(line) > 0 && !yield(line) {
				return
			}
		}
	}
}

// cutLine cuts the first line off. Lines end with LF, CR or both.
func cutLine(raw []byte) (line, rest []byte, whole bool) {
	i := bytes.IndexAny(raw, "\r\n")
	if i < 0 {
		return raw, nil, false
	}
	line, rest = raw[:i], raw[i+1:]
	if raw[i] == '\r' && len(rest) > 0 && rest[0] == '\n' {
		rest = rest[1:]
	}
	return line, rest, true
}
