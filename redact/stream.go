package redact

import (
	"bytes"
	"errors"
	"io"
	"slices"
)

// Stream masks what is written to it and passes it on. The result is that of Bytes for
// the whole text, however the text is split into writes. A line is passed on when it is
// complete, unless a secret may begin in it that ends in a later one. It holds a few
// hundred KiB at most, or some times the longest secret. It is for one goroutine.
type Stream struct {
	r     *Redactor
	w     io.Writer
	parts parts
	// not passed on yet
	text []byte
}

// Stream returns a Stream that writes to w. Close it.
func (r *Redactor) Stream(w io.Writer) *Stream { return &Stream{r: r, w: w} }

const chunkBytes = 32 << 10

// Write implements io.Writer. After an error of the writer below the stream is of no use.
func (s *Stream) Write(p []byte) (int, error) {
	for at := 0; at < len(p); at += chunkBytes {
		s.text = append(s.text, p[at:min(len(p), at+chunkBytes)]...)
		if err := s.pass(false); err != nil {
			return at, err
		}
	}
	return len(p), nil
}

// Close passes on what is left. It does not close the writer below.
func (s *Stream) Close() error { return s.pass(true) }

func (s *Stream) pass(last bool) error {
	var out []byte
	known, done := s.r.known(), 0
	for done < len(s.text) {
		n, masked := s.parts.take(known, s.text[done:], last)
		if n == 0 {
			break
		}
		out = append(out, masked...)
		done += n
	}
	if done > 0 {
		s.text = append(s.text[:0], s.text[done:]...)
	}
	if len(out) == 0 {
		return nil
	}
	_, err := s.w.Write(out)
	return err
}

// Reader returns a reader of what from gives, masked as by a Stream.
func (r *Redactor) Reader(from io.Reader) io.Reader {
	m := &reader{from: from}
	m.stream = r.Stream(&m.masked)
	return m
}

type reader struct {
	from   io.Reader
	stream *Stream
	masked bytes.Buffer
	chunk  [chunkBytes]byte
	// of from
	err error
}

// Read implements io.Reader.
func (m *reader) Read(p []byte) (int, error) {
	for m.masked.Len() == 0 && m.err == nil {
		n, err := m.from.Read(m.chunk[:])
		_, _ = m.stream.Write(m.chunk[:n]) // a buffer takes all
		if m.err = err; errors.Is(err, io.EOF) {
			_ = m.stream.Close() // as above
		}
	}
	if m.masked.Len() == 0 && len(p) > 0 {
		return 0, m.err
	}
	return m.masked.Read(p)
}

// parts cuts a text into parts that are masked one by one. Where it cuts depends on the
// text alone. A part is a line, unless a secret may begin in it that ends in a later one.
// A text without a place to cut is cut where it is long, but not within a secret.
type parts struct {
	// bytes of the next part in which no end was found
	seen int
	// the text goes on within a secret that was cut
	within bool
}

// longBytes is where a text without a place to cut is cut.
const longBytes = 256 << 10

// take gives the length of the first part of b and what it is when masked; 0 where more
// must be known of the text. last says that no more comes.
func (p *parts) take(known *fingerprints, b []byte, last bool) (n int, masked []byte) {
	if p.within {
		end := slices.IndexFunc(b, func(c byte) bool { return c <= ' ' || quote(c) })
		if p.within = end < 0; p.within {
			return len(b), nil
		}
		if end > 0 {
			return end, nil
		}
	}
	long := longBytes
	if known != nil {
		long = max(long, 2*known.longest)
	}
	for {
		p.seen = min(p.seen, long) // what is known may have become less
		line := bytes.IndexByte(b[p.seen:min(len(b), long)], '\n')
		switch {
		case line < 0 && len(b) >= long:
			p.seen = 0
			return p.cut(known, b[:long])
		case line < 0 && last:
			p.seen = 0
			return len(b), settle(known, b)
		case line < 0:
			p.seen = len(b)
			return 0, nil
		}
		n := p.seen + line + 1
		if !last && known.startsLine() && len(b) < n+MinSecretBytes {
			return 0, nil
		}
		if !known.open(b, n) && !keyOpen(b[:n]) {
			p.seen = 0
			return n, settle(known, b[:n])
		}
		p.seen = n
	}
}

// cut takes about half of b, and all of a secret that stands there.
func (p *parts) cut(known *fingerprints, b []byte) (n int, masked []byte) {
	n = len(b) / 2
	found := spans(known, b)
	for i, s := range found {
		if s.to <= n {
			continue
		}
		if s.from < n {
			n, p.within = s.to, s.to == len(b)
			found[i].tail = s.tail && !p.within
			i++
		}
		found = found[:i]
		break
	}
	if len(found) == 0 {
		return n, settle(known, b[:n])
	}
	return n, settle(known, mask(b[:n], found))
}

// settle masks b until nothing is left to be masked.
func settle(known *fingerprints, b []byte) []byte {
	for range maxPasses {
		found := spans(known, b)
		if len(found) == 0 {
			break
		}
		b = mask(b, found)
	}
	return b
}
