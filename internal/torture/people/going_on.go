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

// idleRounds is how often people go on as they are told without getting anywhere.
const idleRounds = 6

// goOn does what acode proposes until the session is over.
func (s *Scenario) goOn(ctx context.Context) error {
	for idle, before := 0, ""; s.Stuck == ""; {
		if s.atItsEnd() {
			return nil
		}
		if is := s.progress(); is != before {
			idle, before = 0, is
		} else if idle++; idle > idleRounds {
			s.Stuck = fmt.Sprintf("nothing came of going on %d times", idleRounds)
			return nil
		}
		if err := s.follow(ctx); err != nil {
			return err
		}
	}
	return nil
}

// progress is what changes when a session gets on.
func (s *Scenario) progress() string {
	approvals := 0
	for _, e := range s.now.events {
		if e.kind == "ApprovalGranted" {
			approvals++
		}
	}
	return fmt.Sprint(s.now.state, s.now.done(s.Plan), approvals, s.Broken(), len(s.answers))
}

// atItsEnd reports whether nothing is left to do. A plan that fails rightly pauses there.
func (s *Scenario) atItsEnd() bool {
	return s.now.over() || s.Fails != "" && s.now.status[s.Fails] == "failed" && s.now.done(s.Plan) == len(s.Steps)
}

// follow does what the last stop proposes.
func (s *Scenario) follow(ctx context.Context) error {
	proposed, err := s.proposed()
	if err != nil {
		return err
	}
	for _, args := range proposed {
		s.tell("-- goes on: acode %s", strings.Join(args, " "))
		if err := s.types(ctx, Act{args: args}); err != nil {
			return err
		}
	}
	return nil
}

// proposed gives the commands with which a person goes on. Who was told nothing resumes.
func (s *Scenario) proposed() ([][]string, error) {
	if s.now.short == "" {
		return [][]string{{"run", "--plan", s.PlanFile()}}, nil
	}
	if s.last == nil || s.last.killed() {
		return [][]string{{"resume"}}, nil
	}
	if s.last.exit() == scene.ExitFailed {
		if err := s.mend(); err != nil {
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

// mend mends what a command needs, where it is broken.
func (s *Scenario) mend() error {
	if !s.Broken() {
		return nil
	}
	if err := os.WriteFile(s.Mended(), nil, 0o644); err != nil {
		return fmt.Errorf("mend: %w", err)
	}
	return nil
}

// heed gives the answer that the last stop waits for, or mends what it fails for.
func (s *Scenario) heed(ctx context.Context) error {
	switch {
	case s.last == nil || s.last.killed():
		return nil
	case s.last.exit() == scene.ExitApproval:
		s.tell("-- heeds: acode approve")
		return s.types(ctx, Act{args: []string{"approve", own}})
	case s.last.exit() == scene.ExitFailed:
		return s.mend()
	}
	return nil
}

// judgeAsked checks that somebody other than acode changed the files that it asks about.
func (s *Scenario) judgeAsked(names []string) {
	for _, name := range names {
		if !s.explained(name) {
			s.Breach("asks about %s, which nobody changed", name)
		}
	}
}

// explained reports whether a file may differ from what the session knows: a command
// changed it that was cut off from its receipt, or a person did.
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

// meant fills in what a proposal, or an act, leaves to whoever types it. Where nothing is
// uncertain there is nothing to say about it.
func (s *Scenario) meant(args []string) ([]string, error) {
	i := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "--uncertain=<") })
	if i < 0 {
		return s.filled(args), nil
	}
	end := i + 1
	if end < len(args) && args[end] == "or" {
		end += 3 // or --capture TASK/STEP=VALUE
	}
	truth, err := s.truth()
	return s.filled(slices.Replace(slices.Clone(args), i, end, truth...)), err
}

// truth says what became of the command whose outcome acode cannot know, as a person
// types it; nil where there is none. The value of a capture that was torn is that of the
// whole command. What was half done to files the person undoes, or completes.
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

// tidy brings the files that a command changes to where the answer about it says that
// they are: a shutdown may have cut the command off. While a command runs its files are
// left alone.
func (s *Scenario) tidy(name, verdict string) error {
	if len(s.CommandsLeft()) > 0 {
		return nil
	}
	return s.Tidy(name, verdict)
}

// next is how a stop says how to go on; proposal is a command in it.
var (
	next     = regexp.MustCompile(`(?m)^(?:Continue with|hint): (.+)$`)
	proposal = regexp.MustCompile(`\bacode ([^,;&\n]+)`)
)

// advice is the text in which a process says how to go on.
func (t *typed) advice() string {
	if r, err := t.lines(); err == nil && slices.Contains(t.args, jsonFlag) {
		return r.Next
	}
	if m := next.FindStringSubmatch(t.out.String() + t.err.String()); m != nil {
		return m[1]
	}
	return ""
}

// proposals gives the commands that a text proposes, in their order, as a shell takes
// them.
func proposals(text string) [][]string {
	var all [][]string
	for _, m := range proposal.FindAllStringSubmatch(text, -1) {
		all = append(all, words(strings.TrimSpace(m[1])))
	}
	return all
}

// words splits a line as a shell does that knows single quotes and nothing else.
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
