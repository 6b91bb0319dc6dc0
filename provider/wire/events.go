package wire

import (
	"bytes"
	"encoding/json"
	"iter"
)

// Event is one event of a stream.
type Event struct {
	// Name is empty if the event has none.
	Name string
	// Data joins the data lines of the event.
	Data []byte
}

// Events returns the whole events of a stream of server-sent events. An event without
// data is none, and one whose end did not arrive is left out.
func Events(raw []byte) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		raw := bytes.TrimPrefix(raw, []byte("\ufeff"))
		var e Event
		some := false
		for len(raw) > 0 {
			line, rest, whole := cutLine(raw)
			if !whole {
				return
			}
			raw = rest
			if len(line) == 0 {
				if len(e.Data) > 0 && !yield(e) {
					return
				}
				e, some = Event{}, false
				continue
			}
			name, value, _ := bytes.Cut(line, []byte(":"))
			value = bytes.TrimPrefix(value, []byte(" "))
			switch string(name) {
			case "event":
				e.Name = string(value)
			case "data":
				if some {
					e.Data = append(e.Data, '\n')
				}
				e.Data, some = append(e.Data, value...), true
			}
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
