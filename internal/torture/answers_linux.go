package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/acode-dev/acode/internal/crash"
	"github.com/acode-dev/acode/internal/torture/model"
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
	return err != nil && slices.ContainsFunc(p.Steps, func(s model.Step) bool { return s.Mended })
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
	i := slices.IndexFunc(t.Steps, func(st model.Step) bool { return s.uncertain[st.Name()] })
	if i < 0 {
		t.stuck = "exit 20 without an uncertain step: " + strings.TrimSpace(stderr)
		return nil, nil
	}
	st := t.Steps[i]
	lines, err := t.signatures()
	if err != nil {
		return nil, err
	}
	verdict := "rerun"
	switch happened := lines[st.Name()] > 0; {
	case happened && st.Captures && !t.strict && (t.answers[st.Name()] || t.boot == ""):
		t.answers[st.Name()] = true // its output went with the power; only a new one has a value
	case happened && t.answers[st.Name()]:
		t.stuck = "told that " + st.Name() + " is done, asks again: " + strings.TrimSpace(t.printed.String())
	case happened:
		verdict = "done"
		t.answers[st.Name()] = true
		t.uncertain++
	default:
		t.uncertain++
	}
	return []string{"resume", s.short, "--uncertain=" + verdict}, t.tidy(i, verdict)
}

// tidy brings the files that a command changes to where the answer says that they are: a power
// cut may have left half of what it did. acode asks about such files.
func (t *trial) tidy(i int, verdict string) error {
	if t.strict || len(t.Steps[i].Does) == 0 {
		return nil
	}
	want := t.States()[i]
	if verdict == "done" {
		want = t.States()[i+1]
	}
	t.restored = false
	for _, c := range t.Steps[i].Does {
		for _, name := range c.Paths() {
			if err := t.put(name, want); err != nil {
				return fmt.Errorf("tidy up: %w", err)
			}
		}
	}
	return nil
}

// put makes a path of the workspace what it is in a tree, in the directory of its own that a
// command makes for it.
func (p place) put(name string, want model.Tree) error {
	at := filepath.Join(p.workspace(), name)
	is, err := p.read(name)
	if err != nil || want.Has(name, is) {
		return errors.Join(err, os.MkdirAll(filepath.Dir(at), 0o755))
	}
	if is != nil {
		err = os.Remove(at)
	}
	f, there := want[name]
	if !there {
		return err
	}
	return errors.Join(err, os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(f.Data), f.Mode), os.Chmod(at, f.Mode))
}

// read reads a file of the workspace; nil says that there is none.
func (p place) read(name string) (*model.File, error) {
	at := filepath.Join(p.workspace(), name)
	b, err := os.ReadFile(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	info, statErr := os.Lstat(at)
	if err := errors.Join(err, statErr); err != nil {
		return nil, fmt.Errorf("look at file: %w", err)
	}
	return &model.File{Mode: info.Mode(), Data: string(b)}, nil
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
	i := slices.IndexFunc(t.Steps, func(st model.Step) bool { return s.open[st.Name()] })
	if m == nil || i < 0 {
		return false, nil
	}
	known := t.known(s)
	for _, f := range strings.Split(m[1], ", ") {
		name := f[:strings.LastIndex(f, " (")]
		its := slices.ContainsFunc(t.Steps[i].Does, func(c model.Change) bool { return slices.Contains(c.Paths(), name) })
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
		return slices.ContainsFunc(p.Steps, func(st model.Step) bool {
			return s.done[st.Name()] && (st.Reads || slices.ContainsFunc(st.Changes, func(c model.Change) bool { return slices.Contains(c.Paths(), name) }))
		})
	}
}
