package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/acode-dev/acode/session"
)

// ReadFile carries out a call that reads lines of a file, and records it. It returns the
// lines with their secrets masked, and a note if lines are missing. A lines of 0 means as
// many as an answer may have.
func (c *Calls) ReadFile(ctx context.Context, call Call, line, lines int) (text, note string, err error) {
	t, err := c.root.ReadText(ctx, call.Step.Read.Path, line, lines)
	if err != nil {
		return "", "", err
	}
	c.Record(call, []session.FileState{t.File})
	switch {
	case t.Next > 0:
		note = fmt.Sprintf("the file has %d lines; more follow from line %d", t.Total, t.Next)
	case t.Truncated:
		note = "the end of a long line is missing"
	case len(t.Lines) == 0 && !t.Binary:
		note = fmt.Sprintf("the file has %d lines", t.Total)
	}
	return t.String(), note, nil
}

// ListFiles carries out a call that lists a directory or a glob, and records it. It
// returns one line for each entry, and a note if entries are missing.
func (c *Calls) ListFiles(ctx context.Context, call Call, limit int) (text, note string, err error) {
	entries, cut, err := c.root.List(ctx, call.Step.Read.Path, limit)
	if err != nil {
		return "", "", err
	}
	c.Record(call, nil)
	var out strings.Builder
	for _, e := range entries {
		out.WriteString(e.String() + "\n")
	}
	if cut {
		note = fmt.Sprintf("only the first %d entries; name fewer of them with a glob", len(entries))
	} else if len(entries) == 0 {
		note = "there are no entries"
	}
	return out.String(), note, nil
}

// SearchFiles carries out a call that searches files, and records it. It returns the
// lines that match, and a note if lines are missing.
func (c *Calls) SearchFiles(ctx context.Context, call Call) (text, note string, err error) {
	text, cut, files, err := c.root.Search(ctx, *call.Step.Search)
	if err != nil {
		return "", "", err
	}
	c.Record(call, files)
	if cut {
		note = "more lines match; search with a narrower pattern or path"
	} else if text == "" {
		note = "no line matches"
	}
	return text, note, nil
}

// Restore returns a change with each mask in its texts replaced by what the mask stands
// for in the present file. It returns ErrUsage for a mask that stands for no single
// value.
func (c *Calls) Restore(ctx context.Context, change session.Change) (session.Change, error) {
	return c.root.Restore(ctx, change)
}
