package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/acode-dev/acode/session"
)

// Entry is a file or directory of a list.
type Entry struct {
	// Path is relative to the workspace. It has its secrets masked.
	Path string
	Kind EntryKind
	// Size is the length of a file in bytes.
	Size int64
}

// EntryKind is a kind of entry. acode neither reads nor changes another one.
type EntryKind string

// Kinds of entries. EntryOther is a FIFO, a socket, a device, or a file with several
// names (hard links).
const (
	EntryFile      EntryKind = "file"
	EntryDirectory EntryKind = "directory"
	EntryLink      EntryKind = "link"
	EntryOther     EntryKind = "other"
)

// String returns the entry as one line without its line end.
func (e Entry) String() string {
	if e.Kind == EntryFile {
		return fmt.Sprintf("%s\t%s\t%d", shownName(e.Path), e.Kind, e.Size)
	}
	return shownName(e.Path) + "\t" + string(e.Kind)
}

// List returns what is in a directory, or what a glob matches, sorted by path. It skips
// .git and follows no links, as Read does. It returns at most limit entries and 64 KiB
// of their lines; a limit of 0 is no limit. The bool reports whether entries are
// missing. List returns ErrFileStep for a path that does not exist and for more than a
// million files, and ErrUsage for a negative limit.
func (r *Root) List(ctx context.Context, where string, limit int) ([]Entry, bool, error) {
	if limit < 0 {
		return nil, false, &session.Error{Code: session.ErrUsage, Place: where, Message: "the limit of entries is not negative; nothing was read",
			Next: session.Words("give a number from 1, or leave it out")}
	}
	names, met, err := r.listed(ctx, where)
	if err != nil {
		return nil, false, failed(ctx, where, err)
	}
	slices.Sort(names)
	var entries []Entry
	size := 0
	for _, name := range names {
		st, err := r.lstat(name)
		if met && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)) {
			continue
		}
		if err != nil {
			return nil, false, failed(ctx, name, err)
		}
		e := Entry{Path: r.Redact.String(name), Kind: st.kind()}
		if e.Kind == EntryFile {
			e.Size = st.size
		}
		if size += len(e.String()) + 1; size > maxText || limit > 0 && len(entries) == limit {
			return entries, true, nil
		}
		entries = append(entries, e)
	}
	return entries, false, nil
}

func (s stat) kind() EntryKind {
	switch {
	case s.directory():
		return EntryDirectory
	case s.symlink():
		return EntryLink
	case s.refusal(1) != "":
		return EntryOther
	}
	return EntryFile
}

// listed returns the paths that where stands for. met reports whether they were found by
// a walk rather than named.
func (r *Root) listed(ctx context.Context, where string) (names []string, met bool, err error) {
	if where == "" {
		where = "."
	}
	p, err := parsePattern(where)
	if err != nil {
		return nil, false, err
	}
	name := path.Join(p...)
	info, err := r.root.Stat(name)
	add := func(found string) error {
		if names = append(names, found); len(names) > maxSearched {
			return stepError(where, fmt.Sprintf("more than %d files are too many; name fewer of them", maxSearched))
		}
		return nil
	}
	switch {
	case err == nil && info.IsDir():
		err = r.walk(ctx, name, nil, func(found string, d fs.DirEntry) error {
			if err := add(found); err != nil || !d.IsDir() {
				return err
			}
			return fs.SkipDir
		})
		return names, true, err
	case err == nil:
		return []string{name}, false, nil
	case p.literal():
		return nil, false, err
	}
	err = r.walk(ctx, p.base(), p, func(found string, _ fs.DirEntry) error { return add(found) })
	return names, true, err
}

// shownName returns a name for a line of text. A name that could break the line or look
// like another name is quoted as in Go.
func shownName(name string) string {
	strange := func(c rune) bool { return !unicode.IsPrint(c) || c == utf8.RuneError }
	if strings.HasPrefix(name, `"`) || strings.ContainsFunc(name, strange) {
		return strconv.Quote(name)
	}
	return name
}
