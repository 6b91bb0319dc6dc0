package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// idleRounds is how often people go on as they are told without getting anywhere.
const idleRounds = 6

// goOn does what acode proposes until the session is over.
func (s *scenario) goOn(ctx context.Context) error {
	for idle, before := 0, ""; s.stuck == ""; {
		if s.atItsEnd() {
			return nil
		}
		if is := s.progress(); is != before {
			idle, before = 0, is
		} else if idle++; idle > idleRounds {
			s.stuck = fmt.Sprintf("nothing came of going on %d times", idleRounds)
			return nil
		}
		if err := s.follow(ctx); err != nil {
			return err
		}
	}
	return nil
}

// progress is what changes when a session gets on.
func (s *scenario) progress() string {
	approvals := 0
	for _, e := range s.now.events {
		if e.kind == "ApprovalGranted" {
			approvals++
		}
	}
	return fmt.Sprint(s.now.state, s.now.done(s.plan), approvals, s.broken(), len(s.answers))
}

// atItsEnd reports whether nothing is left to do. A plan that fails rightly pauses there.
func (s *scenario) atItsEnd() bool {
	return s.now.over() || s.fails != "" && s.now.status[s.fails] == "failed" && s.now.done(s.plan) == len(s.steps)
}

// follow does what the last stop proposes.
func (s *scenario) follow(ctx context.Context) error {
	proposed, err := s.proposed()
	if err != nil {
		return err
	}
	for _, args := range proposed {
		s.tell("-- goes on: acode %s", strings.Join(args, " "))
		if err := s.await(ctx, s.begin(ctx, args)); err != nil {
			return err
		}
	}
	return nil
}

// proposed gives the commands with which a person goes on. Who was told nothing resumes.
func (s *scenario) proposed() ([][]string, error) {
	if s.now.short == "" {
		return [][]string{{"run", "--plan", s.planFile()}}, nil
	}
	if s.last == nil || s.last.killed() {
		return [][]string{{"resume"}}, nil
	}
	switch s.last.exit() {
	case exitFailed:
		if s.broken() {
			if err := os.WriteFile(s.mended(), nil, 0o644); err != nil {
				return nil, fmt.Errorf("mend: %w", err)
			}
		}
	case exitChanged:
		return s.accepted(), nil
	}
	commands := proposals(s.last.out.String() + s.last.err.String())
	if len(commands) == 0 {
		s.breach("a stop with %d proposes nothing", s.last.exit())
		return [][]string{{"resume"}}, nil
	}
	var errs []error
	for i := range commands {
		var err error
		commands[i], err = s.meant(commands[i])
		errs = append(errs, err)
	}
	return commands, errors.Join(errs...)
}

// accepted goes on with changed files, where somebody other than acode changed them.
func (s *scenario) accepted() [][]string {
	text := s.last.out.String() + s.last.err.String()
	for _, name := range changedNames(text) {
		if !s.explained(name) {
			s.breach("asks about %s, which nobody changed", name)
		}
	}
	return [][]string{{"resume", s.now.short, "--on-changes=continue"}}
}

// changedNames gives the files that a refused resume names.
func changedNames(text string) []string {
	m := changedFiles.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	var names []string
	for _, f := range strings.Split(m[1], ", ") {
		names = append(names, f[:strings.LastIndex(f, " (")])
	}
	return names
}

// explained reports whether a file may differ from what the session knows: a command changed it
// that was cut off from its receipt.
func (s *scenario) explained(name string) bool {
	for _, st := range s.steps {
		cut := s.now.status[st.name()] != "completed" || s.cut[st.name()]
		if cut && slices.ContainsFunc(st.does, func(c change) bool { return slices.Contains(c.paths(), name) }) {
			return true
		}
	}
	return false
}

// placeholder is what a proposal leaves to whoever follows it.
var placeholder = regexp.MustCompile(`<rerun\|done\|fail>`)

// meant fills a proposal in.
func (s *scenario) meant(args []string) ([]string, error) {
	args = s.filled(args)
	for i, a := range args {
		if !placeholder.MatchString(a) {
			continue
		}
		verdict, err := s.truth()
		if err != nil {
			return nil, err
		}
		args[i] = placeholder.ReplaceAllString(a, verdict)
	}
	return args, nil
}

// truth says what became of the command whose outcome acode cannot know.
func (s *scenario) truth() (string, error) {
	ledger, err := os.ReadFile(s.ledger())
	if err != nil {
		return "", fmt.Errorf("read ledger: %w", err)
	}
	lines := attempts(string(ledger))
	for name, status := range s.now.status {
		if status != "uncertain" {
			continue
		}
		s.answers[name] = true
		s.cut[name] = true
		for _, e := range slices.Backward(s.now.events) {
			if e.kind == "StepUnknown" && e.step == name && slices.Contains(lines[name], e.attempt) {
				return "done", nil
			}
		}
	}
	return "rerun", nil
}

// advice is the text of a stop that says how to go on; proposal is a command in it.
var (
	advice   = regexp.MustCompile(`(?m)^(?:Continue with|hint): (.+)$|"next":"([^"]+)"`)
	proposal = regexp.MustCompile(`\bacode ([^,;&\n]+)`)
)

// proposals gives the commands that a text proposes, in their order.
func proposals(text string) [][]string {
	var all [][]string
	for _, a := range advice.FindAllStringSubmatch(text, -1) {
		for _, m := range proposal.FindAllStringSubmatch(a[1]+a[2], -1) {
			all = append(all, strings.Fields(m[1]))
		}
	}
	return all
}
