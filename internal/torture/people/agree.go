package people

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/acode-dev/acode/internal/torture/scene"
)

// agree checks that exit status, output and store agree about the session after a process
// that ran alone. was is the content of the store before.
func (s *Scenario) agree(t *typed, was journal) error {
	if s.nobody && t.exit() == scene.ExitLocked {
		s.Breach("acode %s is locked out although no other process runs", t.args[0])
	}
	switch {
	case slices.Contains(t.args, s.otherFile()):
		s.agreeOnOther(t, was)
	case t.executes():
		s.agreeOnState(t, was)
	case t.decides():
		return s.agreeOnDecision(t, was)
	default:
		s.agreeOnView(t, was)
	}
	return nil
}

func (s *Scenario) agreeOnState(t *typed, was journal) {
	want := statesOf(t.exit())
	if s.astray && t.exit() == scene.ExitNoneToCarry {
		// The session's workspace is elsewhere.
		want = append(want, was.state)
	}
	if !slices.Contains(want, s.now.state) {
		s.Breach("acode %s ends with %d, the session is %q", t.args[0], t.exit(), s.now.state)
	}
	refused := t.exit() == scene.ExitNoneToCarry || t.exit() == scene.ExitOver || t.exit() == scene.ExitLocked
	if refused && s.now.seq != was.seq {
		s.Breach("acode %s refuses with %d, and changes the session", t.args[0], t.exit())
	}
	if s.now.seq > was.seq && slices.Contains(t.args, "-C") {
		s.astray = false
	}
	if !s.now.over() && t.exit() != 0 && len(proposals(t.advice())) == 0 {
		s.Breach("a stop with %d proposes nothing", t.exit())
	}
	if !slices.Contains(t.args, jsonFlag) {
		return
	}
	if r, err := t.lines(); err == nil && r.State != "" && r.State != s.now.state {
		s.Breach("the result says %q, the session is %q", r.State, s.now.state)
	}
}

// agreeOnOther checks that another person's session is completed or refused.
func (s *Scenario) agreeOnOther(t *typed, was journal) {
	more := s.now.others[len(was.others):]
	if want := map[int]int{scene.ExitDone: 1}[t.exit()]; len(more) != want || want == 1 && more[0] != "completed" || s.now.seq != was.seq {
		s.Breach("another person's acode run ends with %d, its session is %q", t.exit(), more)
	}
}

// statesOf returns the states in which a process with this exit status leaves the
// session; empty means no session.
func statesOf(exit int) []string {
	open := []string{"created", "planning", "awaiting_approval", "executing", "paused"}
	over := []string{"completed", "failed", "cancelled"}
	switch exit {
	case scene.ExitDone:
		return over[:1]
	case scene.ExitApproval:
		return []string{"awaiting_approval"}
	case scene.ExitDenied, scene.ExitUncertain:
		return []string{"paused"}
	case scene.ExitNoneToCarry:
		return append(over, "")
	case scene.ExitOver:
		return over
	case scene.ExitFailed:
		return []string{"paused", "failed"}
	}
	// The session is unchanged, or a signal came before it existed.
	return append(open, "")
}

// agreeOnDecision checks that a decision had its effect, and that a refused one had none.
func (s *Scenario) agreeOnDecision(t *typed, was journal) error {
	verb := t.args[0]
	commanded := slices.Contains(t.args, "--command")
	if verb == "session" {
		verb = "cancel"
		if left := s.CommandsLeft(); t.exit() == 0 && len(left) > 0 {
			s.Breach("acode session cancel leaves %v", left)
		}
		if t.exit() == 0 && !commanded {
			if err := s.judgeResults(); err != nil {
				return err
			}
		}
	}
	if wrote := s.now.seq != was.seq; wrote != (t.exit() == 0 && !commanded) {
		s.Breach("acode %s ends with %d, and the journal goes from %d to %d", verb, t.exit(), was.seq, s.now.seq)
	}
	after := map[string]string{"deny": "paused", "cancel": "cancelled", "approve": was.state}[verb]
	if commanded || t.exit() != 0 {
		after = was.state
	}
	if s.now.state != after {
		s.Breach("acode %s ends with %d, the session is %q", verb, t.exit(), s.now.state)
	}
	return nil
}

// judgeResults checks that a cancel kept the result of each command that ended by itself.
// It applies only if no process ran any more, and no person had ended a command or killed
// a supervisor.
func (s *Scenario) judgeResults() error {
	b, err := os.ReadFile(s.Ledger())
	if err != nil || !s.nobody || s.Excused+s.ended > 0 {
		return err
	}
	for name, acted := range attempts(string(b)) {
		if n := acted[len(acted)-1]; !s.now.has("StepCompleted", name, n) {
			s.Lost = append(s.Lost, fmt.Sprintf("the result of %s, attempt %d, at its cancel", name, n))
		}
	}
	return nil
}

// countDecision counts the decisions of people, also while another process executed. A
// killed decision may have taken effect.
func (s *Scenario) countDecision(t *typed) {
	if p := t.person; p != nil {
		s.approved += p.yes
		for _, name := range p.told {
			s.answers[name], s.cut[name] = true, true
		}
	}
	switch {
	case t.exit() != 0 && !t.killed() || !t.decides():
	case t.args[0] == "approve":
		s.approved++
	case t.args[0] == "session":
		s.ended++
	}
}

// shown matches the session in the JSON output of a read command.
var shown = regexp.MustCompile(`"state":"(\w+)".*"last_seq":(\d+)`)

// agreeOnView checks that the output of a read command agrees with the store.
func (s *Scenario) agreeOnView(t *typed, was journal) {
	if was.seq != s.now.seq {
		s.Breach("acode %s changes the session", strings.Join(t.args, " "))
	}
	named := slices.Contains(t.args, was.short) && was.short != ""
	if named && t.args[0] != "resume" && t.exit() != 0 {
		s.Breach("acode %s ends with %d", strings.Join(t.args, " "), t.exit())
	}
	m := shown.FindStringSubmatch(t.out.String())
	// Otherwise the output may be about another person's session.
	ours := named || len(s.now.others) == 0
	if m != nil && ours && slices.Contains(t.args, jsonFlag) && (m[1] != s.now.state || number(m[2]) != s.now.seq) {
		s.Breach("acode %s says %s at %s, the session is %s at %d", strings.Join(t.args, " "), m[1], m[2], s.now.state, s.now.seq)
	}
}

// verify runs acode verify. The store must be sound after any history.
func (s *Scenario) verify(ctx context.Context) error {
	t := s.begin(ctx, []string{"verify"})
	if err := s.await(t); err != nil {
		return err
	}
	if s.now.short != "" && t.exit() != 0 {
		s.Breach("acode verify ends with %d: %s%s", t.exit(), t.out.String(), t.err.String())
	}
	return nil
}

// whole returns the digests of all files in workspace and store that only an execution
// may change. It returns nil while a process runs that may change them.
func (s *Scenario) whole() (map[string]string, error) {
	if len(s.Left()) > 0 {
		return nil, nil
	}
	all := map[string]string{}
	for _, root := range []string{s.Workspace(), s.Home()} {
		err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
			if err != nil {
				// The file does not exist.
				return nil
			}
			if !d.Type().IsRegular() || filepath.Dir(at) == filepath.Join(s.Home(), "log") || strings.HasSuffix(at, "-shm") {
				all[at] = d.Type().String()
				return nil
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			b, err := os.ReadFile(at)
			all[at] = fmt.Sprintf("%v %v %x", info.Mode(), info.ModTime().UnixNano(), sha256.Sum256(b))
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read everything: %w", err)
		}
	}
	return all, nil
}

// unchanged checks that read commands change no byte.
func (s *Scenario) unchanged(all []*typed, before map[string]string) error {
	if before == nil || slices.ContainsFunc(all, func(t *typed) bool { return !t.reads() }) {
		return nil
	}
	after, err := s.whole()
	for name := range maps.Keys(after) {
		if before[name] != after[name] {
			s.Breach("acode %s changes %s", strings.Join(all[0].args, " "), name)
		}
	}
	if len(after) < len(before) {
		s.Breach("acode %s removes files", strings.Join(all[0].args, " "))
	}
	return err
}
