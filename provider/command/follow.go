package command

import (
	"context"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/session"
)

// watchEvery is how often an output is looked at that someone follows.
const watchEvery = 100 * time.Millisecond

// Follow copies, raw, what the command of key has written, and with more also what it
// writes until it is over or ctx ends, and reports whether it is. What it wrote to
// standard error goes to stderr if it is kept apart, else to stdout in its order. It
// takes no lock and changes nothing. It returns fs.ErrNotExist when there is no output:
// the command was not started, or its receipt has it. When ctx ends, what is there by
// then is copied.
func Follow(ctx context.Context, dir, key string, more bool, stdout, stderr io.Writer) (over bool, err error) {
	begun, c, err := look(dir, key)
	if err != nil {
		return false, err
	}
	// its output may be there before its claim is
	if begun.State == session.CommandUnclaimed {
		return false, fs.ErrNotExist
	}
	var tails []*tail
	for _, path := range outputPaths(dir, key, c.Header.Split) {
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			return false, err
		}
		// only read
		defer func() { _ = f.Close() }()
		tails = append(tails, &tail{f: f})
	}
	for {
		last := ctx.Err() != nil
		// before what was written by then is read
		rec, c, err := look(dir, key)
		if err != nil {
			return false, err
		}
		sizes := [2]int64{-1, -1}
		if c.Exit != nil && c.Exit.Unknown == "" {
			sizes = [2]int64{c.Exit.Out, c.Exit.Err}
		}
		for i, t := range tails {
			if err := t.copy([]io.Writer{stdout, stderr}[i], sizes[i]); err != nil {
				return false, err
			}
		}
		over = isOver(rec.State) || rec.State == session.CommandUnclaimed
		if !more || over {
			return over, nil
		}
		if last {
			return false, context.Cause(ctx)
		}
		// when ctx ends, one look is left
		_ = rest(ctx, watchEvery)
	}
}

// tail is an output that grows.
type tail struct {
	f *os.File
	// read so far
	at int64
}

// copy copies what came since; what lies beyond limit is not the command's, a negative
// limit says nothing.
func (t *tail) copy(w io.Writer, limit int64) error {
	info, err := t.f.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	if limit >= 0 {
		size = min(size, limit)
	}
	if size <= t.at {
		return nil
	}
	if _, err := io.Copy(w, withoutHoles(t.f, t.at, size)); err != nil {
		return err
	}
	t.at = size
	return nil
}
