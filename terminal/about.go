package terminal

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/acode-dev/acode/session"
)

// Setting is one configuration key with its value, as it would be written in a file, and
// where it comes from, as "default" or "/path/config.yml:3".
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

// ConfigShow writes settings one a line; origin adds where each value comes from.
func ConfigShow(w io.Writer, settings []Setting, origin bool) error {
	if !origin {
		var b strings.Builder
		for _, s := range settings {
			fmt.Fprintf(&b, "%s: %s\n", Clean(s.Key), Clean(s.Value))
		}
		return write(w, b.String())
	}
	table := [][]string{{"KEY", "VALUE", "ORIGIN"}}
	for _, s := range settings {
		table = append(table, []string{s.Key, s.Value, s.Origin})
	}
	return columnsTo(w, table, nil)
}

// ConfigShowJSON writes the same for scripts, always with origins.
func ConfigShowJSON(w io.Writer, settings []Setting) error {
	return JSON(w, struct {
		V        int       `json:"v"`
		Settings []Setting `json:"settings"`
	}{jsonVersion, append([]Setting{}, settings...)})
}

// ExitCode is a row of the exit table.
type ExitCode struct {
	Exit    int            `json:"exit"`
	Meaning string         `json:"meaning"`
	Codes   []session.Code `json:"codes"`
}

// ExitCodes writes what each exit status means and which codes lead to it.
func ExitCodes(w io.Writer, codes []ExitCode) error {
	table := [][]string{{"EXIT", "MEANING", "CODES"}}
	for _, c := range codes {
		var names []string
		for _, code := range c.Codes {
			names = append(names, string(code))
		}
		table = append(table, []string{strconv.Itoa(c.Exit), c.Meaning, strings.Join(names, " ")})
	}
	return columnsTo(w, table, []int{6})
}

// ExitCodesJSON writes the same for scripts.
func ExitCodesJSON(w io.Writer, codes []ExitCode) error {
	out := struct {
		V     int        `json:"v"`
		Codes []ExitCode `json:"exit_codes"`
	}{jsonVersion, []ExitCode{}}
	for _, c := range codes {
		c.Codes = append([]session.Code{}, c.Codes...)
		out.Codes = append(out.Codes, c)
	}
	return JSON(w, out)
}
