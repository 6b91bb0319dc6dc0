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
	// so many masked bytes are left out next
	skip int
}

// Gap says that a text misses a piece, in whose place stands a note.
type Gap struct {
	At   int64 // where the note begins
	Size int64 // of the note
}

// Gapped is a text that misses pieces. A secret may have been cut in two where one is
// missing, so what stands beside it, as long as a secret may be, is left out where the
// text is masked.
type Gapped interface {
	io.Reader
	Gaps() []Gap // in their order
}

// edgeBytes is what is left out on each side of a gap; more where a longer secret is
// known. No secret is longer.
const edgeBytes = 16 << 10

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
	return s.put(out)
}

// put passes masked text on.
func (s *Stream) put(masked []byte) error {
	n := min(s.skip, len(masked))
	s.skip -= n
	if masked = masked[n:]; len(masked) == 0 {
		return nil
	}
	_, err := s.w.Write(masked)
	return err
}

// gap ends the text before a gap. A secret that begins in it and ends in the gap was not
// passed on yet.
func (s *Stream) gap() error {
	known := s.r.known()
	edge := edgeBytes
	if known != nil {
		edge = max(edge, known.longest)
	}
	var left []byte
	for len(s.text) > 0 {
		n, masked := s.parts.take(known, s.text, true)
		left, s.text = append(left, masked...), s.text[n:]
	}
	err := s.put(left[:max(0, len(left)-edge)])
	s.text, s.parts, s.skip = s.text[:0], parts{}, edge
	return err
}

// ReadFrom implements io.ReaderFrom; r may be Gapped.
func (s *Stream) ReadFrom(r io.Reader) (int64, error) {
	f := feed{from: r, to: s}
	for {
		if err := f.next(); errors.Is(err, io.EOF) {
			return f.at, nil
		} else if err != nil {
			return f.at, err
		}
	}
}

// feed gives a text to a stream.
type feed struct {
	from  io.Reader
	to    *Stream
	at    int64 // read so far
	gaps  []Gap
	begun bool
	chunk [chunkBytes]byte
}

// next gives one piece, or a gap with its note.
func (f *feed) next() error {
	if g, ok := f.from.(Gapped); ok && !f.begun {
		f.gaps = g.Gaps()
	}
	f.begun = true
	piece := f.chunk[:]
	if len(f.gaps) > 0 {
		g := f.gaps[0]
		if f.at == g.At {
			f.gaps = f.gaps[1:]
			if err := f.to.gap(); err != nil {
				return err
			}
			n, err := io.CopyN(f.to.w, f.from, g.Size)
			f.at += n
			return err
		}
		piece = piece[:min(int64(len(piece)), g.At-f.at)]
	}
	n, err := f.from.Read(piece)
	f.at += int64(n)
	if _, werr := f.to.Write(piece[:n]); werr != nil {
		return werr
	}
	return err
}

// Reader returns a reader of what from gives, masked as by a Stream; from may be Gapped.
func (r *Redactor) Reader(from io.Reader) io.Reader {
	m := &reader{}
	m.feed = feed{from: from, to: r.Stream(&m.masked)}
	return m
}

type reader struct {
	feed   feed
	masked bytes.Buffer
	err    error // of what is read
}

// Read implements io.Reader.
func (m *reader) Read(p []byte) (int, error) {
	for m.masked.Len() == 0 && m.err == nil {
		if m.err = m.feed.next(); errors.Is(m.err, io.EOF) {
			_ = m.feed.to.Close() // a buffer takes all
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
