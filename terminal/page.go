package terminal

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
)

// Page prints the answer of a command: for a person, or as JSON for a script. All fields
// but the bools must be set.
type Page struct {
	Out  io.Writer
	JSON bool
	// Local selects times of the local time zone.
	Local bool
	Now   func() time.Time
	// Spell returns a hint as its reader types it.
	Spell func(session.Hint) string
}

func (p Page) write(s string) error {
	if _, err := io.WriteString(p.Out, s); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

func (p Page) json(v any) error { return JSON(p.Out, v) }

// Options decide where output goes and how it looks. Results and progress go to the page;
// with JSON nothing else does. Err and Exit must be set, and with Live also Width.
type Options struct {
	Page
	// Err receives warnings, questions and errors.
	Err io.Writer
	// Quiet leaves out progress: only the result, warnings and errors are printed.
	Quiet bool
	// Verbose of 1 and more shows the output of commands.
	Verbose int
	// Live is set when Out is a terminal that can redraw lines.
	Live bool
	// Color allows colours on Out.
	Color bool
	// ASCII is set when the locale cannot show symbols.
	ASCII bool
	// Fresh is set for run; resume leaves it unset.
	Fresh bool
	// Follows is set when another process executes the session. No header names it then.
	Follows bool
	// Width returns the columns of Out.
	Width func() int

	// Behind reports whether the reader of Out is behind and still is after patience. The
	// Printer then leaves out lines of output. With nil it never is.
	Behind func(patience time.Duration) bool
	// Exit returns the exit status of a result.
	Exit func(session.Result) int
	// Sync is the state of delivery at the start.
	Sync app.Delivery
}

// Detect returns options for out and the environment; the caller sets the rest. Live
// needs a known terminal that is neither dumb nor in CI. Color needs an unset NO_COLOR.
// ASCII needs a locale that is explicitly C or POSIX.
func Detect(out *os.File, getenv func(string) string) Options {
	fd := int(out.Fd())
	isTerminal := term.IsTerminal(fd) && getenv("TERM") != "dumb" && getenv("TERM") != ""
	ci := getenv("CI")
	return Options{
		Live:  isTerminal && (ci == "" || ci == "false" || ci == "0"),
		Color: isTerminal && getenv("NO_COLOR") == "",
		ASCII: asciiLocale(getenv),
		Width: func() int {
			if w, _, err := term.GetSize(fd); err == nil && w > 0 {
				return w
			}
			return 80
		},
	}
}

// asciiLocale reports whether the effective locale is explicitly C or POSIX. An unset
// locale says nothing about the terminal.
func asciiLocale(getenv func(string) string) bool {
	v := cmp.Or(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG"))
	return v == "C" || v == "POSIX"
}

// marks are the symbols of one locale, coloured if Color allows it.
type marks struct {
	done, running, failed, unknown, warn, again, ellipsis, bar, dot, rule string

	spin []string
}

func marksFor(ascii, color bool) marks {
	m := marks{"✓", "●", "✗", "?", "⚠", "↻", "…", "│", "·", "─", []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧"}}
	if ascii {
		m = marks{"[x]", "*", "!", "?", "!", "~", "...", "|", "-", "-", []string{"|", "/", "-", "\\"}}
	}
	if color {
		paint := func(code, s string) string { return "\x1b[" + code + "m" + s + "\x1b[0m" }
		const red, green, yellow, cyan = "31", "32", "33", "36"
		m.done, m.running, m.failed = paint(green, m.done), paint(cyan, m.running), paint(red, m.failed)
		m.unknown, m.warn, m.again = paint(yellow, m.unknown), paint(yellow, m.warn), paint(yellow, m.again)
	}
	return m
}

// Plural returns a count in words: "1 step", "1,200 steps".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return comma(n) + " " + noun + "s"
}

func upper(s session.State) string { return strings.ToUpper(Clean(string(s))) }
