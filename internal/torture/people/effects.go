package people

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acode-dev/acode/internal/torture/model"
)

// judgeEffects compares ledger and journal. No attempt acts twice, a step acts again only
// if its attempt failed, and completed steps have acted.
func (s *Scenario) judgeEffects() error {
	b, err := os.ReadFile(s.Ledger())
	if err != nil {
		return fmt.Errorf("read ledger: %w", err)
	}
	lines := attempts(string(b))
	for _, st := range s.Steps {
		acted := lines[st.Name()]
		if len(acted) == 0 && st.Signs && s.now.status[st.Name()] == "completed" && !s.declared(st) {
			s.Lost = append(s.Lost, st.Name())
		}
		for i, attempt := range acted {
			again := i+1 < len(acted)
			if slices.Contains(acted[:i], attempt) || again && !s.excused(st, attempt) {
				s.Repeated = append(s.Repeated, fmt.Sprintf("%s (attempts %v)", st.Name(), acted))
			}
		}
	}
	if n := s.Count(string(b))[""]; n > 0 {
		s.Breach("%d lines of the ledger belong to no step", n)
	}
	s.judgeLast(lines)
	s.countReceiptsOf()
	s.judgeFailures()
	s.judgeApprovals()
	return nil
}

// excused reports whether another attempt may follow one that acted. This is so if the
// step's policy allows it, or if the attempt was ended and has no check. A check or a
// person would have read the ledger.
func (s *Scenario) excused(st model.Step, attempt int) bool {
	next, _ := s.now.find("StepStarted", st.Name(), attempt+1)
	switch next.by {
	case "policy":
		return st.OnInterrupt() == "rerun"
	case "resume":
		return !st.Checked() && s.now.has("StepFailed", st.Name(), attempt) && !s.now.has("StepCompleted", st.Name(), attempt)
	}
	return false
}

// declared reports whether a step that has not acted is done by its own policy.
func (s *Scenario) declared(st model.Step) bool {
	return st.OnInterrupt() == "done" && slices.ContainsFunc(s.now.events, func(e event) bool {
		return e.kind == "StepCompleted" && e.step == st.Name() && e.by == "policy"
	})
}

// codeCancelled is the code of a step that failed because its session was cancelled.
const codeCancelled = "ACODE-SESSION-001"

// judgeLast finds the gaps in the journal of a finished session: steps in progress, and
// effects without a record.
func (s *Scenario) judgeLast(acted map[string][]int) {
	if !s.now.over() {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(s.now.status)) {
		if s.now.status[name] == "in_progress" {
			s.Breach("the session is %s, and %s is in progress", s.now.state, name)
		}
	}
	for name, attempts := range acted {
		for _, n := range attempts {
			failed, fails := s.now.find("StepFailed", name, n)
			known := s.now.has("StepCompleted", name, n) || s.now.has("StepUnknown", name, n) || fails && failed.code != codeCancelled
			if !known {
				s.Lost = append(s.Lost, fmt.Sprintf("the effect of attempt %d of %s", n, name))
			}
		}
	}
}

// countReceiptsOf counts receipts and unknowable outcomes. An outcome does not count if
// acode ended the command and then runs its check.
func (s *Scenario) countReceiptsOf() {
	receipts := map[string]int{}
	for _, e := range s.now.events {
		switch e.kind {
		case "StepUnknown":
			if !s.now.has("StepFailed", e.step, e.attempt) {
				s.Uncertain++
			}
		case "StepCompleted":
			receipts[e.step]++
		}
	}
	s.CountReceipts(receipts)
}

// judgeFailures finds failed steps whose command was not ended.
func (s *Scenario) judgeFailures() {
	n := 0
	for _, e := range s.now.events {
		rightly := e.step == s.Fails || slices.ContainsFunc(s.Steps, func(st model.Step) bool { return st.Name() == e.step && st.Repaired })
		if e.kind == "StepFailed" && e.code != codeCancelled && !rightly {
			n++
		}
	}
	if n > s.ended {
		s.Breach("%d steps failed, of which people ended at most %d", n, s.ended)
	}
}

// judgeApprovals checks that each gate was passed with its own approval for that epoch,
// and that a person had typed it.
func (s *Scenario) judgeApprovals() {
	granted, all := map[event]int{}, 0
	for _, e := range s.now.events {
		switch {
		case e.kind == "ApprovalGranted":
			all++
			which := event{step: e.step, usable: e.usable}
			if granted[which]++; granted[which] > 1 {
				s.Breach("%s was approved %d times for epoch %d", e.step, granted[which], e.usable)
			}
		case e.kind == "StepCompleted" && s.asks(e.step) && granted[event{step: e.step, usable: e.epoch}] == 0:
			s.Breach("%s was passed in epoch %d without an approval for it", e.step, e.epoch)
		}
	}
	if all > s.approved {
		s.Breach("%d approvals were granted, people typed %d", all, s.approved)
	}
}

// asks reports whether a step waits for an approval.
func (s *Scenario) asks(name string) bool {
	return slices.ContainsFunc(s.Steps, func(st model.Step) bool { return st.Name() == name && st.Asks() })
}

// judgeWorkspace compares the workspace with the result of the completed steps and of
// manual work.
func (s *Scenario) judgeWorkspace() error {
	s.judgeTemporary()
	n := s.now.done(s.Plan)
	want := s.withOwn(s.States()[n])
	if n == len(s.Steps) {
		return s.CompareTree(want)
	}
	return s.compareSome(want, s.Steps[n])
}

// withOwn adds the manual changes of files.
func (s *Scenario) withOwn(t model.Tree) model.Tree {
	t = maps.Clone(t)
	for name, f := range s.own {
		if delete(t, name); f != nil {
			t[name] = *f
		}
	}
	return t
}

// compareSome compares the files that an open step does not touch.
func (s *Scenario) compareSome(want model.Tree, open model.Step) error {
	touched := open.Touches()
	for name := range want {
		if slices.Contains(touched, name) {
			continue
		}
		at := filepath.Join(s.Workspace(), name)
		if _, err := os.Lstat(at); err != nil {
			s.Lost = append(s.Lost, "file "+name)
		} else if err := s.CompareFile(at, name, want); err != nil {
			return err
		}
	}
	return nil
}

// judgeTemporary finds temporary files of acode.
func (s *Scenario) judgeTemporary() {
	_ = filepath.WalkDir(s.Workspace(), func(at string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), ".acode-") {
			s.Breach("a temporary file is left: %s", at)
		}
		// The comparison finds unreadable directories.
		return nil
	})
}
