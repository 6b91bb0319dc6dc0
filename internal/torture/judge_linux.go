package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/acode-dev/acode/internal/torture/model"
)

// judge checks the end of a trial from outside acode.
func (t *trial) judge(ctx context.Context) error {
	if err := t.countEffects(func(model.Step) bool { return true }); err != nil {
		return err
	}
	all := t.States()
	if err := errors.Join(t.CompareTree(all[len(all)-1]), t.CompareReceipts(ctx, false)); err != nil {
		return err
	}
	return t.judgeStore(ctx)
}

// judgeStuck checks a session that no answer of a person can complete. Steps that it did
// not reach are not lost. Each step that its journal records as done must have happened
// once.
func (t *trial) judgeStuck(ctx context.Context) error {
	s, err := t.readStore(ctx)
	if err != nil {
		return err
	}
	if err := t.countEffects(func(st model.Step) bool { return s.done[st.Name()] }); err != nil {
		return err
	}
	t.CountReceipts(s.receipts)
	return nil
}

// countEffects counts the lines of the steps in the ledger. A step that is due must have
// one.
func (t *trial) countEffects(due func(model.Step) bool) error {
	lines, err := t.Signatures()
	if err != nil {
		return err
	}
	for _, s := range t.Steps {
		switch n := lines[s.Name()]; {
		case s.Signs && n == 0 && due(s) && (t.strict || !s.Volatile):
			t.Lost = append(t.Lost, s.Name())
		case n > 1:
			t.Repeated = append(t.Repeated, fmt.Sprintf("%s (%d times)", s.Name(), n))
		}
	}
	// Without strict, a power cut may have left half of a line.
	if n := lines[""]; n > 0 && t.strict {
		t.Breach("%d lines of the ledger belong to no step", n)
	}
	return nil
}

// judgeStore checks a copy of the store.
func (t *trial) judgeStore(ctx context.Context) error {
	s, err := t.readStore(ctx)
	if err != nil {
		return err
	}
	switch {
	case s.short == "":
		t.Breach("the store has no session")
	case s.integrity != "ok":
		t.Breach("integrity of the store: %s", s.integrity)
	case s.state != t.End():
		t.Breach("the session is %s", s.state)
	case s.completed != len(t.Steps):
		t.Breach("%d steps are completed in the store", s.completed)
	case s.sessions != 1:
		t.Breach("the store has %d sessions", s.sessions)
	}
	t.CountReceipts(s.receipts)
	return nil
}

// store is the content of a copy of the database, as sqlite3 reads it.
type store struct {
	integrity string
	sessions  int
	// short and state are those of the last session, or "" without a session.
	short, state string
	// completed counts steps.
	completed int
	receipts  map[string]int
	// done holds the steps with a receipt.
	done      map[string]bool
	uncertain map[string]bool
	// open holds the steps that began and have no receipt.
	open map[string]bool
	// asking holds the gates without an answer.
	asking    map[string]bool
	approvals int
}

// storeQuery reads the sessions of one workspace.
const storeQuery = `PRAGMA integrity_check;
CREATE TEMP TABLE here AS SELECT * FROM sessions WHERE workspace = %s;
SELECT 'session', short, state FROM here;
SELECT 'step', task || '/' || step, status FROM steps WHERE session_no IN (SELECT no FROM here);
SELECT 'asking', task || '/' || step, '' FROM steps WHERE session_no IN (SELECT no FROM here) AND approval <> '' AND json_extract(approval, '$.answer') IS NULL;
SELECT 'receipt', json_extract(payload, '$.task') || '/' || json_extract(payload, '$.step'), '' FROM events
	WHERE type = 'StepCompleted' AND session IN (SELECT no FROM here);
SELECT 'approval', '', '' FROM events WHERE type = 'ApprovalGranted' AND session IN (SELECT no FROM here);`

// readStore reads the part of the store that the judge of a trial needs.
func (t *trial) readStore(ctx context.Context) (store, error) {
	s := store{receipts: map[string]int{}, done: map[string]bool{}, uncertain: map[string]bool{}, open: map[string]bool{}, asking: map[string]bool{}}
	out, err := t.Query(ctx, fmt.Sprintf(storeQuery, "'"+t.Workspace()+"'"))
	s.parse(out)
	return s, err
}

func (s *store) parse(out string) {
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) < 3 {
			if s.integrity == "" {
				s.integrity = f[0]
			}
			continue
		}
		switch f[0] {
		case "session":
			s.sessions++
			s.short, s.state = f[1], f[2]
		case "step":
			if f[2] == "completed" {
				s.completed++
			}
			s.uncertain[f[1]] = f[2] == "uncertain"
			s.open[f[1]] = f[2] == "uncertain" || f[2] == "in_progress"
		case "asking":
			s.asking[f[1]] = true
		case "approval":
			s.approvals++
		case "receipt":
			s.receipts[f[1]]++
			s.done[f[1]] = true
		}
	}
}
