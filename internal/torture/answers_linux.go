package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/acode-dev/acode/internal/crash"
	"github.com/acode-dev/acode/internal/torture/model"
	"github.com/acode-dev/acode/internal/torture/scene"
)

// next gives the arguments with which a person would go on after a process with args.
func (t *trial) next(ctx context.Context, args []string, res crash.Result, stderr string) ([]string, error) {
	switch res.ExitCode {
	case scene.ExitKilled:
		return []string{"resume"}, nil
	case scene.ExitNoneToCarry:
		return t.afresh(ctx, stderr)
	case scene.ExitApproval:
		return t.approve(ctx)
	case scene.ExitUncertain:
		return t.answer(ctx, stderr)
	case scene.ExitFailed:
		if t.Broken() {
			return []string{"resume"}, t.byHand(ctx, []string{"touch", t.Mended()})
		}
	case scene.ExitChanged:
		if ok, err := t.permitted(ctx, stderr); ok || err != nil {
			return append(args, "--on-changes=continue"), err
		}
	}
	t.Stuck = fmt.Sprintf("exit %d: %s", res.ExitCode, strings.TrimSpace(stderr))
	return nil, nil
}

// afresh starts again when the kill came before there was a session.
func (t *trial) afresh(ctx context.Context, stderr string) ([]string, error) {
	s, err := t.readStore(ctx)
	if err != nil {
		return nil, err
	}
	if s.short != "" {
		t.Stuck = "exit 14 although there is a session: " + stderr
	}
	return []string{"run", "--plan", t.PlanFile()}, nil
}

// answer gives the truth about a command whose outcome acode cannot know.
func (t *trial) answer(ctx context.Context, stderr string) ([]string, error) {
	s, err := t.readStore(ctx)
	if err != nil {
		return nil, err
	}
	lines, err := t.Signatures()
	if err != nil {
		return nil, err
	}
	args := []string{"resume", s.short}
	for _, st := range t.Steps {
		if s.uncertain[st.Name()] {
			said, err := t.truth(st, lines)
			if err = errors.Join(err, t.excuse(st)); err != nil {
				return nil, err
			}
			args = append(args, said...)
		}
	}
	if len(args) == 2 {
		t.Stuck = "exit 20 without an uncertain step: " + strings.TrimSpace(stderr)
	}
	return args, nil
}

// excuse counts the outcome of a command as one that no one could know: once for each attempt, and only if its claim has no
// record of its end and names a supervisor that was killed, or ended with the power. One supervisor runs all commands of a
// session. So one kill excuses up to as many outcomes as steps run at once, but not that of a command which had ended before
// or which another supervisor ran. What the command wrote is compared with the truth on this occasion.
func (t *trial) excuse(st model.Step) error {
	c, found, err := t.LastClaim(st.Name())
	if err != nil || !found {
		return err
	}
	if t.unknowable(c) && !t.excused[c.Key] {
		t.excused[c.Key] = true
		t.Excused++
	}
	if st.Prints == "" || !t.strict {
		return nil
	}
	text, torn, err := c.Output()
	if whole := text == st.Prints; err == nil && !whole && !(torn && strings.HasPrefix(st.Prints, text)) {
		t.Breach("%s wrote %q, of which %q was kept", st.Name(), st.Prints, text)
	}
	return err
}

// unknowable reports whether the supervisor of a command was gone before it recorded the end.
func (t *trial) unknowable(c scene.Claim) bool {
	return !c.Ended && (!t.strict || t.killed[c.Supervisor])
}

// approve answers yes to every question that is open.
func (t *trial) approve(ctx context.Context) ([]string, error) {
	s, err := t.readStore(ctx)
	if err != nil {
		return nil, err
	}
	for _, st := range t.Steps {
		if s.asking[st.Name()] {
			if err := t.aside(ctx, "approve", s.short, st.Name()); err != nil {
				return nil, err
			}
		}
	}
	return []string{"resume", s.short}, nil
}

// truth is what a person says of one command, who tidies up what it left.
func (t *trial) truth(st model.Step, lines map[string]int) ([]string, error) {
	verdict := "rerun"
	switch happened := lines[st.Name()] > 0; {
	case happened && t.answers[st.Name()]:
		t.Stuck = "told that " + st.Name() + " is done, asks again: " + strings.TrimSpace(t.printed.String())
	case happened:
		verdict = "done"
		t.answers[st.Name()] = true
		t.Uncertain++
	default:
		t.Uncertain++
	}
	said := t.Answer(st.Name(), verdict)
	if t.strict || len(st.Does) == 0 {
		return said, nil
	}
	t.restored = false // acode asks about what a person tidies up after a power cut
	return said, t.Tidy(st.Name(), verdict)
}

// permitted says whether a person goes on although files changed: after a power cut once, else
// only where a command changed them that was cut off from its receipt, and that of files which
// earlier steps read or wrote, or of any file where a supervisor was killed too: then nothing after
// the command's last sign of life counts as its own. No other change of its own may acode ask about.
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
	names := scene.ChangedNames(stderr)
	var open []model.Change
	unsupervised := false
	for _, st := range t.Steps {
		if s.open[st.Name()] && len(st.Does) > 0 {
			c, found, err := t.LastClaim(st.Name())
			if err != nil {
				return false, err
			}
			open = append(open, st.Does...)
			unsupervised = unsupervised || found && t.unknowable(c)
		}
	}
	if len(names) == 0 {
		return false, nil
	}
	known := t.known(s)
	for _, name := range names {
		its := slices.ContainsFunc(open, func(c model.Change) bool { return slices.Contains(c.Paths(), name) })
		if !its || !known(name) && !unsupervised {
			return false, nil
		}
	}
	return true, nil
}

// known tells the files that the steps which are done have read or written. What a pattern
// matched is not worked out.
func (t *trial) known(s store) func(name string) bool {
	return func(name string) bool {
		return slices.ContainsFunc(t.Steps, func(st model.Step) bool {
			return s.done[st.Name()] && (st.Looks != nil || slices.ContainsFunc(st.Changes, func(c model.Change) bool { return slices.Contains(c.Paths(), name) }))
		})
	}
}
