package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/acode-dev/acode/internal/crash"
)

// next gives the arguments with which a person would go on after a process with args.
func (t *trial) next(ctx context.Context, args []string, res crash.Result, stderr string) ([]string, error) {
	switch res.ExitCode {
	case exitKilled:
		return []string{"resume"}, nil
	case exitNoneToCarry:
		return t.afresh(ctx, stderr)
	case exitApproval:
		short, err := t.short(ctx)
		if err == nil {
			err = t.aside(ctx, "approve", short)
		}
		return []string{"resume", short}, err
	case exitUncertain:
		return t.answer(ctx, stderr)
	case exitFailed:
		if t.broken() {
			return []string{"resume"}, t.byHand(ctx, []string{"touch", t.mended()})
		}
	case exitChanged:
		if ok, err := t.permitted(ctx, stderr); ok || err != nil {
			return append(args, "--on-changes=continue"), err
		}
	}
	t.stuck = fmt.Sprintf("exit %d: %s", res.ExitCode, strings.TrimSpace(stderr))
	return nil, nil
}

// broken says whether there is still something to mend.
func (p place) broken() bool {
	_, err := os.Lstat(p.mended())
	return err != nil && slices.ContainsFunc(p.steps, func(s step) bool { return s.mended })
}

// afresh starts again when the kill came before there was a session.
func (t *trial) afresh(ctx context.Context, stderr string) ([]string, error) {
	s, err := t.readStore(ctx)
	if err != nil {
		return nil, err
	}
	if s.short != "" {
		t.stuck = "exit 14 although there is a session: " + stderr
	}
	return []string{"run", "--plan", t.planFile()}, nil
}

// answer gives the truth about a command whose outcome acode cannot know.
func (t *trial) answer(ctx context.Context, stderr string) ([]string, error) {
	s, err := t.readStore(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(t.steps, func(st step) bool { return s.uncertain[st.name()] })
	if i < 0 {
		t.stuck = "exit 20 without an uncertain step: " + strings.TrimSpace(stderr)
		return nil, nil
	}
	st := t.steps[i]
	lines, err := t.signatures()
	if err != nil {
		return nil, err
	}
	verdict := "rerun"
	switch happened := lines[st.name()] > 0; {
	case happened && st.captures && !t.strict && (t.answers[st.name()] || t.boot == ""):
		t.answers[st.name()] = true // its output went with the power; only a new one has a value
	case happened && t.answers[st.name()]:
		t.stuck = "told that " + st.name() + " is done, asks again: " + strings.TrimSpace(t.printed.String())
	case happened:
		verdict = "done"
		t.answers[st.name()] = true
		t.uncertain++
	default:
		t.uncertain++
	}
	return []string{"resume", s.short, "--uncertain=" + verdict}, t.tidy(i, verdict)
}

// tidy brings the files that a command changes to where the answer says that they are: a power
// cut may have left half of what it did. acode asks about such files.
func (t *trial) tidy(i int, verdict string) error {
	if t.strict || len(t.steps[i].does) == 0 {
		return nil
	}
	want := t.states()[i]
	if verdict == "done" {
		want = t.states()[i+1]
	}
	t.restored = false
	for _, c := range t.steps[i].does {
		for _, name := range c.paths() {
			if err := t.put(name, want); err != nil {
				return fmt.Errorf("tidy up: %w", err)
			}
		}
	}
	return nil
}

// put makes a path of the workspace what it is in a tree, in the directory of its own that a
// command makes for it.
func (p place) put(name string, want tree) error {
	at := filepath.Join(p.workspace(), name)
	is, err := readFile(at)
	if err != nil || same(is, want, name) {
		return errors.Join(err, os.MkdirAll(filepath.Dir(at), 0o755))
	}
	if is != nil {
		err = os.Remove(at)
	}
	f, there := want[name]
	if !there {
		return err
	}
	return errors.Join(err, os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(f.data), f.mode), os.Chmod(at, f.mode))
}

// permitted says whether a person goes on although files changed: after a power cut once, else
// only where a command changed them that was cut off from its receipt, and that of files which
// earlier steps read or wrote. No other change of its own may acode ask about.
func (t *trial) permitted(ctx context.Context, stderr string) (bool, error) {
	if !t.strict {
		again := t.restored
		t.restored = true
		return !again, nil
	}
	s, err := t.readStore(ctx)
	if err != nil {
		return false, err
	}
	m := changedFiles.FindStringSubmatch(stderr)
	i := slices.IndexFunc(t.steps, func(st step) bool { return s.open[st.name()] })
	if m == nil || i < 0 {
		return false, nil
	}
	known := t.known(s)
	for _, f := range strings.Split(m[1], ", ") {
		name := f[:strings.LastIndex(f, " (")]
		its := slices.ContainsFunc(t.steps[i].does, func(c change) bool { return slices.Contains(c.paths(), name) })
		if !its || !known(name) {
			return false, nil
		}
	}
	return true, nil
}

// changedFiles is how acode names the files that it asks about.
var changedFiles = regexp.MustCompile(`files that the session works on changed: (.+ \(\w+\)); the session is unchanged`)

// known tells the files that the steps which are done have read or written. What a pattern
// matched is not worked out.
func (p place) known(s store) func(name string) bool {
	return func(name string) bool {
		return slices.ContainsFunc(p.steps, func(st step) bool {
			return s.done[st.name()] && (st.reads || slices.ContainsFunc(st.changes, func(c change) bool { return slices.Contains(c.paths(), name) }))
		})
	}
}
