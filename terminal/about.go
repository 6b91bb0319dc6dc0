package terminal

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/acode-dev/acode/session"
)

// Setting is one configuration key with its value, as written in a file. Origin is its
// source: "default", or a place such as "/path/config.yml:3".
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

// ConfigShow prints one setting a line. origin adds the origin of each value, which JSON
// always contains.
func (p Page) ConfigShow(settings []Setting, origin bool) error {
	if p.JSON {
		return p.json(struct {
			V        int       `json:"v"`
			Settings []Setting `json:"settings"`
		}{jsonVersion, settings})
	}
	if !origin {
		var b strings.Builder
		for _, s := range settings {
			fmt.Fprintf(&b, "%s: %s\n", Clean(s.Key), Clean(s.Value))
		}
		return p.write(b.String())
	}
	table := [][]string{{"KEY", "VALUE", "ORIGIN"}}
	for _, s := range settings {
		table = append(table, []string{s.Key, s.Value, s.Origin})
	}
	return p.columns(table)
}

// ExitCode is a row of the table of exit statuses.
type ExitCode struct {
	Exit    int    `json:"exit"`
	Meaning string `json:"meaning"`
	// Codes is empty for none, not nil.
	Codes []session.Code `json:"codes"`
}

// ExitCodes prints the meaning of each exit status and the codes that lead to it.
func (p Page) ExitCodes(codes []ExitCode) error {
	if p.JSON {
		return p.json(struct {
			V     int        `json:"v"`
			Codes []ExitCode `json:"exit_codes"`
		}{jsonVersion, codes})
	}
	table := [][]string{{"EXIT", "MEANING", "CODES"}}
	for _, c := range codes {
		var names []string
		for _, code := range c.Codes {
			names = append(names, string(code))
		}
		table = append(table, []string{strconv.Itoa(c.Exit), c.Meaning, strings.Join(names, " ")})
	}
	return p.columns(table, 6)
}
