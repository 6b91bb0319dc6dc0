// Package people does with sessions what people do, at random, and judges what comes of
// it.
//
// Draw draws what is typed, by two at a time, who loses which process at instants that
// nobody counts, and what is changed by hand. A Scenario carries that out and then goes
// on as acode proposes until the session is over. It holds each exit status against the
// store, each line of JSON against the status, what only looks against every byte there
// is, and in the end the ledger against the journal.
//
// Equal draws give equal acts, but no two scenarios of them are alike: when a blow falls
// is up to the machine.
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

// Scenario is a session among people: what they type, how it is disturbed, and how they
// go on afterwards until it is over.
type Scenario struct {
	scene.Case
	acts []Act
	// as it was when somebody looked last
	now journal
	// the process that executed the session last, if nobody did anything since
	last *typed
	// steps of which people said what became of them
	answers map[string]bool
	// each thing that was done, and what came of it
	told []string
	// steps whose command was cut off from its receipt
	cut map[string]bool
	// what people made of files; nil: removed
	own map[string]*model.File
	// nothing of the scenario ran when the last command was typed
	nobody bool
	// the workspace was moved, and the session has not gone on there yet
	astray bool
	// how often people may have ended a command
	ended int
	// how often they approved
	approved int
}

// New gives the scenario of acts in a place, of whose plan they were drawn.
func New(at scene.Place, acts []Act) *Scenario {
	return &Scenario{Case: scene.Case{Place: at}, acts: acts, cut: map[string]bool{}, own: map[string]*model.File{}}
}

// Play carries the scenario out from an empty directory. What was wrong stands in the
// scenario then, and the directory stays; else that is removed. An error says that
// nothing could be judged. One scenario is played once.
func (s *Scenario) Play(ctx context.Context) error {
	if err := errors.Join(os.RemoveAll(s.Root), s.Prepare(s.YAML()), os.WriteFile(s.otherFile(), []byte(other), 0o644)); err != nil {
		return err
	}
	if err := s.carry(ctx); err != nil || s.Bad() {
		return err
	}
	return os.RemoveAll(s.Root)
}

// carry carries the acts out, goes on to the end as acode proposes, and judges that.
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

// killLeft ends whatever a scenario that went wrong left.
func (s *Scenario) killLeft() {
	for _, p := range slices.Backward(s.Left()) {
		_ = syscall.Kill(p.PID, syscall.SIGKILL) // it may have ended meanwhile
	}
}

// Report is all that was done, and what came of it, for people who look for the reason of
// a breach.
func (s *Scenario) Report() string { return strings.Join(s.told, "\n") }

// tell keeps a line of the report.
func (s *Scenario) tell(format string, args ...any) {
	s.told = append(s.told, fmt.Sprintf(format, args...))
}

// perform carries one act out, and looks at what it left.
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

// types starts what is typed, disturbs it and waits for its end.
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
		// it may be over by then
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

// start starts acode, on a terminal where somebody is there to say something.
func (s *Scenario) start(ctx context.Context, args []string, says string) *typed {
	if says != "" {
		return s.beginOnTerminal(ctx, args, says)
	}
	return s.begin(ctx, args)
}

// await waits for a process and judges what it said.
func (s *Scenario) await(t *typed) error {
	if !t.pause(scene.ProcessLimit) {
		_ = t.cmd.Process.Kill() // it is waited for next
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

// filled puts what a person knows into the place of what stands for it. Without a session
// there is no id to type.
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

// strike waits until the blow is due and deals it to whoever is there.
func (s *Scenario) strike(t *typed, b blow) {
	for i, sig := range b.signals {
		if i == 0 && s.instant(t, b.amid, b.after) || i > 0 && t.pause(b.gap) {
			return
		}
		if b.whom == onAll {
			s.Killed++
			if s.shutDown(t, sig) { // a command, or its supervisor: below nohup acode goes on after a hangup
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
		s.ended++ // the second one ends the command
	}
}

// instant waits for an instant, or until t has ended, which it reports.
func (s *Scenario) instant(t *typed, amid bool, after time.Duration) (ended bool) {
	for amid && len(s.commands(t)) == 0 {
		if t.pause(glance) {
			return true
		}
	}
	return t.pause(after)
}

// glance is how long nobody looks for a command.
const glance = 5 * time.Millisecond

// commands gives the commands of the session that run beside t.
func (s *Scenario) commands(t *typed) []scene.Process {
	return slices.DeleteFunc(s.CommandsLeft(), func(p scene.Process) bool { return p.PID == t.cmd.Process.Pid })
}

// look reads what processes left, and holds it against what they said.
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

// leftLimit is how long what a session started may live on after its end.
const leftLimit = 8 * time.Second

// awaitNobody waits until no process of the scenario is left.
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

// judgeEnd looks at the end of the scenario, without a word from acode.
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
		s.Breach("sessions of somebody else are %q", j.others)
	}
	return errors.Join(s.judgeEffects(), s.judgeWorkspace(), s.CompareReceipts(ctx, len(s.own) > 0))
}
