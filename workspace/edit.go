package workspace

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/acode-dev/acode/session"
)

// edit replaces text in the content that the changes before it leave in n.
func (n *node) edit(ctx context.Context, c session.Change) error {
	if c.Old == "" {
		return stepError(c.Path, "the text to replace is empty")
	}
	data, err := n.load(ctx)
	if err != nil {
		return err
	}
	old := []byte(c.Old)
	at := occurrences(data, old, c.All)
	switch {
	case len(at) == 0:
		return stepError(c.Path, "the text to replace does not occur")
	case len(at) > 1 && !c.All:
		return stepError(c.Path, fmt.Sprintf("the text to replace occurs %d times, on lines %s, instead of once", len(at), lines(data, at)))
	case int64(len(data))+int64(len(at))*int64(len(c.New)-len(c.Old)) > maxResult:
		return stepError(c.Path, "the result of the edit would be above 256 MiB")
	}
	n.cur = newContent(bytes.ReplaceAll(data, old, []byte(c.New)), n.cur.image.Mode)
	return nil
}

// load reads the current content of n into memory and checks it against its hash.
func (n *node) load(ctx context.Context) ([]byte, error) {
	if n.cur.origin == nil {
		return n.cur.data, nil
	}
	if n.cur.image.Size > maxEdit {
		return nil, stepError(n.path, "the file is above 64 MiB, which is too large to edit")
	}
	var b bytes.Buffer
	if _, err := io.Copy(&b, &section{ctx: ctx, r: n.cur.origin.reader()}); err != nil {
		return nil, failed(ctx, n.path, err)
	}
	return b.Bytes(), nil
}

// occurrences returns the offsets of old in data. Unless all are to be replaced,
// overlapping ones count too, because it is not known which one is meant.
func occurrences(data, old []byte, all bool) (at []int) {
	for from := 0; ; {
		i := bytes.Index(data[from:], old)
		if i < 0 {
			return at
		}
		at = append(at, from+i)
		if from += i + 1; all {
			from += len(old) - 1
		}
	}
}

// lines returns the line numbers of the first few offsets.
func lines(data []byte, at []int) string {
	const shown = 5
	var numbers []string
	for _, offset := range at[:min(len(at), shown)] {
		numbers = append(numbers, fmt.Sprint(1+bytes.Count(data[:offset], []byte("\n"))))
	}
	if len(at) > shown {
		numbers = append(numbers, "…")
	}
	return strings.Join(numbers, ", ")
}
