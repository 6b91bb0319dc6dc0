package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acode-dev/acode/internal/torture/model"
)

// judge looks at the end of a trial, without a word from acode.
func (t *trial) judge(ctx context.Context) error {
	if err := t.countEffects(func(model.Step) bool { return true }); err != nil {
		return err
	}
	all := t.States()
	if err := t.compareTree(all[len(all)-1]); err != nil {
		return err
	}
	return t.judgeStore(ctx)
}

// judgeStuck looks at a session that nothing a person can say brings to its end. What it has
// not come to is not lost; what its journal says is done has to be there, once.
func (t *trial) judgeStuck(ctx context.Context) error {
	s, err := t.readStore(ctx)
	if err != nil {
		return err
	}
	if err := t.countEffects(func(st model.Step) bool { return s.done[st.Name()] }); err != nil {
		return err
	}
	t.countReceipts(s)
	return nil
}

// countEffects counts the lines that the steps have in the ledger. A step that is due must have
// one.
func (t *trial) countEffects(due func(model.Step) bool) error {
	lines, err := t.signatures()
	if err != nil {
		return err
	}
	for _, s := range t.Steps {
		switch n := lines[s.Name()]; {
		case s.Signs && n == 0 && due(s) && (t.strict || !s.Volatile):
			t.lost = append(t.lost, s.Name())
		case n > 1 && (t.strict || !t.answers[s.Name()]):
			t.repeated = append(t.repeated, fmt.Sprintf("%s (%d times)", s.Name(), n))
		}
	}
	if n := lines[""]; n > 0 && t.strict { // else a power cut may have left half of a line
		t.breach("%d lines of the ledger belong to no step", n)
	}
	return nil
}

// countReceipts finds steps that the journal says were completed more than once.
func (t *trial) countReceipts(s store) {
	for _, name := range slices.Sorted(maps.Keys(s.receipts)) {
		if n := s.receipts[name]; n > 1 {
			t.repeated = append(t.repeated, fmt.Sprintf("receipt of %s (%d times)", name, n))
		}
	}
}

// signatures counts the lines that each step has in the ledger. What fits no step counts for
// the empty name.
func (p place) signatures() (map[string]int, error) {
	b, err := os.ReadFile(p.ledger())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	return p.Count(string(b)), nil
}

// compareTree compares the workspace with what it must be, byte by byte and mode by mode.
// A leftover temporary file is one file too many.
func (t *trial) compareTree(want model.Tree) error {
	seen := map[string]bool{}
	missing := t.Folders()
	err := filepath.WalkDir(t.workspace(), func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(t.workspace(), at)
		if err != nil || name == "." {
			return err
		}
		if d.IsDir() {
			i := slices.Index(missing, name)
			if i < 0 {
				t.breach("the directory %s is there", name)
				return nil
			}
			missing = slices.Delete(missing, i, i+1)
			return nil
		}
		seen[name] = true
		return t.compareFile(at, name, want)
	})
	for name := range want {
		if err == nil && !seen[name] {
			t.lost = append(t.lost, "file "+name)
		}
	}
	for _, name := range missing {
		t.lost = append(t.lost, "directory "+name)
	}
	slices.Sort(t.lost)
	if err != nil {
		return fmt.Errorf("walk workspace: %w", err)
	}
	return nil
}

func (t *trial) compareFile(at, name string, want model.Tree) error {
	f, ok := want[name]
	if !ok {
		t.breach("the file %s is there", name)
		return nil
	}
	info, err := os.Lstat(at)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(at)
	switch {
	case err != nil:
		return err
	case info.Mode() != f.Mode:
		t.breach("%s has the mode %v, not %v", name, info.Mode(), f.Mode)
	case string(b) != f.Data:
		t.breach("%s holds other bytes (%d of them) than it must", name, len(b))
	}
	return nil
}

// judgeStore reads a copy of the store.
func (t *trial) judgeStore(ctx context.Context) error {
	s, err := t.readStore(ctx)
	if err != nil {
		return err
	}
	switch {
	case s.short == "":
		t.breach("the store has no session")
	case s.integrity != "ok":
		t.breach("integrity of the store: %s", s.integrity)
	case s.state != t.End():
		t.breach("the session is %s", s.state)
	case s.completed != len(t.Steps):
		t.breach("%d steps are completed in the store", s.completed)
	case s.sessions != 1:
		t.breach("the store has %d sessions", s.sessions)
	}
	t.countReceipts(s)
	return nil
}

// store is what sqlite3 reads from a copy of the database.
type store struct {
	integrity    string
	sessions     int
	short, state string // of the last session; empty when there is none
	completed    int    // steps
	receipts     map[string]int
	done         map[string]bool // steps with a receipt
	uncertain    map[string]bool
	open         map[string]bool // begun, and without a receipt
	approvals    int
}

// storeQuery asks for the sessions of one workspace.
const storeQuery = `PRAGMA integrity_check;
CREATE TEMP TABLE here AS SELECT * FROM sessions WHERE workspace = %s;
SELECT 'session', short, state FROM here;
SELECT 'step', task || '/' || step, status FROM steps WHERE session_no IN (SELECT no FROM here);
SELECT 'receipt', json_extract(payload, '$.task') || '/' || json_extract(payload, '$.step'), '' FROM events
	WHERE type = 'StepCompleted' AND session IN (SELECT no FROM here);
SELECT 'approval', '', '' FROM events WHERE type = 'ApprovalGranted' AND session IN (SELECT no FROM here);`

// readStore asks for what the judge of a trial needs to know.
func (p place) readStore(ctx context.Context) (store, error) {
	s := store{receipts: map[string]int{}, done: map[string]bool{}, uncertain: map[string]bool{}, open: map[string]bool{}}
	out, err := p.query(ctx, fmt.Sprintf(storeQuery, "'"+p.workspace()+"'"))
	s.parse(out)
	return s, err
}

// query copies the database with its log and asks sqlite3 about the copy. A database that is not
// there yet, or has no tables, is a store without sessions.
func (p place) query(ctx context.Context, sql string) (string, error) {
	database := p.database()
	if _, err := os.Stat(database); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	dir, err := os.MkdirTemp("", "torture-copy-")
	if err != nil {
		return "", fmt.Errorf("copy store: %w", err)
	}
	defer os.RemoveAll(dir)
	copied := filepath.Join(dir, "acode.db")
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(database + suffix)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(copied+suffix, b, 0o600)
		}
		if err != nil {
			return "", fmt.Errorf("copy store: %w", err)
		}
	}
	out, err := exec.CommandContext(ctx, "sqlite3", "-batch", "-separator", "\t", copied, sql).CombinedOutput()
	if err != nil && !strings.Contains(string(out), "no such table") {
		return "", fmt.Errorf("read copy of the store: %s: %w", out, err)
	}
	return string(out), nil
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
		case "approval":
			s.approvals++
		case "receipt":
			s.receipts[f[1]]++
			s.done[f[1]] = true
		}
	}
}
