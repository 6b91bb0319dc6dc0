// Package strictyaml reads a strict subset of YAML for the files that people write.
//
// The package refuses anchors, aliases, tags, merge keys, directives and a second
// document. It also refuses unknown and repeated keys, values of the wrong kind and
// characters that parsers read differently. Each error has file, line, column and a caret
// under the place.
//
// The size of the file limits memory and time. Bombs are refused by the number and the
// depth of their parts, before a tree is built from them.
package strictyaml

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
)

// maxMarks limits the parser's tokens and nodes, which take about 200 bytes each. Between
// any two of them stands one of marks. A plan of 100,000 ordinary steps has fewer than
// 2,000,000.
const (
	maxMarks = 2_500_000
	marks    = ",:[]{}-#?&*!|>%\"'"
)

// Format describes one kind of files.
type Format struct {
	// Code is the code of every error.
	Code session.Code
	// Name is for messages, such as "plan".
	Name string
	// Bytes is the greatest size. A larger file is refused before it is parsed.
	Bytes int
	// Next is the next step of an error that has no better one.
	Next session.Hint
	// Split is the next step for a file that is too large.
	Split string
	// Path is the next step for a file that cannot be read.
	Path string
	// Bare keeps the text of the file out of errors, because it may contain secrets.
	Bare bool

	// Mask hides further secrets in a line, besides those that package redact knows. It
	// may be nil.
	Mask func(line string) string
}

// ReadFile reads file, which was opened as path. It reads at most one byte more than the
// format allows. If regular is true, it refuses everything but a regular file, such as a
// pipe.
func (f Format) ReadFile(file *os.File, path string, regular bool) ([]byte, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, f.Unreadable(path, err)
	}
	if regular && !info.Mode().IsRegular() {
		return nil, f.error(path, f.Path, "the file is not a regular file")
	}
	if info.Mode().IsRegular() && info.Size() > int64(f.Bytes) {
		return nil, f.tooLarge(path)
	}
	// A pipe has no size, so the limit also applies while reading.
	data, err := io.ReadAll(io.LimitReader(file, int64(f.Bytes)+1))
	if err != nil {
		return nil, f.Unreadable(path, err)
	}
	return data, nil // Root refuses data that is too large.
}

// Unreadable returns the error for a file that cannot be opened or read.
func (f Format) Unreadable(path string, err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err // Place already contains the path.
	}
	return &session.Error{Code: f.Code, Message: "the file cannot be read", Place: path, Next: session.Words(f.Path), Cause: err}
}

func (f Format) tooLarge(name string) error {
	return f.error(name, f.Split, "the file is larger than %s; acode did not read it", size(f.Bytes))
}

func size(n int) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

func (f Format) error(place, next, format string, args ...any) error {
	hint := f.Next
	if next != "" {
		hint = session.Words(next)
	}
	return &session.Error{Code: f.Code, Message: fmt.Sprintf(format, args...), Place: place, Next: hint}
}

// Reader reads one file and keeps its errors. After the first error its results must not
// be used.
type Reader struct {
	Format Format
	// Name is the name of the file, for places.
	Name string
	// Most is the greatest number of errors that Reader keeps; 0 means one.
	Most int

	// text is valid UTF-8 after checkText.
	text  []byte
	lines []string
	errs  []fault
	// wrong holds the places with an error. Each place has at most one.
	wrong map[Position]bool
}

// Position counts lines and columns from 1. A column is a code point.
type Position struct{ Line, Column int }

type fault struct {
	at  Position
	err error
}

// Fail keeps an error about a place. It ignores further errors about the same place. If
// next is empty, the next step of the format applies.
func (r *Reader) Fail(at Position, next, format string, args ...any) {
	if len(r.errs) >= max(r.Most, 1) || r.wrong[at] {
		return
	}
	if r.wrong == nil {
		r.wrong = map[Position]bool{}
	}
	r.wrong[at] = true
	r.errs = append(r.errs, fault{at, r.fault(at, next, format, args...)})
}

// Err returns the first error, or nil if there is none.
func (r *Reader) Err() error {
	if len(r.errs) == 0 {
		return nil
	}
	return r.errs[0].err
}

// Errs returns the errors in the order of the file.
func (r *Reader) Errs() []error {
	slices.SortStableFunc(r.errs, func(a, b fault) int {
		return cmp.Or(cmp.Compare(a.at.Line, b.at.Line), cmp.Compare(a.at.Column, b.at.Column))
	})
	var errs []error
	for _, f := range r.errs {
		errs = append(errs, f.err)
	}
	return errs
}

// Root returns the only document in data. It returns nil for a file without content, and
// nil with one error for a file that it refuses.
func (r *Reader) Root(data []byte) *Value {
	root, err := r.read(data)
	if err != nil {
		r.errs = append(r.errs, fault{err: err})
	}
	if root == nil || err != nil {
		return nil
	}
	return valueOf(root, "a "+r.Format.Name)
}

// lines removes the byte order mark and replaces each line end that YAML knows by a
// newline. Other code then counts only one character to find places.
func lines(data []byte) []byte {
	text := bytes.ReplaceAll(bytes.TrimPrefix(data, []byte("\ufeff")), []byte("\r\n"), []byte("\n"))
	return bytes.ReplaceAll(text, []byte("\r"), []byte("\n"))
}

// halves matches a pair of escapes. JSON writes a character outside the basic plane as
// two surrogates.
var halves = regexp.MustCompile(`\\*\\u[dD][89abAB][[:xdigit:]]{2}\\u[dD][c-fC-F][[:xdigit:]]{2}`)

// joined replaces each pair of surrogates in JSON by one escape, because YAML has no
// surrogates. In other YAML the parser refuses them.
func joined(text []byte) []byte {
	if !halves.Match(text) || !json.Valid(text) {
		return text
	}
	return halves.ReplaceAllFunc(text, func(found []byte) []byte {
		const pair = len(`\ud83d\ude00`)
		before, written := found[:len(found)-pair], found[len(found)-pair:]
		if len(before)%2 == 1 { // The backslash itself is escaped.
			return found
		}
		var means string
		if json.Unmarshal(slices.Concat([]byte{'"'}, written, []byte{'"'}), &means) != nil {
			return found
		}
		return fmt.Appendf(slices.Clone(before), `\U%08x`, []rune(means)[0])
	})
}

// checkText refuses text that is not YAML or has too many parts, before it is parsed.
func (r *Reader) checkText() error {
	parts := 0
	for at := 0; at < len(r.text); {
		c, n := utf8.DecodeRune(r.text[at:])
		switch {
		case c == utf8.RuneError && n == 1:
			return r.fault(r.position(at), "save the file as UTF-8", "byte 0x%02x is not valid UTF-8", r.text[at])
		case c < ' ' && c != '\t' && c != '\n', strings.ContainsRune("\u0085\u2028\u2029\ufeff\ufffe\uffff", c): // YAML 1.1 and 1.2 read some of these characters differently.
			return r.fault(r.position(at), fmt.Sprintf(`write it as \u%04x, in double quotes`, c), "the character %U cannot stand in a %s as it is", c, r.Format.Name)
		case strings.ContainsRune(marks, c):
			if parts++; parts > maxMarks {
				return r.fault(r.position(at), r.Format.Split, "the %s has more than %d parts", r.Format.Name, maxMarks)
			}
		}
		at += n
	}
	return nil
}

// position returns line and column of the byte at offset.
func (r *Reader) position(offset int) Position {
	before := r.text[:offset]
	return Position{1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])}
}

// fault returns the error for a place: the message, then the source line with a caret.
func (r *Reader) fault(at Position, next, format string, args ...any) error {
	return r.Format.error(fmt.Sprintf("%s:%d:%d", r.Name, at.Line, at.Column), next, "%s", fmt.Sprintf(format, args...)+r.excerpt(at))
}

// excerptWidth is the greatest number of code points before and after the caret.
const excerptWidth = 60

// excerpt returns the line of a place with a caret below it. A replacement character
// stands for each character that cannot be printed, so a file cannot control the terminal
// through its own error. The line is masked before it is cut, because a cut secret would
// not be recognised.
func (r *Reader) excerpt(at Position) string {
	if r.Format.Bare {
		return ""
	}
	line := []rune(r.line(at.Line))
	column := min(max(at.Column-1, 0), len(line))
	before := r.masked(line[:column])
	line = r.masked(line)
	column = min(len(before), len(line))
	from, to := max(column-excerptWidth, 0), min(column+excerptWidth, len(line))
	var shown, under strings.Builder
	if from > 0 {
		shown.WriteString("…")
		under.WriteString(" ")
	}
	for i, c := range line[from:to] {
		blank := " "
		switch {
		case c == '\t':
			blank = "\t"
		case !unicode.IsPrint(c):
			c = unicode.ReplacementChar
		case unicode.In(c, unicode.Mn, unicode.Me):
			blank = ""
		case wide(c):
			blank = "  "
		}
		shown.WriteRune(c)
		if from+i < column {
			under.WriteString(blank)
		}
	}
	if to < len(line) {
		shown.WriteString("…")
	}
	return fmt.Sprintf("\n%4d | %s\n%*s | %s^", at.Line, shown.String(), max(4, len(fmt.Sprint(at.Line))), "", under.String())
}

func (r *Reader) masked(line []rune) []rune {
	text := string(line)
	if r.Format.Mask != nil {
		text = r.Format.Mask(text)
	}
	return []rune(redact.New(nil).String(text))
}

// wide reports whether terminals show c in two columns, as they do for East Asian text
// and emoji.
func wide(c rune) bool {
	return c >= 0x1f300 || c >= 0xff01 && c <= 0xff60 || c >= 0x3000 && c <= 0x303e ||
		unicode.In(c, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
}

// line returns line n, counted from 1, without its end. It returns "" if there is no such
// line.
func (r *Reader) line(n int) string {
	if all := r.split(); n > 0 && n <= len(all) {
		return all[n-1]
	}
	return ""
}

// split returns all lines. It computes them at the first call, because few files need
// them.
func (r *Reader) split() []string {
	if r.lines == nil {
		r.lines = strings.Split(string(r.text), "\n")
	}
	return r.lines
}
