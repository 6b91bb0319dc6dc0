package engine

import (
	"io"
	"strings"

	"github.com/acode-dev/acode/session"
)

// saying shows the text of a reply while it arrives.
type saying struct {
	io.Writer
	t   *talk
	raw []byte
	// the length of raw at which it is read again
	next int
	// how many bytes of the text were shown
	shown int
}

// The reply is read again when it has grown by a part of its length, so that long replies
// cost little.
const (
	firstLook = 128
	growth    = 16
)

// Write implements io.Writer.
func (s *saying) Write(piece []byte) (int, error) {
	n, err := s.Writer.Write(piece)
	if s.raw = append(s.raw, piece[:n]...); len(s.raw) >= s.next {
		s.next = len(s.raw) + max(firstLook, len(s.raw)/growth)
		s.show(false)
	}
	return n, err
}

// lineBytes is the length of the pieces in which a long line is shown.
const lineBytes = 80

// show shows the whole lines of the new text, and long lines in pieces. At the end it
// shows the rest.
func (s *saying) show(end bool) {
	reply, err := s.t.model.Reply(s.raw)
	if err != nil { // the end of the request reports it
		return
	}
	for s.shown < len(reply.Text) {
		line, cut := reply.Text[s.shown:], 0
		if i := strings.IndexByte(line, '\n'); i >= 0 {
			cut = i + 1
		} else if len(line) > lineBytes {
			cut = strings.LastIndexByte(line[:lineBytes], ' ') + 1
		}
		if cut == 0 && !end {
			return
		}
		if cut > 0 {
			line = line[:cut]
		}
		s.shown += len(line)
		if text := strings.TrimSpace(line); text != "" {
			s.t.tell(session.Notice{Kind: session.NoticeOutput, Item: s.t.it, Text: s.t.Redact(text)})
		}
	}
}
