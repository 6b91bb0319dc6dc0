package redact

import (
	"bytes"
	"errors"
	"io"
	"slices"
)

// Stream masks the text that is written to it and passes it on. The result is that of
// Bytes for the whole text, however the text is split into writes. Stream passes a line
// on when it is complete, unless a secret may begin in it and end in a later line. It
// holds a few hundred KiB, or a small multiple of the longest secret. It is for one
// goroutine.
type Stream struct {
	r     *Redactor
	w     io.Writer
	parts parts
	// text is not passed on yet.
	text []byte
	// skip is the number of masked bytes to leave out next.
	skip int
}

// Gap is a place where a piece of a text is missing. A note replaces the piece.
type Gap struct {
	// At is the offset of the note in bytes.
	At int64
	// Size is the length of the note in bytes.
	Size int64
}

// Gapped is a text with missing pieces. The missing piece may contain one half of a
// secret. So the masked text leaves out the bytes on both sides of a gap, as many as a
// secret may have.
type Gapped interface {
	io.Reader
	// Gaps returns the gaps in the order of the text.
	Gaps() []Gap
}

// edgeBytes is the number of bytes that are left out on each side of a gap. It is more
// if a longer secret is known. No secret that the rules find is longer.
const edgeBytes = 16 << 10

// Stream returns a Stream that writes to w. The caller closes it.
func (r *Redactor) Stream(w io.Writer) *Stream { return &Stream{r: r, w: w} }

const chunkBytes = 32 << 10

// Write implements io.Writer. After an error of the underlying writer the stream cannot
// be used.
func (s *Stream) Write(p []byte) (int, error) {
	for at := 0; at < len(p); at += chunkBytes {
		s.text = append(s.text, p[at:min(len(p), at+chunkBytes)]...)
		if err := s.pass(false); err != nil {
			return at, err
		}
	}
	return len(p), nil
}

// Close passes on the rest of the text. It does not close the underlying writer.
func (s *Stream) Close() error { return s.pass(true) }

func (s *Stream) pass(last bool) error {
	var out []byte
	known, done := s.r.known(), 0
	for done < len(s.text) {
		n, masked, _ := s.parts.take(known, s.text[done:], last)
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

// gap ends the text before a gap. A secret that begins in this text and ends in the gap
// is not passed on.
func (s *Stream) gap() error {
	known := s.r.known()
	edge := edgeBytes
	if known != nil {
		edge = max(edge, known.longest)
	}
	var left []byte
	for len(s.text) > 0 {
		n, masked, _ := s.parts.take(known, s.text, true)
		left, s.text = append(left, masked...), s.text[n:]
	}
	err := s.put(left[:max(0, len(left)-edge)])
	s.text, s.parts, s.skip = s.text[:0], parts{}, edge
	return err
}

// ReadFrom implements io.ReaderFrom. r may be Gapped.
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

// feed copies a text to a stream.
type feed struct {
	from io.Reader
	to   *Stream
	// at is the number of bytes read so far.
	at    int64
	gaps  []Gap
	begun bool
	chunk [chunkBytes]byte
}

// next copies one piece of the text, or a gap with its note.
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

// Reader returns a reader of the text of from, masked as by a Stream. from may be
// Gapped.
func (r *Redactor) Reader(from io.Reader) io.Reader {
	m := &reader{}
	m.feed = feed{from: from, to: r.Stream(&m.masked)}
	return m
}

type reader struct {
	feed   feed
	masked bytes.Buffer
	// err is the error of from.
	err error
}

// Read implements io.Reader.
func (m *reader) Read(p []byte) (int, error) {
	for m.masked.Len() == 0 && m.err == nil {
		if m.err = m.feed.next(); errors.Is(m.err, io.EOF) {
			// a buffer takes everything
			_ = m.feed.to.Close()
		}
	}
	if m.masked.Len() == 0 && len(p) > 0 {
		return 0, m.err
	}
	return m.masked.Read(p)
}

// parts cuts a text into parts that are masked one by one. The places of the cuts
// depend on the text alone. A part is a line, unless a secret may begin in it and end
// in a later one. A long text without such a place is cut anyway, but not within a
// secret.
type parts struct {
	// seen is the number of bytes of the next part in which no end was found.
	seen int
	// within says that the text continues a secret that was cut.
	within bool
}

// longBytes is the length at which a text without a line end is cut.
const longBytes = 256 << 10

// take returns the length of the first part of b, its masked text and the masks in that
// text. n is 0 if take must see more of the text. last says that no more text comes.
func (p *parts) take(known *fingerprints, b []byte, last bool) (n int, masked []byte, masks []masking) {
	if p.within {
		end := slices.IndexFunc(b, func(c byte) bool { return c <= ' ' || quote(c) })
		if p.within = end < 0; p.within {
			end = len(b)
		}
		if end > 0 {
			// the mask before this part stands for these bytes too
			return end, nil, []masking{{to: end}}
		}
	}
	long := longBytes
	if known != nil {
		long = max(long, 2*known.longest)
	}
	for {
		// the longest known secret may be shorter than before
		p.seen = min(p.seen, long)
		line := bytes.IndexByte(b[p.seen:min(len(b), long)], '\n')
		switch {
		case line < 0 && len(b) >= long:
			p.seen = 0
			return p.cut(known, b[:long])
		case line < 0 && last:
			p.seen = 0
			masked, masks = maskAll(known, b)
			return len(b), masked, masks
		case line < 0:
			p.seen = len(b)
			return 0, nil, nil
		}
		n := p.seen + line + 1
		if !last && known.startsLine() && len(b) < n+MinSecretBytes {
			return 0, nil, nil
		}
		if !known.open(b, n) && !keyOpen(b[:n]) {
			p.seen = 0
			masked, masks = maskAll(known, b[:n])
			return n, masked, masks
		}
		p.seen = n
	}
}

// cut takes about half of b, and the whole of a secret that crosses that place.
func (p *parts) cut(known *fingerprints, b []byte) (n int, masked []byte, masks []masking) {
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
	masked = b[:n]
	if len(found) > 0 {
		masked, masks = mask(masked, found)
	}
	masked, more := maskAll(known, masked)
	return n, masked, compose(masks, more)
}

// maskAll masks b until nothing is left to mask. It returns the masks in the result.
func maskAll(known *fingerprints, b []byte) (masked []byte, masks []masking) {
	for range maxPasses {
		found := spans(known, b)
		if len(found) == 0 {
			break
		}
		var more []masking
		b, more = mask(b, found)
		masks = compose(masks, more)
	}
	return b, masks
}
