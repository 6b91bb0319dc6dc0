package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// scenario is a session among people: what they type, how it is disturbed, and how they go on
// afterwards until it is over.
type scenario struct {
	trial
	acts  []act
	now   journal         // as it was when somebody looked last
	last  *typed          // the process that executed the session last, if nobody did anything since
	told  []string        // each thing that was done, and what came of it
	ended int             // how often people may have ended a command
	cut   map[string]bool // steps whose command was cut off from its receipt
}

// carry carries the acts out, goes on to the end as acode proposes, and judges that.
func (s *scenario) carry(ctx context.Context) error {
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

// tell keeps a line of the report.
func (s *scenario) tell(format string, args ...any) {
	s.told = append(s.told, fmt.Sprintf(format, args...))
}

// perform carries one act out, and looks at what it left.
func (s *scenario) perform(ctx context.Context, a act) error {
	s.tell("-- %v", a)
	t := s.begin(ctx, s.filled(a.args))
	s.strike(t, a.blow)
	return s.await(ctx, t)
}

// await waits for a process and looks at what it left.
func (s *scenario) await(ctx context.Context, t *typed) error {
	if !t.pause(processLimit) {
		_ = t.cmd.Process.Kill() // it is waited for next
		<-t.done
		s.stuck = fmt.Sprintf("acode %s took longer than %v", strings.Join(t.args, " "), processLimit)
	}
	s.tell("%s", t.said())
	t.judge(s.breach)
	if t.failed != nil && t.cmd.ProcessState == nil {
		return t.failed
	}
	return s.look(ctx, t)
}

// filled puts what a person knows into the place of what stands for it. Without a session there is
// no id to type.
func (s *scenario) filled(args []string) []string {
	var all []string
	for _, a := range args {
		switch a {
		case own:
			if s.now.short != "" {
				all = append(all, s.now.short)
			}
		case "FILE":
			all = append(all, s.planFile())
		case "DIR":
			all = append(all, s.workspace())
		default:
			all = append(all, a)
		}
	}
	return all
}

// strike waits until the blow is due and deals it to whoever is there.
func (s *scenario) strike(t *typed, b blow) {
	for i, sig := range b.signals {
		wait := b.after
		if i > 0 {
			wait = b.gap
		}
		if t.pause(wait) {
			return
		}
		if b.whom == onAcode || b.whom == onGroup || b.whom == onBoth {
			t.signal(sig, b.whom == onGroup)
			s.killed++
		}
		if b.whom == onSupervisor || b.whom == onBoth {
			s.killSupervisors()
		}
	}
	if len(b.signals) > 1 {
		s.ended++
	}
}

// look reads what a process left, and holds it against what the process said.
func (s *scenario) look(ctx context.Context, t *typed) error {
	j, err := s.readJournal(ctx)
	if err != nil {
		return err
	}
	s.now = j
	if !t.executes() {
		return nil
	}
	s.last = t
	if !t.killed() {
		s.agree(t, j)
	}
	return s.verify(ctx)
}

// agree checks that exit status, result and store say the same of the session.
func (s *scenario) agree(t *typed, j journal) {
	if want := statesOf(t.exit()); !slices.Contains(want, j.state) {
		s.breach("acode %s ends with %d, the session is %q", t.args[0], t.exit(), j.state)
	}
	if !slices.Contains(t.args, jsonFlag) {
		return
	}
	if r, err := t.lines(); err == nil && r.State != "" && r.State != j.state {
		s.breach("the result says %q, the session is %q", r.State, j.state)
	}
}

// statesOf gives the states in which a process that ends with a status leaves the session; empty is
// no session at all.
func statesOf(exit int) []string {
	open := []string{"created", "planning", "awaiting_approval", "executing", "paused"}
	over := []string{"completed", "failed", "cancelled"}
	switch exit {
	case 0:
		return over[:1]
	case exitApproval:
		return []string{"awaiting_approval"}
	case exitTimeout, exitDenied, exitUncertain:
		return []string{"paused"}
	case exitNoneToCarry:
		return append(over, "")
	case exitOver:
		return over
	case exitLocked, exitChanged:
		return append(open, "")
	case exitFailed:
		return []string{"paused", "failed"}
	}
	return append(open, "") // a signal, which may come before there is a session
}

// verify lets acode check its store, which must be sound whatever happened to it.
func (s *scenario) verify(ctx context.Context) error {
	t := s.begin(ctx, []string{"verify"})
	<-t.done
	t.judge(s.breach)
	if t.cmd.ProcessState == nil {
		return t.failed
	}
	if s.now.short != "" && t.exit() != 0 {
		s.breach("acode verify ends with %d: %s%s", t.exit(), t.out.String(), t.err.String())
	}
	return nil
}

// leftLimit is how long what a session started may live on after its end.
const leftLimit = 8 * time.Second

// awaitNobody waits until no process of the scenario is left.
func (s *scenario) awaitNobody() {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(leftLimit)
	for {
		left := s.left()
		if len(left) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			s.breach("processes that do not end: %v", left)
			return
		}
	}
}

// judgeEnd looks at the end of the scenario, without a word from acode.
func (s *scenario) judgeEnd(ctx context.Context) error {
	j, err := s.readJournal(ctx)
	if err != nil {
		return err
	}
	s.now = j
	switch {
	case j.integrity != "ok":
		s.breach("integrity of the store: %s", j.integrity)
	case j.sessions != 1:
		s.breach("the store has %d sessions", j.sessions)
	}
	return errors.Join(s.judgeEffects(), s.judgeWorkspace())
}
