package terminal

import (
	"fmt"
	"strings"

	"github.com/acode-dev/acode/app"
)

// HeldText returns the held changes of a call with their differences, for people.
func HeldText(h app.Held) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of session %s changed %s that other programs execute or trust:\n", h.Op.Op, h.Session.Short, Plural(len(h.Changes), "path"))
	for _, c := range h.Changes {
		fmt.Fprintf(&b, "\n%s (%s)\n", cleanLine(c.Path), c.Change)
		for _, line := range c.Lines {
			b.WriteString("  " + cleanLine(line) + "\n")
		}
	}
	b.WriteString("\n")
	return b.String()
}
