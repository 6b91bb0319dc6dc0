package plan

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"unicode/utf8"

	"github.com/acode-dev/acode/session"
)

// MaxBytes is the size above which a plan file is refused before anything of it is parsed.
const MaxBytes = 16 << 20

// largeBytes is where parsing begins to take longer than people wait without a word.
const largeBytes = 1 << 20

// Large reports whether a plan of size bytes takes seconds to check, so that the caller says
// what is being done.
func Large(size int64) bool { return size > largeBytes }

// Load reads and checks the plan file at path. It returns ErrPlan, with the place, when the
// file cannot be read or is not a plan.
func Load(path string) (*session.Plan, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	info, err := f.Stat()
	if err != nil {
		return nil, unreadable(path, err)
	}
	if info.Mode().IsRegular() && info.Size() > MaxBytes {
		return nil, tooLarge(path)
	}
	// A pipe has no size to ask for, so the limit is held while reading too.
	data, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil {
		return nil, unreadable(path, err)
	}
	return Parse(path, data)
}

// Parse checks data, the content of the file called name. It returns ErrPlan, with the place,
// when data is not a plan.
func Parse(name string, data []byte) (*session.Plan, error) {
	if len(data) > MaxBytes {
		return nil, tooLarge(name)
	}
	src := &source{name: name, text: lines(data)}
	if err := src.checkUTF8(); err != nil {
		return nil, err
	}
	tokens, err := scan(src)
	if err != nil {
		return nil, err
	}
	body, err := tree(src, tokens)
	if err != nil {
		return nil, err
	}
	d := &decoder{src: src}
	p := d.plan(body)
	if d.err != nil {
		return nil, d.err
	}
	return p, nil
}

// lines takes the byte order mark off, and gives lines the end that the parser counts once: within
// quotes it takes CRLF for two.
func lines(data []byte) []byte {
	return bytes.ReplaceAll(bytes.TrimPrefix(data, []byte("\ufeff")), []byte("\r\n"), []byte("\n"))
}

func (s *source) checkUTF8() error {
	if utf8.Valid(s.text) {
		return nil
	}
	at := 0
	for {
		r, n := utf8.DecodeRune(s.text[at:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	return s.fault(s.position(at), fmt.Sprintf("byte 0x%02x is not valid UTF-8", s.text[at]), "save the file as UTF-8")
}

// position gives line and column of the byte at offset.
func (s *source) position(offset int) position {
	before := s.text[:offset]
	return position{
		line:   1 + bytes.Count(before, []byte("\n")),
		column: 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]),
	}
}

func unreadable(path string, err error) error {
	next := "check the path given to --plan"
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err // the place names the path already
	}
	return &session.Error{Code: session.ErrPlan, Message: "the plan file cannot be read", Place: path, Next: next, Cause: err}
}

func tooLarge(name string) error {
	return &session.Error{
		Code:    session.ErrPlan,
		Message: fmt.Sprintf("the plan file is larger than %d MiB; nothing of it was read", MaxBytes>>20),
		Place:   name,
		Next:    "keep large contents in files of the workspace and let a run step copy them, or split the plan",
	}
}
