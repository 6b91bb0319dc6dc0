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

// next returns the arguments with which a person continues after a process with args.
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
			return []string{"resume"}, t.byHand(ctx, []string{"touch", t.Repaired()})
		}
	case scene.ExitChanged:
		if ok, err := t.permitted(ctx, stderr); ok || err != nil {
			return append(args, "--on-changes=continue"), err
		}
	}
	t.Stuck = fmt.Sprintf("exit %d: %s", res.ExitCode, strings.TrimSpace(stderr))
	return nil, nil
}

// afresh starts again if the kill came before there was a session.
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

// answer answers truthfully about a command whose outcome acode cannot know.
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

// excuse counts the outcome of a command as unknowable, once for each attempt. The claim
// must have no record of the end and must name a supervisor that was killed or lost
// power. One supervisor runs all commands of a session. So one kill excuses up to as many
// outcomes as steps run at once. It does not excuse a command that had ended before, or
// that another supervisor ran. excuse also compares the command's output with the truth.
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

// unknowable reports whether the supervisor of a command was gone before it recorded the
// end.
func (t *trial) unknowable(c scene.Claim) bool {
	return !c.Ended && (!t.strict || t.killed[c.Supervisor])
}

// approve answers yes to every open question.
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

// truth is a person's answer about one command. The person also tidies up the command's
// files.
func (t *trial) truth(st model.Step, lines map[string]int) ([]string, error) {
	verdict := "rerun"
	switch happened := lines[st.Name()] > 0; {
	case happened && t.answers[st.Name()]:
		t.Stuck = "asks again although " + st.Name() + " was reported done: " + strings.TrimSpace(t.printed.String())
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
	// acode asks about files that a person tidied up after a power cut.
	t.restored = false
	return said, t.Tidy(st.Name(), verdict)
}

// permitted reports whether a person continues although files changed. After a power cut
// the person does so once. Otherwise only a command that was cut off from its receipt may
// have changed the files.
//
// Such a change counts for files that earlier steps read or wrote. It counts for any file
// if a supervisor was killed too, because nothing after the command's last sign of life
// then belongs to it. acode may not ask about any other change that it made itself.
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

// known returns a test for the files that the completed steps have read or written. A
// step that reads or searches counts for all files.
func (t *trial) known(s store) func(name string) bool {
	return func(name string) bool {
		return slices.ContainsFunc(t.Steps, func(st model.Step) bool {
			return s.done[st.Name()] && (st.Looks != nil || slices.ContainsFunc(st.Changes, func(c model.Change) bool { return slices.Contains(c.Paths(), name) }))
		})
	}
}
