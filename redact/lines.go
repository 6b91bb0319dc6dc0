package redact

import (
	"bytes"
	"io"
)

// Line is one line of a masked text.
type Line struct {
	// Number is the number of the line in the original, from 1. Numbers are missing
	// where a mask stands for several lines.
	Number int
	// Text is the masked line with its line end.
	Text string
	// Cut says that the end of the line is missing, because the line is too long.
	Cut bool
}

// Lines reads a text line by line, masked as by a Stream. Like a Stream, it holds little
// of the text. It is for one goroutine.
type Lines struct {
	r     *Redactor
	from  io.Reader
	most  int
	parts parts
	// text is not masked yet.
	text  []byte
	chunk [chunkBytes]byte
	// err is the end of from.
	err error
	// ready has the lines that are complete, and next is the one that is not.
	ready []Line
	next  []byte
	cut   bool
	// number is that of next, and ends is the number of line ends in the original so far.
	number, ends int
}

// Lines returns the lines of from. It cuts a line after most bytes.
func (r *Redactor) Lines(from io.Reader, most int) *Lines {
	return &Lines{r: r, from: from, most: most, number: 1}
}

// Next returns the next line. It returns io.EOF after the last one, and any other error
// of the reader after the lines before it.
func (l *Lines) Next() (Line, error) {
	for len(l.ready) == 0 {
		if l.err == io.EOF && len(l.text) == 0 && len(l.next) > 0 {
			l.end()
			break
		}
		if l.err != nil && (l.err != io.EOF || len(l.text) == 0) {
			return Line{}, l.err
		}
		if l.err == nil {
			var n int
			n, l.err = l.from.Read(l.chunk[:])
			l.text = append(l.text, l.chunk[:n]...)
		}
		l.pass()
	}
	line := l.ready[0]
	l.ready = l.ready[1:]
	return line, nil
}

// pass masks the parts of the text that are complete.
func (l *Lines) pass() {
	known, done := l.r.known(), 0
	for done < len(l.text) {
		n, masked, masks := l.parts.take(known, l.text[done:], l.err == io.EOF)
		if n == 0 {
			break
		}
		l.split(l.text[done:done+n], masked, masks)
		done += n
	}
	l.text = append(l.text[:0], l.text[done:]...)
}

// split adds the masked text of one part.
func (l *Lines) split(part, masked []byte, masks []masking) {
	// the same place in both texts: the end of the last mask, or the start
	at, from := 0, 0
	// part is counted up to here
	counted := 0
	count := func(to int) {
		l.ends += bytes.Count(part[counted:to], []byte("\n"))
		counted = to
	}
	for done := 0; done < len(masked); {
		size := bytes.IndexByte(masked[done:], '\n') + 1
		if size == 0 {
			l.add(masked[done:])
			break
		}
		l.add(masked[done : done+size])
		done += size
		for len(masks) > 0 && masks[0].end <= done {
			at, from, masks = masks[0].end, masks[0].to, masks[1:]
		}
		place := from + done - at
		if len(masks) > 0 && masks[0].at < done {
			// the line ends in the visible end of a secret
			place = masks[0].to - (masks[0].end - done)
		}
		count(place)
		l.end()
	}
	count(len(part))
}

// add appends to the line that is not complete.
func (l *Lines) add(masked []byte) {
	l.cut = l.cut || len(masked) > l.most-len(l.next)
	l.next = append(l.next, masked[:min(len(masked), l.most-len(l.next))]...)
}

// end completes a line. ends is up to date.
func (l *Lines) end() {
	l.ready = append(l.ready, Line{Number: l.number, Text: string(l.next), Cut: l.cut})
	l.number, l.next, l.cut = l.ends+1, l.next[:0], false
}
