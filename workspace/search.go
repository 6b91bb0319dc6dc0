package workspace

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
)

const (
	// maxMatches is the number of bytes of all matches together.
	maxMatches = 64 << 10
	// maxMatchLine is the number of bytes of one line that are shown.
	maxMatchLine = 400
	// maxLine is the number of bytes of one line that are searched.
	maxLine = 1 << 20
	// sniff is the number of bytes in which a NUL makes a file binary.
	sniff = 8 << 10
)

// Search looks for an RE2 pattern, line by line, in the files at or below a path, which
// may be a glob. It does not find what is masked. It returns lines "path:line: text" as
// valid UTF-8, with text cut at 400 bytes, and at most 64 KiB of them. The bool reports
// whether lines are missing because of that limit. Search also returns the files that
// matched up to there and whose names are UTF-8. It skips binary files, .git and
// anything past the first MiB of a line. It returns ErrFileStep for a bad pattern, a
// missing path and more than a million files.
func (r *Root) Search(ctx context.Context, s session.Search) (string, bool, []session.FileState, error) {
	re, err := regexp.Compile(s.Pattern)
	if err != nil {
		return "", false, nil, stepError(s.Path, "the search pattern is malformed: "+err.Error())
	}
	names, met, err := r.searched(ctx, s.Path)
	if err != nil {
		return "", false, nil, failed(ctx, s.Path, err)
	}
	m := matches{re: re, redact: r.Redact}
	var files []session.FileState
	for _, name := range names {
		state, hit, err := r.searchFile(ctx, name, &m)
		if met && passedOver(err) {
			continue
		}
		if err != nil {
			return "", false, nil, failed(ctx, name, err)
		}
		if hit && utf8.ValidString(name) {
			files = append(files, state)
		}
		if m.cut {
			break
		}
	}
	return m.text.String(), m.cut, files, nil
}

// searched returns the files that a search path stands for. met reports whether they
// were found by a walk rather than named.
func (r *Root) searched(ctx context.Context, where string) (names []string, met bool, err error) {
	if where == "" {
		where = "."
	}
	p, err := parsePattern(where)
	if err != nil {
		return nil, false, err
	}
	name := strings.Join(p, "/")
	info, err := r.root.Stat(name)
	switch {
	case err == nil && info.IsDir():
		names, err = r.files(ctx, maxSearched, name, nil)
		return names, true, err
	case err == nil:
		return []string{name}, false, nil
	case p.literal():
		return nil, false, err
	}
	names, err = r.files(ctx, maxSearched, p.base(), p)
	return names, true, err
}

// matches collects lines up to the limit.
type matches struct {
	re     *regexp.Regexp
	redact *redact.Redactor
	text   strings.Builder
	cut    bool
}

func (m *matches) add(name string, line int, text string) {
	l := strings.ToValidUTF8(fmt.Sprintf("%s:%d: %s\n", shownName(m.redact.String(name)), line, cutLine(text, maxMatchLine)), "�")
	if m.cut = m.cut || m.text.Len()+len(l) > maxMatches; !m.cut {
		m.text.WriteString(l)
	}
}

// searchFile searches and hashes one file. It masks only a file in which a line matches.
func (r *Root) searchFile(ctx context.Context, name string, m *matches) (session.FileState, bool, error) {
	f, before, err := r.follow(name)
	if err != nil {
		return session.FileState{}, false, err
	}
	defer f.Close()
	now := r.now()
	sum := sha256.New()
	in := bufio.NewReaderSize(io.TeeReader(&section{ctx: ctx, r: f}, sum), sniff)
	head, err := in.Peek(sniff)
	if err != nil && err != io.EOF {
		return session.FileState{}, false, err
	}
	if isBinary(head) {
		return session.FileState{}, false, nil
	}
	hit, err := m.in(in)
	if err != nil || !hit {
		return session.FileState{}, false, err
	}
	masked := r.Redact.Lines(&section{ctx: ctx, r: io.NewSectionReader(f, 0, before.size)}, maxLine)
	if hit, err = m.collect(name, masked); err != nil || !hit {
		return session.FileState{}, false, err
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		return session.FileState{}, false, err
	}
	after, err := fstat(f)
	if err != nil {
		return session.FileState{}, false, err
	}
	state := after.state(name, hex.EncodeToString(sum.Sum(nil)), now)
	state.Racy = state.Racy || before.mtime != after.mtime || before.ctime != after.ctime
	return state, true, nil
}

// in reports whether a line matches. It sees only the first MiB of a line.
func (m *matches) in(in *bufio.Reader) (bool, error) {
	var line []byte
	for {
		line = line[:0]
		var err error
		for {
			part, rerr := in.ReadSlice('\n')
			line = append(line, part[:min(len(part), maxLine-len(line))]...)
			if err = rerr; err != bufio.ErrBufferFull {
				break
			}
		}
		if err != nil && err != io.EOF {
			return false, err
		}
		if text := bytes.TrimRight(line, "\r\n"); (len(line) > 0 || err == nil) && m.re.Match(text) {
			return true, nil
		}
		if err == io.EOF {
			return false, nil
		}
	}
}

// collect adds the masked lines that match until the limit. It reports whether one did.
func (m *matches) collect(name string, lines *redact.Lines) (hit bool, err error) {
	for !m.cut {
		line, err := lines.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return false, err
		}
		if text := strings.TrimRight(line.Text, "\r\n"); m.re.MatchString(text) {
			hit = true
			m.add(name, line.Number, text)
		}
	}
	return hit, nil
}
