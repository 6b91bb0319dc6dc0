package terminal

import (
	"fmt"
	"io"
	"strings"
)

// Redrawn shows pages on a terminal, each in the place of the one before. A Write is one
// page.
type Redrawn struct {
	Out io.Writer
	// of the terminal
	Size func() (columns, rows int)

	// of the page that is shown
	rows int
}

// Write implements io.Writer. What the terminal has no room for is cut: what scrolled
// away could not be taken off any more.
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
