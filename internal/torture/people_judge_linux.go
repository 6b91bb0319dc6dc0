package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// judgeEffects holds ledger and journal against one another: no attempt acts twice, a step acts again
// only where its attempt failed or nobody could know, and what is done has acted.
func (s *scenario) judgeEffects() error {
	b, err := os.ReadFile(s.ledger())
	if err != nil {
		return fmt.Errorf("read ledger: %w", err)
	}
	lines := attempts(string(b))
	for _, st := range s.steps {
		acted := lines[st.name()]
		if len(acted) == 0 && st.signs && s.now.status[st.name()] == "completed" {
			s.lost = append(s.lost, st.name())
		}
		for i, attempt := range acted {
			again := i+1 < len(acted)
			if slices.Contains(acted[:i], attempt) || again && !s.excused(st.name(), attempt) {
				s.repeated = append(s.repeated, fmt.Sprintf("%s (attempts %v)", st.name(), acted))
			}
		}
	}
	if n := count(s.steps, string(b))[""]; n > 0 {
		s.breach("%d lines of the ledger belong to no step", n)
	}
	s.countUnknown()
	return nil
}

// excused reports whether an attempt that acted may be followed by another one.
func (s *scenario) excused(step string, attempt int) bool {
	return s.now.has("StepFailed", step, attempt) || s.now.has("StepUnknown", step, attempt)
}

// countUnknown counts the outcomes that nobody could know, and receipts.
func (s *scenario) countUnknown() {
	receipts := map[string]int{}
	for _, e := range s.now.events {
		switch e.kind {
		case "StepUnknown":
			s.uncertain++
		case "StepCompleted":
			receipts[e.step]++
		}
	}
	s.countReceipts(store{receipts: receipts})
}

// judgeWorkspace compares the workspace with what the steps that are done make of it.
func (s *scenario) judgeWorkspace() error {
	s.judgeTemporary()
	n := s.now.done(s.plan)
	want := s.states()[n]
	if n == len(s.steps) {
		return s.compareTree(want)
	}
	return s.compareSome(want, s.steps[n])
}

// compareSome compares the files that an open step does not touch.
func (s *scenario) compareSome(want tree, open step) error {
	touched := touchedBy(open)
	for name := range want {
		if slices.Contains(touched, name) {
			continue
		}
		at := filepath.Join(s.workspace(), name)
		if _, err := os.Lstat(at); err != nil {
			s.lost = append(s.lost, "file "+name)
		} else if err := s.compareFile(at, name, want); err != nil {
			return err
		}
	}
	return nil
}

// touchedBy gives the files that a step changes.
func touchedBy(st step) []string {
	var names []string
	for _, c := range slices.Concat(st.changes, st.does) {
		names = append(names, c.paths()...)
	}
	return names
}

// judgeTemporary finds temporary files of acode.
func (s *scenario) judgeTemporary() {
	_ = filepath.WalkDir(s.workspace(), func(at string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), ".acode-") {
			s.breach("a temporary file is left: %s", at)
		}
		return nil // what cannot be walked the comparison finds
	})
}
