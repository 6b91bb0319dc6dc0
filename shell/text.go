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

// MaxBytes is the length above which a text is not read. Linux passes no longer argument
// to a program.
const MaxBytes = 128 << 10

// Reads gives the names of the variables that text reads before it gives them a value,
// sorted. A text that cannot be parsed is an error, and has no names.
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

// mayRead tells texts that surely read no variable from others, at no cost: most of
// 100,000.
func mayRead(text string) bool {
	for _, sign := range []string{"$", "+=", "((", "[[", "let ", "-v", "export", "declare", "typeset", "readonly", "printenv"} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

// Check returns why text cannot be parsed, with line and column; nil when it can.
func Check(text string) error {
	_, err := parse(text)
	return err
}

// Pipeline reports whether text has a pipeline whose first failing command would be
// ignored: one, and no word of pipefail.
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

// parse reads text as bash does, which understands nearly all that is written for other
// shells too, else as POSIX has it.
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

// Script gives the text that an argument vector hands to a shell, as [bash, -ec, TEXT]
// does, also behind another program, as [env, sh, -c, TEXT].
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

// scriptOf finds the text behind -c among the arguments of a shell.
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
