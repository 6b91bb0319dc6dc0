package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/acode-dev/acode/session"
)

// maxMarks bounds the parser's tokens and nodes, of some 200 bytes each: no two begin without one of marks
// between them. 100,000 ordinary steps have below 2,000,000.
const (
	maxMarks = 2_500_000
	marks    = ",:[]{}-#?&*!|>%\"'"
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
	data, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// ReadFile reads a file up to MaxBytes. It returns ErrPlan when that cannot be done.
func ReadFile(path string) ([]byte, error) {
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
	return data, nil // what is more than that is refused by whoever parses it
}

// Parse checks data, the content of the file called name. It returns ErrPlan, with the place,
// when data is not a plan.
func Parse(name string, data []byte) (*session.Plan, error) {
	d := &decoder{src: &source{name: name}, most: 1}
	p := d.parse(data)
	if len(d.errs) > 0 {
		return nil, d.errs[0]
	}
	return p, nil
}

// parse reads the plan, which is nil where there are errors. What is no YAML has one error.
func (d *decoder) parse(data []byte) *session.Plan {
	body, err := d.src.read(data)
	if err != nil {
		d.errs, d.at = []error{err}, []position{{}}
		return nil
	}
	if p := d.plan(body); len(d.errs) == 0 {
		return p
	}
	return nil
}

// read gives the root of the one document in data; nil for none.
func (s *source) read(data []byte) (*yaml.Node, error) {
	if len(data) > MaxBytes {
		return nil, tooLarge(s.name)
	}
	s.text = lines(data)
	if err := s.checkText(); err != nil {
		return nil, err
	}
	return tree(s)
}

// lines takes the byte order mark off and gives each line the end that YAML reads it with, so that places
// are found by counting one character.
func lines(data []byte) []byte {
	text := bytes.ReplaceAll(bytes.TrimPrefix(data, []byte("\ufeff")), []byte("\r\n"), []byte("\n"))
	return bytes.ReplaceAll(text, []byte("\r"), []byte("\n"))
}

// halves are the escapes of two halves in which JSON writes a character that it does not have.
var halves = regexp.MustCompile(`\\*\\u[dD][89abAB][[:xdigit:]]{2}\\u[dD][c-fC-F][[:xdigit:]]{2}`)

// joined gives JSON with one escape for each two halves, of which YAML knows nothing. In other YAML the
// parser refuses them.
func joined(text []byte) []byte {
	if !halves.Match(text) || !json.Valid(text) {
		return text
	}
	return halves.ReplaceAllFunc(text, func(found []byte) []byte {
		const pair = len(`\ud83d\ude00`)
		before, written := found[:len(found)-pair], found[len(found)-pair:]
		if len(before)%2 == 1 { // its first backslash is escaped itself
			return found
		}
		var means string
		if json.Unmarshal(slices.Concat([]byte{'"'}, written, []byte{'"'}), &means) != nil {
			return found
		}
		return fmt.Appendf(slices.Clone(before), `\U%08x`, []rune(means)[0])
	})
}

// checkText refuses what is no YAML before it is parsed, and more of it than can be parsed.
func (s *source) checkText() error {
	parts := 0
	for at := 0; at < len(s.text); {
		r, n := utf8.DecodeRune(s.text[at:])
		switch {
		case r == utf8.RuneError && n == 1:
			return s.fault(s.position(at), fmt.Sprintf("byte 0x%02x is not valid UTF-8", s.text[at]), "save the file as UTF-8")
		case r < ' ' && r != '\t' && r != '\n', strings.ContainsRune("\u0085\u2028\u2029\ufeff\ufffe\uffff", r): // YAML 1.1 reads some otherwise than 1.2
			return s.fault(s.position(at), fmt.Sprintf("the character %U cannot stand in a plan as it is", r), fmt.Sprintf(`write it as \u%04x, in double quotes`, r))
		case strings.ContainsRune(marks, r):
			if parts++; parts > maxMarks {
				return s.fault(s.position(at), fmt.Sprintf("the plan has more than %d parts", maxMarks),
					"split the plan, or keep large contents in files of the workspace")
			}
		}
		at += n
	}
	return nil
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
	next := "check the path"
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err // the place names the path already
	}
	return &session.Error{Code: session.ErrPlan, Message: "the file cannot be read", Place: path, Next: next, Cause: err}
}

func tooLarge(name string) error {
	return &session.Error{
		Code:    session.ErrPlan,
		Message: fmt.Sprintf("the plan file is larger than %d MiB; nothing of it was read", MaxBytes>>20),
		Place:   name,
		Next:    "keep large contents in files of the workspace and let a run step copy them, or split the plan",
	}
}
