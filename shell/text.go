package shell

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// MaxBytes is the length of the longest text that is read. Linux passes no longer
// argument to a program.
const MaxBytes = 128 << 10

// Reads returns, sorted, the names of the variables that text reads before it gives
// them a value. It returns no names and an error if text cannot be parsed.
func Reads(text string) ([]string, error) {
	if !mayRead(text) {
		return nil, nil
	}
	f, err := parse(text)
	if err != nil {
		return nil, err
	}
	r := &reader{reads: map[string]bool{}, set: &layer{names: map[string]bool{}}}
	r.stmts(f.Stmts)
	return slices.Sorted(maps.Keys(r.reads)), nil
}

// mayRead is a cheap first check. It returns false for texts that certainly read no
// variable, which is most texts.
func mayRead(text string) bool {
	for _, sign := range []string{"$", "+=", "((", "[[", "let ", "-v", "export", "declare", "typeset", "readonly", "printenv"} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

// Check returns the reason why text cannot be parsed, with line and column. It returns
// nil if text can be parsed.
func Check(text string) error {
	_, err := parse(text)
	return err
}

// Pipeline reports whether text has a pipeline in which only the status of the last
// command counts. It returns false for a text that contains the word pipefail.
func Pipeline(text string) bool {
	if !strings.Contains(text, "|") || strings.Contains(text, "pipefail") {
		return false
	}
	f, err := parse(text)
	if err != nil {
		return false
	}
	found := false
	syntax.Walk(f, func(n syntax.Node) bool {
		if b, ok := n.(*syntax.BinaryCmd); ok && (b.Op == syntax.Pipe || b.Op == syntax.PipeAll) {
			found = true
		}
		return !found
	})
	return found
}

// parse reads text as bash does, which accepts nearly all texts for other shells too.
// If that fails, it reads text as POSIX does.
func parse(text string) (*syntax.File, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("the text is longer than %d KiB", MaxBytes>>10)
	}
	f, err := syntax.NewParser().Parse(strings.NewReader(text), "")
	if err == nil {
		return f, nil
	}
	if posix, perr := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(text), ""); perr == nil {
		return posix, nil
	}
	var bad syntax.ParseError
	if errors.As(err, &bad) {
		return nil, fmt.Errorf("line %d, column %d: %s", bad.Pos.Line(), bad.Pos.Col(), bad.Text)
	}
	return nil, err
}

// Script returns the text that an argument vector passes to a shell, as [bash, -ec,
// TEXT] does. The shell may follow another program, as in [env, sh, -c, TEXT].
func Script(argv []string) (text string, ok bool) {
	for i := range argv {
		if known(argv[i]) {
			if text, ok := scriptOf(argv[i+1:]); ok {
				return text, true
			}
		}
	}
	return "", false
}

// known reports whether program is a shell whose language this package reads.
func known(program string) bool {
	return slices.Contains([]string{"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh"}, path.Base(program))
}

// scriptOf finds the text after -c among the arguments of a shell.
func scriptOf(args []string) (string, bool) {
	given := false
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--":
			if given && i+1 < len(args) {
				return args[i+1], true
			}
			return "", false
		case a == "--rcfile" || a == "--init-file":
			i++
		case strings.HasPrefix(a, "--"):
		case len(a) > 1 && (a[0] == '-' || a[0] == '+'):
			given = given || a[0] == '-' && strings.Contains(a, "c")
			// the name of an option follows
			if strings.HasSuffix(a, "o") || strings.HasSuffix(a, "O") {
				i++
			}
		case given:
			return a, true
		default:
			return "", false
		}
	}
	return "", false
}
