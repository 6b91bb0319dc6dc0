package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/subtree"
)

// maxBytes is the greatest length of a file that can be trusted.
const maxBytes = 1 << 20

// names lists the files that are read, all directly in the workspace.
func names() []string { return []string{"AGENTS.md", "CLAUDE.md"} }

// Seen holds the files of a workspace that would tell models how to work there.
type Seen struct {
	Workspace string
	Files     []session.TrustedFile
	// Refused says of files why they can never be trusted as they are.
	Refused []string
	// Digest binds the workspace, and the paths and contents of Files. It is empty if
	// there are none.
	Digest string
}

// looker reads files. without names the check to leave out, for tests.
type looker struct {
	without string
	// read is called between the check and the reading of a file, by tests
	read func(name string)
}

// Look reads the files of a workspace. dir must be absolute and without symbolic links.
func Look(dir string) (Seen, error) { return looker{}.look(dir) }

func (l looker) look(dir string) (Seen, error) {
	s := Seen{Workspace: dir}
	root, err := subtree.Open(dir)
	if err != nil {
		return s, &session.Error{Code: session.ErrWorkspace, Message: "the workspace cannot be opened, so nothing of it was read", Place: dir, Cause: err}
	}
	defer func() { _ = root.Close() }() // it was only read
	for _, name := range names() {
		content, err := l.content(root, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			s.Refused = append(s.Refused, name+" "+err.Error())
		default:
			sum := sha256.Sum256(content)
			s.Files = append(s.Files, session.TrustedFile{Path: name, Hash: hex.EncodeToString(sum[:]), Text: string(content)})
		}
	}
	s.Digest = l.digest(s)
	return s, nil
}

// digest binds the files of s to its workspace.
func (l looker) digest(s Seen) string {
	if len(s.Files) == 0 {
		return ""
	}
	h := sha256.New()
	parts := []string{"acode-trust-v1", s.Workspace}
	if l.without == "place" {
		parts = parts[:1]
	}
	for _, f := range s.Files {
		if l.without != "path" {
			parts = append(parts, f.Path)
		}
		parts = append(parts, f.Hash)
	}
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%d %s\n", len(p), p) // a hash never fails to write
	}
	return hex.EncodeToString(h.Sum(nil))
}

// content reads a file once. Its error completes a sentence that begins with the name.
func (l looker) content(root *os.Root, name string) ([]byte, error) {
	f, err := l.open(root, name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, errors.New("cannot be read")
	case !info.Mode().IsRegular() && l.without != "regular":
		return nil, errors.New("is not a regular file")
	}
	if l.read != nil {
		l.read(name)
	}
	limit := int64(maxBytes + 1)
	if l.without == "size" {
		limit = 1 << 40
	}
	content, err := io.ReadAll(io.LimitReader(f, limit))
	switch {
	case err != nil:
		return nil, errors.New("cannot be read")
	case len(content) > maxBytes && l.without != "size":
		return nil, fmt.Errorf("has more than %d bytes", maxBytes)
	case l.without != "visible":
		return content, visible(string(content))
	}
	return content, nil
}

// open opens a file of the workspace. It follows links that stay inside, and waits for no
// named pipe.
func (l looker) open(root *os.Root, name string) (*os.File, error) {
	if l.without == "inside" {
		return os.OpenFile(filepath.Join(root.Name(), name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if _, gone := root.Lstat(name); gone == nil {
			return nil, errors.New("is a link to nothing")
		}
		return nil, err
	}
	if err == nil {
		return f, nil
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return nil, errors.New("is a link that leads outside of the workspace")
	}
	return nil, fmt.Errorf("cannot be opened: %w", errno)
}

// visible returns an error for text of which a person would not see everything.
func visible(text string) error {
	if !utf8.ValidString(text) {
		return errors.New("is not valid UTF-8")
	}
	for n, line := range strings.Split(text, "\n") {
		for _, r := range strings.TrimSuffix(line, "\r") {
			if session.Invisible(r) {
				return fmt.Errorf("holds the invisible character %U in line %d", r, n+1)
			}
		}
	}
	return nil
}
