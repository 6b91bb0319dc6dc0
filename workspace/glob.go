package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// maxRead is the number of files of one read; its receipt has them all.
	maxRead = 10_000
	// maxSearched is the number of files that one search looks at.
	maxSearched = 1_000_000
)

// pattern is a glob: segments in the form of path.Match, and ** for any number of
// directories.
type pattern []string

func parsePattern(glob string) (pattern, error) {
	name, err := clean(glob)
	if err != nil {
		return nil, err
	}
	p := pattern(strings.Split(name, "/"))
	for _, segment := range p {
		if _, err := path.Match(segment, ""); err != nil {
			return nil, stepError(glob, "the pattern is malformed")
		}
	}
	return p, nil
}

// literal reports whether p names exactly one path.
func (p pattern) literal() bool {
	return !slices.ContainsFunc(p, func(s string) bool { return strings.ContainsAny(s, `*?[\`) })
}

// plain returns the one path that p names, without its escapes. ok is false if p may
// name several.
func (p pattern) plain() (name string, ok bool) {
	var b strings.Builder
	escaped := false
	for _, c := range []byte(strings.Join(p, "/")) {
		if !escaped && strings.IndexByte(`*?[`, c) >= 0 {
			return "", false
		}
		if escaped = !escaped && c == '\\'; !escaped {
			b.WriteByte(c)
		}
	}
	return b.String(), true
}

// base returns the directory above everything that p matches.
func (p pattern) base() string {
	n := slices.IndexFunc(p, func(s string) bool { return strings.ContainsAny(s, `*?[\`) })
	if n <= 0 {
		return "."
	}
	return path.Join(p[:n]...)
}

// match reports whether p matches name.
func (p pattern) match(name string) bool { return p.walk(strings.Split(name, "/"), false) }

// under reports whether a path below the directory dir could match.
func (p pattern) under(dir string) bool {
	return dir == "." || p.walk(strings.Split(dir, "/"), true)
}

// walk matches segment by segment. With prefix it reports whether names is a proper
// start of a match. It goes back only to the last **, because the segments before that
// have matched already.
func (p pattern) walk(names []string, prefix bool) bool {
	at, star, mark := 0, -1, 0
	for i := 0; i < len(names); {
		switch {
		case at < len(p) && p[at] == "**":
			star, mark = at, i
			at++
		case at < len(p) && segmentMatches(p[at], names[i]):
			at++
			i++
		case star >= 0:
			mark++
			at, i = star+1, mark
		default:
			return false
		}
	}
	if prefix {
		return at < len(p) || star >= 0
	}
	for at < len(p) && p[at] == "**" {
		at++
	}
	return at == len(p)
}

func segmentMatches(segment, name string) bool {
	ok, err := path.Match(segment, name)
	return ok && err == nil
}

// files returns the regular files and symbolic links at or below dir that p matches,
// sorted. A nil p matches all files. More than most files are ErrFileStep.
func (r *Root) files(ctx context.Context, most int, dir string, p pattern) ([]string, error) {
	var found []string
	err := r.walk(ctx, dir, p, func(name string, d fs.DirEntry) error {
		if d.Type()&^fs.ModeSymlink != 0 {
			return nil
		}
		if found = append(found, name); len(found) > most {
			return stepError(dir, fmt.Sprintf("more than %d files are too many; name fewer of them", most))
		}
		return nil
	})
	slices.Sort(found)
	return found, err
}

// walk calls visit for everything at or below dir that p matches, except dir itself if
// it is a directory. A nil p matches everything. walk does not follow links to
// directories and skips .git. A dir that is not a directory has nothing below it. walk
// skips directories below dir that disappear meanwhile or cannot be read.
func (r *Root) walk(ctx context.Context, dir string, p pattern, visit func(name string, d fs.DirEntry) error) error {
	return fs.WalkDir(r.root.FS(), dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && name == dir && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR):
			return err
		case err != nil || d.IsDir() && name == dir:
			return nil
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		}
		if p == nil || p.match(name) {
			err = visit(name, d)
		}
		if err == nil && d.IsDir() && p != nil && !p.under(name) {
			err = fs.SkipDir
		}
		return err
	})
}
