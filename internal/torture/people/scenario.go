// Package people plays random actions of people with sessions and judges the results.
//
// Draw draws commands of up to two people at once, signals to processes at random
// instants, and manual changes. A Scenario performs these acts and then follows acode's
// advice until the session is over. It compares each exit status with the store, each
// line of JSON with the status, and the bytes of all files before and after commands that
// only read. In the end it compares the ledger with the journal.
//
// Equal draws give equal acts, but no two scenarios are alike: the machine decides when a
// blow falls.
package people

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/acode-dev/acode/internal/torture/model"
	"github.com/acode-dev/acode/internal/torture/scene"
)

// Scenario is a session with people: their commands, the disturbances, and the way to its
// end.
type Scenario struct {
	scene.Case
	acts []Act
	// now is the content of the store at the last look.
	now journal
	// last is the process that executed the session last, if no person did anything
	// since.
	last *typed
	// answers holds the steps whose outcome people reported.
	answers map[string]bool
	// told lists each action and its result.
	told []string
	// cut holds the steps whose command was cut off from its receipt.
	cut map[string]bool
	// own holds files changed by hand; nil means removed.
	own map[string]*model.File
	// nobody means that no process of the scenario ran when the last command was typed.
	nobody bool
	// astray means that the workspace was moved, and the session has not continued there
	// yet.
	astray bool
	// ended is how often people may have ended a command.
	ended int
	// approved is how often people approved.
	approved int
}

// New returns the scenario of acts in a place. The acts must have been drawn for the plan
// of the place.
func New(at scene.Place, acts []Act) *Scenario {
	return &Scenario{Case: scene.Case{Place: at}, acts: acts, cut: map[string]bool{}, own: map[string]*model.File{}}
}

// Play performs the scenario from an empty directory. It records breaches in the scenario
// and removes the directory if there are none. An error means that the scenario could not
// be judged. Each scenario can be played once.
func (s *Scenario) Play(ctx context.Context) error {
	if err := errors.Join(os.RemoveAll(s.Root), s.Prepare(s.YAML()), os.WriteFile(s.otherFile(), []byte(other), 0o644)); err != nil {
		return err
	}
	if err := s.carry(ctx); err != nil || s.Bad() {
		return err
	}
	return os.RemoveAll(s.Root)
}

// carry performs the acts, follows acode's advice to the end, and judges the end.
func (s *Scenario) carry(ctx context.Context) error {
	defer s.killLeft()
	s.answers = map[string]bool{}
	for _, a := range s.acts {
		if err := s.perform(ctx, a); err != nil {
			return err
		}
	}
	if err := s.goOn(ctx); err != nil {
		return err
	}
	s.awaitNobody()
	return s.judgeEnd(ctx)
}

// killLeft ends all remaining processes of a scenario.
func (s *Scenario) killLeft() {
	for _, p := range slices.Backward(s.Left()) {
		// The process may have ended.
		_ = syscall.Kill(p.PID, syscall.SIGKILL)
	}
}

// Report returns all actions and their results, to find the cause of a breach.
func (s *Scenario) Report() string { return strings.Join(s.told, "\n") }

// tell adds a line to the report.
func (s *Scenario) tell(format string, args ...any) {
	s.told = append(s.told, fmt.Sprintf(format, args...))
}

// perform performs one act and checks its results.
func (s *Scenario) perform(ctx context.Context, a Act) error {
	if a.heeds {
		if err := s.heed(ctx); err != nil {
			return err
		}
	}
	s.tell("-- %v", a)
	if a.hand != "" {
		return s.does(a)
	}
	return s.types(ctx, a)
}

// types starts a typed command, disturbs it and waits for its end.
func (s *Scenario) types(ctx context.Context, a Act) error {
	args, err := s.meant(a.args)
	if err != nil {
		return err
	}
	before, err := s.whole()
	if err != nil {
		return err
	}
	s.nobody = before != nil
	all := []*typed{s.start(ctx, args, a.says)}
	if a.beside != nil {
		// The session may be over by then.
		beside := slices.DeleteFunc(slices.Clone(a.beside), func(s string) bool { return s == truthful })
		s.instant(all[0], a.amid, a.later)
		all = append(all, s.begin(ctx, s.filled(beside)))
	}
	s.strike(all[0], a.blow)
	for _, t := range all {
		if err := s.await(t); err != nil {
			return err
		}
	}
	if err := s.look(ctx, all); err != nil {
		return err
	}
	return s.unchanged(all, before)
}

// command prepares acode as a person starts it.
func (s *Scenario) command(ctx context.Context, args ...string) *exec.Cmd {
	return s.Program(ctx, append([]string{s.Acode}, args...))
}

// start starts acode, on a terminal if says is not empty.
func (s *Scenario) start(ctx context.Context, args []string, says string) *typed {
	if says != "" {
		return s.beginOnTerminal(ctx, args, says)
	}
	return s.begin(ctx, args)
}

// await waits for a process and judges its output.
func (s *Scenario) await(t *typed) error {
	if !t.pause(scene.ProcessLimit) {
		// The next statement waits for its end.
		_ = t.cmd.Process.Kill()
		<-t.done
		s.Stuck = fmt.Sprintf("acode %s took longer than %v", strings.Join(t.args, " "), scene.ProcessLimit)
	}
	s.tell("%s", t.said())
	t.judge(s.Breach)
	if t.cmd.ProcessState == nil {
		return t.failed
	}
	return nil
}

// filled replaces placeholders by the values that a person knows. Without a session it
// omits the id.
func (s *Scenario) filled(args []string) []string {
	var all []string
	for _, a := range args {
		switch a {
		case own:
			if s.now.short != "" {
				all = append(all, s.now.short)
			}
		case "--on-changes=<continue|abort>":
			all = append(all, "--on-changes=continue")
		case "FILE":
			all = append(all, s.PlanFile())
		case "OTHER":
			all = append(all, s.otherFile())
		case "DIR":
			all = append(all, s.Workspace())
		default:
			all = append(all, a)
		}
	}
	return all
}

// strike waits until the blow is due and sends its signals to the victims.
func (s *Scenario) strike(t *typed, b blow) {
	for i, sig := range b.signals {
		if i == 0 && s.instant(t, b.amid, b.after) || i > 0 && t.pause(b.gap) {
			return
		}
		if b.whom == onAll {
			s.Killed++
			// A command or its supervisor got the signal. Under nohup acode itself
			// continues after a hangup.
			if s.shutDown(t, sig) {
				s.Excused++
			}
		}
		if b.whom == onAcode || b.whom == onGroup || b.whom == onBoth {
			t.signal(sig, b.whom == onGroup)
			s.Killed++
		}
		if b.whom == onSupervisor || b.whom == onBoth {
			s.killSupervisors()
		}
	}
	if len(b.signals) > 1 && b.signals[0] != syscall.SIGSTOP && b.whom != onAll {
		// The second signal ends the command.
		s.ended++
	}
}

// instant waits for an instant or until t has ended. It reports whether t has ended.
func (s *Scenario) instant(t *typed, amid bool, after time.Duration) (ended bool) {
	for amid && len(s.commands(t)) == 0 {
		if t.pause(glance) {
			return true
		}
	}
	return t.pause(after)
}

// glance is the interval between two looks for a command.
const glance = 5 * time.Millisecond

// commands returns the commands of the session that run beside t.
func (s *Scenario) commands(t *typed) []scene.Process {
	return slices.DeleteFunc(s.CommandsLeft(), func(p scene.Process) bool { return p.PID == t.cmd.Process.Pid })
}

// look reads the state after processes, and compares it with their output.
func (s *Scenario) look(ctx context.Context, all []*typed) error {
	j, err := s.readJournal(ctx)
	if err != nil {
		return err
	}
	was := s.now
	s.now = j
	executed := false
	if len(all) == 1 && !all[0].killed() {
		if err := s.agree(all[0], was); err != nil {
			return err
		}
	}
	for _, t := range all {
		executed = executed || t.executes() && !slices.Contains(t.args, s.otherFile())
		s.countDecision(t)
	}
	if was.seq != j.seq || executed {
		s.last = nil
	}
	if !executed {
		return nil
	}
	if len(all) == 1 {
		s.last = all[0]
	}
	return s.verify(ctx)
}

// leftLimit is how long the processes of a session may run after its end.
const leftLimit = 8 * time.Second

// awaitNobody waits until no process of the scenario remains.
func (s *Scenario) awaitNobody() {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(leftLimit)
	for {
		left := s.Left()
		if len(left) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			s.Breach("processes that do not end: %v", left)
			return
		}
	}
}

// judgeEnd checks the end of the scenario from outside acode.
func (s *Scenario) judgeEnd(ctx context.Context) error {
	j, err := s.readJournal(ctx)
	if err != nil {
		return err
	}
	s.now = j
	switch {
	case j.integrity != "ok":
		s.Breach("integrity of the store: %s", j.integrity)
	case j.sessions != 1:
		s.Breach("the store has %d sessions", j.sessions)
	case slices.ContainsFunc(j.others, func(state string) bool { return state != "completed" }):
		s.Breach("sessions of another person are %q", j.others)
	}
	return errors.Join(s.judgeEffects(), s.judgeWorkspace(), s.CompareReceipts(ctx, len(s.own) > 0))
}
