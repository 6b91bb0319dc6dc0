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

// Page is where a command answers: for a person, or as JSON for a script. All fields but
// the bools must be set.
type Page struct {
	Out  io.Writer
	JSON bool
	// times are those of the local zone
	Local bool
	Now   func() time.Time
	// says a hint as its door does
	Spell func(session.Hint) string
}

func (p Page) write(s string) error {
	if _, err := io.WriteString(p.Out, s); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

func (p Page) json(v any) error { return JSON(p.Out, v) }

// Options say where output goes and how it looks. Results and progress go to the page; as
// JSON Lines they are all that goes there. Err and Exit must be set, and with Live also
// Width.
type Options struct {
	Page
	// warnings, questions, errors
	Err io.Writer
	// no progress: only the result, warnings and errors
	Quiet bool
	// 1 and more shows what commands write
	Verbose int
	// Out is a terminal that can redraw a line
	Live bool
	// Out may be coloured
	Color bool
	// the locale cannot show symbols
	ASCII bool
	// a new session is run, rather than one resumed
	Fresh bool
	// another process executes it: no header names the session
	Follows bool
	// columns of Out
	Width func() int

	// Behind reports whether the reader of Out is behind, and still is if it is given
	// some time: what may be left out is left out then; nil: it never is.
	Behind func(patience time.Duration) bool
	// exit status of a result
	Exit func(session.Result) int
	// how delivery stands at the start
	Sync app.Delivery
}

// Detect judges out and the environment: a live line only on a terminal that is known,
// not dumb and not in CI, colour only without NO_COLOR, symbols unless the locale is
// explicitly C or POSIX. The caller sets the rest.
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

// asciiLocale reports whether the locale that counts is explicitly C or POSIX. An unset
// one says nothing about the terminal.
func asciiLocale(getenv func(string) string) bool {
	v := cmp.Or(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG"))
	return v == "C" || v == "POSIX"
}

// marks are the symbols of one locale, coloured where Out may be.
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

// Plural counts in words: "1 step", "1,200 steps".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return comma(n) + " " + noun + "s"
}

func upper(s session.State) string { return strings.ToUpper(Clean(string(s))) }
