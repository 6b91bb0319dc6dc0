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

// watchEvery is the time between two looks at an output that is followed.
const watchEvery = 100 * time.Millisecond

// Follow copies the raw output of the command of key. If more is set, it continues until
// the command is over or ctx ends. It reports whether the command is over. Standard error
// goes to stderr if it is kept apart, else to stdout in its order. Follow takes no lock
// and changes nothing. It returns fs.ErrNotExist if there is no output: the command was
// not started, or the output is in its receipt. When ctx ends, Follow copies the output
// so far.
func Follow(ctx context.Context, dir, key string, more bool, stdout, stderr io.Writer) (over bool, err error) {
	begun, c, err := look(dir, key)
	if err != nil {
		return false, err
	}
	// the output may exist before the claim
	if begun.State == session.CommandUnclaimed {
		return false, fs.ErrNotExist
	}
	var tails []*tail
	for _, path := range outputPaths(dir, key, c.Header.Split) {
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			return false, err
		}
		defer func() { _ = f.Close() }()
		tails = append(tails, &tail{f: f})
	}
	for {
		last := ctx.Err() != nil
		// look at the record before the output, so that no output of a finished command
		// is missed
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
		// when ctx ends, one more look follows
		_ = rest(ctx, watchEvery)
	}
}

// tail is an output that grows; at is the number of bytes read so far.
type tail struct {
	f  *os.File
	at int64
}

// copy copies the bytes since the last call. Bytes beyond limit are not the command's; a
// negative limit is no limit.
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
