package app

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/workspace"
)

// ReadFile carries out a call that reads lines of a file, and records it. It returns the
// lines with their secrets masked, and a note if lines are missing. A lines of 0 means as
// many as an answer may have.
func (c *Calls) ReadFile(ctx context.Context, call Call, line, lines int) (text, note string, err error) {
	f, err := readFile(ctx, c.root, call.Step.Read.Path, line, lines)
	return c.found(call, f, err)
}

// ListFiles carries out a call that lists a directory or a glob, and records it. It
// returns one line for each entry, and a note if entries are missing.
func (c *Calls) ListFiles(ctx context.Context, call Call, limit int) (text, note string, err error) {
	f, err := listFiles(ctx, c.root, call.Step.Read.Path, limit)
	return c.found(call, f, err)
}

// SearchFiles carries out a call that searches files, and records it. It returns the
// lines that match, and a note if lines are missing.
func (c *Calls) SearchFiles(ctx context.Context, call Call) (text, note string, err error) {
	f, err := searchFiles(ctx, c.root, *call.Step.Search)
	return c.found(call, f, err)
}

func (c *Calls) found(call Call, f found, err error) (text, note string, _ error) {
	if err == nil {
		c.Record(call, f.files)
	}
	return f.text, f.note, err
}

// found is the result of a call that reads.
type found struct {
	text string
	// note says what is missing; it is no part of a file that the text has
	note  string
	files []session.FileState
}

// reads carries out a call of a model that reads. The note follows the text.
func reads(ctx context.Context, root *workspace.Root, work session.CallWork) (text string, files []session.FileState, err error) {
	var args struct{ Line, Lines, Limit int }
	if err := json.Unmarshal([]byte(work.Arguments), &args); err != nil {
		return "", nil, fmt.Errorf("decode arguments: %w", err)
	}
	var f found
	switch work.Tool {
	case "read_file":
		f, err = readFile(ctx, root, work.Step.Read.Path, args.Line, args.Lines)
	case "list_files":
		f, err = listFiles(ctx, root, work.Step.Read.Path, args.Limit)
	default:
		f, err = searchFiles(ctx, root, *work.Step.Search)
	}
	if f.note != "" {
		f.text += "\n(" + f.note + ")"
	}
	return f.text, f.files, err
}

func readFile(ctx context.Context, root *workspace.Root, path string, line, lines int) (f found, err error) {
	t, err := root.ReadText(ctx, path, line, lines)
	if err != nil {
		return f, err
	}
	f = found{text: t.String(), files: []session.FileState{t.File}}
	switch {
	case t.Next > 0:
		f.note = fmt.Sprintf("the file has %d lines; more follow from line %d", t.Total, t.Next)
	case t.Truncated:
		f.note = "the end of a long line is missing"
	case len(t.Lines) == 0 && !t.Binary:
		f.note = fmt.Sprintf("the file has %d lines", t.Total)
	}
	return f, nil
}

func listFiles(ctx context.Context, root *workspace.Root, path string, limit int) (f found, err error) {
	entries, cut, err := root.List(ctx, path, limit)
	if err != nil {
		return f, err
	}
	var out strings.Builder
	for _, e := range entries {
		out.WriteString(e.String() + "\n")
	}
	f.text = out.String()
	if cut {
		f.note = fmt.Sprintf("only the first %d entries; name fewer of them with a glob", len(entries))
	} else if len(entries) == 0 {
		f.note = "there are no entries"
	}
	return f, nil
}

func searchFiles(ctx context.Context, root *workspace.Root, s session.Search) (f found, err error) {
	text, cut, files, err := root.Search(ctx, s)
	if err != nil {
		return f, err
	}
	f = found{text: text, files: files}
	if cut {
		f.note = "more lines match; search with a narrower pattern or path"
	} else if text == "" {
		f.note = "no line matches"
	}
	return f, nil
}

// Restore returns a change with each mask in its texts replaced by what the mask stands
// for in the present file. It returns ErrUsage for a mask that stands for no single
// value.
func (c *Calls) Restore(ctx context.Context, change session.Change) (session.Change, error) {
	return c.root.Restore(ctx, change)
}
