package workspace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
)

const (
	// maxText is the number of bytes of one answer.
	maxText = 64 << 10
	// maxLineText is the number of bytes of one line that are shown.
	maxLineText = maxText - 32
	// maxMask is more than the length of most masks.
	maxMask = 8
)

// Text is a part of a text file, with its secrets masked. Together the lines have at
// most 64 KiB, with their numbers too.
type Text struct {
	File session.FileState
	// Binary says that the file has a NUL or is not valid UTF-8. It then has no lines.
	Binary bool
	Lines  []redact.Line
	// Total is the number of lines of the file.
	Total int
	// Next is the number of the first line that is missing after Lines, or 0 if none is.
	Next int
	// Truncated says that lines after Lines or the end of the last of them are missing.
	Truncated bool
}

// String returns the lines as they are. For a binary file it returns its size and hash.
func (t Text) String() string { return t.format(false) }

// Numbered is String with the number before each line. Numbers are missing where a mask
// stands for several lines.
func (t Text) Numbered() string { return t.format(true) }

func (t Text) format(numbers bool) string {
	if t.Binary {
		return fmt.Sprintf("binary, %d bytes, sha256 %s\n", t.File.Size, t.File.Hash)
	}
	var b strings.Builder
	for _, line := range t.Lines {
		if numbers {
			fmt.Fprintf(&b, "%6d\t", line.Number)
		}
		b.WriteString(line.Text)
	}
	return b.String()
}

// ReadText reads up to limit lines of a file from line offset, which counts from 1. An
// offset of 0 is 1, and a limit of 0 is as many lines as an answer may have. ReadText
// refuses what Read refuses. It returns ErrUsage for a negative number.
func (r *Root) ReadText(ctx context.Context, name string, offset, limit int) (Text, error) {
	if offset < 0 || limit < 0 {
		return Text{}, &session.Error{Code: session.ErrUsage, Place: name, Message: "the offset and the limit of lines are not negative; nothing was read",
			Next: session.Words("give numbers from 1, or leave them out")}
	}
	c, err := cleanFile(name)
	if err != nil {
		return Text{}, err
	}
	t, err := r.readText(ctx, c, max(offset, 1), limit)
	if err != nil {
		return Text{}, failed(ctx, c, err)
	}
	return t, nil
}

func (r *Root) readText(ctx context.Context, name string, offset, limit int) (Text, error) {
	f, before, err := r.follow(name)
	if err != nil {
		return Text{}, err
	}
	defer f.Close()
	now := r.now()
	var seen encoding
	sum := sha256.New()
	// a file that grows all the time has an end too
	in := io.TeeReader(&section{ctx: ctx, r: io.LimitReader(f, before.size)}, io.MultiWriter(sum, &seen))
	w := window{offset: offset, limit: limit}
	for lines := r.Redact.Lines(in, maxLineText+maxMask); !w.full && !seen.binary; {
		line, err := lines.Next()
		if errors.Is(err, io.EOF) {
			w.end(seen.total())
			break
		}
		if err != nil {
			return Text{}, err
		}
		w.add(line)
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		return Text{}, err
	}
	after, err := fstat(f)
	if err != nil {
		return Text{}, err
	}
	t := Text{File: after.state(name, hex.EncodeToString(sum.Sum(nil)), now), Binary: seen.binary || len(seen.rest) > 0}
	t.File.Racy = t.File.Racy || before.size != after.size || before.mtime != after.mtime || before.ctime != after.ctime
	if !t.Binary {
		t.Lines, t.Total, t.Next, t.Truncated = w.lines, seen.total(), w.next, w.next > 0 || w.cut
	}
	return t, nil
}

// window collects the lines from offset.
type window struct {
	offset, limit int
	lines         []redact.Line
	bytes         int
	// before is the last line before the offset.
	before redact.Line
	// full says that no more lines are wanted, and next is the first of them.
	full bool
	next int
	// cut says that the end of the last line is missing.
	cut bool
}

func (w *window) add(line redact.Line) {
	if line.Number < w.offset {
		w.before = line
		return
	}
	if len(w.lines) == 0 && line.Number > w.offset {
		// a mask before it stands for the line at the offset too
		w.put(w.before)
	}
	w.put(line)
}

// end is called after the last of total lines.
func (w *window) end(total int) {
	if len(w.lines) == 0 && w.offset <= total {
		w.put(w.before)
	}
}

func (w *window) put(line redact.Line) {
	if line.Number == 0 || w.full {
		return
	}
	if len(line.Text) > maxLineText {
		line.Text, line.Cut = cutLine(line.Text, maxLineText), true
	}
	size := len(fmt.Sprintf("%6d\t", line.Number)) + len(line.Text)
	if w.cut || w.limit > 0 && len(w.lines) == w.limit || w.bytes+size > maxText {
		w.full, w.next = true, line.Number
		return
	}
	w.lines, w.bytes, w.cut = append(w.lines, line), w.bytes+size, line.Cut
}

// cutLine returns at most the first most bytes of a masked line. It leaves out a mask
// that would be cut, because the rest of it could be another mask.
func cutLine(text string, most int) string {
	if len(text) <= most {
		return text
	}
	text = text[:most]
	for len(text) > most-utf8.UTFMax {
		if c, size := utf8.DecodeLastRuneInString(text); c != utf8.RuneError || size != 1 {
			break
		}
		text = text[:len(text)-1]
	}
	if i := strings.IndexByte(text[max(0, len(text)-maxMask):], '*'); i >= 0 {
		text = strings.TrimRight(text[:max(0, len(text)-maxMask)+i], "*")
	}
	return text
}

// encoding examines the bytes that are written to it.
type encoding struct {
	// binary says that they cannot be text.
	binary bool
	// rest is the beginning of a character.
	rest []byte
	ends int
	last byte
}

func (e *encoding) Write(p []byte) (int, error) {
	if len(p) == 0 || e.binary {
		return len(p), nil
	}
	e.ends, e.last = e.ends+bytes.Count(p, []byte("\n")), p[len(p)-1]
	text := p
	if len(e.rest) > 0 {
		text = append(e.rest, p...)
	}
	end := len(text)
	for i := end - 1; i >= max(0, end-utf8.UTFMax); i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				end = i
			}
			break
		}
	}
	e.binary = bytes.IndexByte(p, 0) >= 0 || !utf8.Valid(text[:end])
	e.rest = append([]byte(nil), text[end:]...)
	return len(p), nil
}

// total returns the number of lines so far.
func (e *encoding) total() int {
	if e.last != '\n' && e.last != 0 {
		return e.ends + 1
	}
	return e.ends
}
