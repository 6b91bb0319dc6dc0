package terminal

import (
	"fmt"
	"io"
	"strings"
)

// Redrawn shows pages on a terminal; each page replaces the one before. Each Write is one
// page.
type Redrawn struct {
	Out io.Writer
	// Size returns the size of the terminal.
	Size func() (columns, rows int)

	// rows is the number of lines of the shown page.
	rows int
}

// Write implements io.Writer. It cuts a page to the size of the terminal, because lines
// that scrolled away could not be erased.
func (r *Redrawn) Write(page []byte) (int, error) {
	columns, rows := r.Size()
	lines := strings.Split(strings.TrimRight(string(page), "\n"), "\n")
	lines = lines[:min(len(lines), max(1, rows-1))]
	text := ""
	if r.rows > 0 {
		text = fmt.Sprintf("\x1b[%dA\x1b[J", r.rows)
	}
	for _, l := range lines {
		text += shorten(l, columns-1, "…") + "\n"
	}
	r.rows = len(lines)
	if _, err := io.WriteString(r.Out, text); err != nil {
		return 0, err
	}
	return len(page), nil
}
