package people

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/acode-dev/acode/internal/torture/model"
	"github.com/acode-dev/acode/internal/torture/scene"
)

// idleRounds is how often people follow the advice without progress.
const idleRounds = 6

// goOn follows acode's advice until the session is over.
func (s *Scenario) goOn(ctx context.Context) error {
	for idle, before := 0, ""; s.Stuck == ""; {
		if s.atItsEnd() {
			return nil
		}
		if is := s.progress(); is != before {
			idle, before = 0, is
		} else if idle++; idle > idleRounds {
			s.Stuck = fmt.Sprintf("no progress after following the advice %d times", idleRounds)
			return nil
		}
		if err := s.follow(ctx); err != nil {
			return err
		}
	}
	return nil
}

// progress returns a text that changes whenever the session makes progress.
func (s *Scenario) progress() string {
	approvals := 0
	for _, e := range s.now.events {
		if e.kind == "ApprovalGranted" {
			approvals++
		}
	}
	return fmt.Sprint(s.now.state, s.now.done(s.Plan), approvals, s.Broken(), len(s.answers))
}

// atItsEnd reports whether no step remains. A plan that must fail pauses there.
func (s *Scenario) atItsEnd() bool {
	return s.now.over() || s.Fails != "" && s.now.status[s.Fails] == "failed" && s.now.done(s.Plan) == len(s.Steps)
}

// follow follows the advice of the last stop.
func (s *Scenario) follow(ctx context.Context) error {
	proposed, err := s.proposed()
	if err != nil {
		return err
	}
	for _, args := range proposed {
		s.tell("-- continues: acode %s", strings.Join(args, " "))
		if err := s.types(ctx, Act{args: args}); err != nil {
			return err
		}
	}
	return nil
}

// proposed returns the commands with which a person continues. Without advice a person
// resumes.
func (s *Scenario) proposed() ([][]string, error) {
	if s.now.short == "" {
		return [][]string{{"run", "--plan", s.PlanFile()}}, nil
	}
	if s.last == nil || s.last.killed() {
		return [][]string{{"resume"}}, nil
	}
	if s.last.exit() == scene.ExitFailed {
		if err := s.repair(); err != nil {
			return nil, err
		}
	}
	commands := proposals(s.last.advice())
	if len(commands) == 0 {
		return [][]string{{"resume"}}, nil
	}
	s.judgeAsked(scene.ChangedNames(s.last.out.String() + s.last.err.String()))
	return commands, nil
}

// repair repairs the cause of a failing command, if it is broken.
func (s *Scenario) repair() error {
	if !s.Broken() {
		return nil
	}
	if err := os.WriteFile(s.Repaired(), nil, 0o644); err != nil {
		return fmt.Errorf("repair: %w", err)
	}
	return nil
}

// heed gives the answer that the last stop waits for, or repairs the cause of its
// failure.
func (s *Scenario) heed(ctx context.Context) error {
	switch {
	case s.last == nil || s.last.killed():
		return nil
	case s.last.exit() == scene.ExitApproval:
		s.tell("-- heeds: acode approve")
		return s.types(ctx, Act{args: []string{"approve", own}})
	case s.last.exit() == scene.ExitFailed:
		return s.repair()
	}
	return nil
}

// judgeAsked checks that acode asks only about files that acode did not change itself.
func (s *Scenario) judgeAsked(names []string) {
	for _, name := range names {
		if !s.explained(name) {
			s.Breach("asks about %s, which neither a person nor a cut-off command changed", name)
		}
	}
}

// explained reports whether a file may differ from the session's knowledge: a command
// that was cut off from its receipt changed it, or a person did.
func (s *Scenario) explained(name string) bool {
	if _, edited := s.own[name]; edited {
		return true
	}
	for _, st := range s.Steps {
		cut := s.now.status[st.Name()] != "completed" || s.cut[st.Name()]
		if cut && slices.ContainsFunc(st.Does, func(c model.Change) bool { return slices.Contains(c.Paths(), name) }) {
			return true
		}
	}
	return false
}

// meant replaces the placeholders of advice or of an act. If no outcome is uncertain, it
// removes the flag for it.
func (s *Scenario) meant(args []string) ([]string, error) {
	i := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "--uncertain=<") })
	if i < 0 {
		return s.filled(args), nil
	}
	end := i + 1
	if end < len(args) && args[end] == "or" {
		// The alternative is --capture TASK/STEP=VALUE.
		end += 3
	}
	truth, err := s.truth()
	return s.filled(slices.Replace(slices.Clone(args), i, end, truth...)), err
}

// truth returns a person's answer about the command with an unknown outcome, or nil if
// there is none. For a torn capture the value is that of the whole command. The person
// undoes or completes half-done changes of files.
func (s *Scenario) truth() ([]string, error) {
	ledger, err := os.ReadFile(s.Ledger())
	if err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	lines := attempts(string(ledger))
	for name, status := range s.now.status {
		verdict := s.now.verdict(name, lines)
		if status != "uncertain" || verdict == "" {
			continue
		}
		s.answers[name], s.cut[name] = true, true
		return s.Answer(name, verdict), s.tidy(name, verdict)
	}
	return nil, nil
}

// tidy makes the files of a command agree with the answer about it, because a shutdown
// may have cut the command off. While a command runs, its files stay unchanged.
func (s *Scenario) tidy(name, verdict string) error {
	if len(s.CommandsLeft()) > 0 {
		return nil
	}
	return s.Tidy(name, verdict)
}

// next matches the advice of a stop; proposal matches a command in it.
var (
	next     = regexp.MustCompile(`(?m)^(?:Continue with|hint): (.+)$`)
	proposal = regexp.MustCompile(`\bacode ([^,;&\n]+)`)
)

// advice returns a process's text about how to continue.
func (t *typed) advice() string {
	if r, err := t.lines(); err == nil && slices.Contains(t.args, jsonFlag) {
		return r.Next
	}
	if m := next.FindStringSubmatch(t.out.String() + t.err.String()); m != nil {
		return m[1]
	}
	return ""
}

// proposals returns the commands of a text in their order, split like a shell.
func proposals(text string) [][]string {
	var all [][]string
	for _, m := range proposal.FindAllStringSubmatch(text, -1) {
		all = append(all, words(strings.TrimSpace(m[1])))
	}
	return all
}

// words splits a line like a shell that knows only single quotes.
func words(line string) []string {
	var all []string
	quoted := false
	for i, part := range strings.Split(strings.ReplaceAll(line, `'\''`, "\x00"), "'") {
		if quoted = i%2 == 1; quoted {
			all[len(all)-1] += part
			continue
		}
		fresh := strings.Split(part, " ")
		if i > 0 {
			all[len(all)-1] += fresh[0]
			fresh = fresh[1:]
		}
		all = append(all, fresh...)
	}
	for i := range all {
		all[i] = strings.ReplaceAll(all[i], "\x00", "'")
	}
	return all
}
