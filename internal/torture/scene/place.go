// Package scene is the place of a tested session, and the observations made there without
// acode.
//
// A Place has the workspace, the store, the ledger that commands append to, and the
// remaining processes. A Case adds the findings: it compares the workspace with the plan
// and counts lines and receipts. The callers decide which effects must exist at which
// moment. The package runs only tools that read: sqlite3 on a copy of the store, and
// sha256sum and grep.
package scene

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/acode-dev/acode/internal/torture/model"
)

// Place is the place of a session: everything is below one directory.
type Place struct {
	// Acode is the path of the program.
	Acode string
	// Root is the directory.
	Root string
	// Moves is how often the workspace was moved.
	Moves int
	model.Plan
}

// Workspace returns the workspace. Each move gives it another name.
func (p Place) Workspace() string {
	if p.Moves > 0 {
		return filepath.Join(p.Root, fmt.Sprintf("workspace moved %d", p.Moves))
	}
	return filepath.Join(p.Root, "workspace")
}

// Home returns the directory of the store and of commands.
func (p Place) Home() string { return filepath.Join(p.Root, "home") }

// Ledger returns the path of the file that commands append to.
func (p Place) Ledger() string { return filepath.Join(p.Root, "ledger", "ledger") }

// Repaired returns the path of a file that people make. Some steps fail without it.
func (p Place) Repaired() string { return p.Ledger() + model.RepairedSuffix }

// PlanFile returns the path of the plan that Prepare writes.
func (p Place) PlanFile() string { return filepath.Join(p.Root, "plan.yml") }

func (p Place) database() string { return filepath.Join(p.Home(), "acode.db") }

// Environ returns the environment of all programs here.
func (p Place) Environ() []string {
	user := filepath.Join(p.Root, "user")
	return []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "HOME=" + user, "XDG_CONFIG_HOME=" + user, "TMPDIR=" + user,
		"ACODE_HOME=" + p.Home(), model.LedgerVariable + "=" + p.Ledger()}
}

// Prepare makes the initial state of a session: the workspace, an empty ledger, and the
// plan text. Other files stay.
func (p Place) Prepare(text string) error {
	for _, dir := range []string{p.Workspace(), filepath.Dir(p.Ledger()), filepath.Join(p.Root, "user")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("prepare trial: %w", err)
		}
	}
	for name := range p.Before {
		if err := p.Put(name, p.Before); err != nil {
			return fmt.Errorf("prepare workspace: %w", err)
		}
	}
	return errors.Join(os.WriteFile(p.Ledger(), nil, 0o644), os.WriteFile(p.PlanFile(), []byte(text), 0o644))
}

// Read reads a file of the workspace; nil means that it does not exist.
func (p Place) Read(name string) (*model.File, error) {
	at := filepath.Join(p.Workspace(), name)
	b, err := os.ReadFile(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	info, statErr := os.Lstat(at)
	if err := errors.Join(err, statErr); err != nil {
		return nil, fmt.Errorf("look at file: %w", err)
	}
	return &model.File{Mode: info.Mode(), Data: string(b)}, nil
}

// Put makes a path of the workspace equal to the tree. It creates the directory of the
// path, like a command.
func (p Place) Put(name string, want model.Tree) error {
	at := filepath.Join(p.Workspace(), name)
	is, err := p.Read(name)
	if err != nil || want.Has(name, is) {
		return errors.Join(err, os.MkdirAll(filepath.Dir(at), 0o755))
	}
	if is != nil {
		err = os.Remove(at)
	}
	f, there := want[name]
	if !there {
		return err
	}
	return errors.Join(err, os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(f.Data), f.Mode), os.Chmod(at, f.Mode))
}

// Broken reports whether a cause of failure still needs a repair.
func (p Place) Broken() bool {
	_, err := os.Lstat(p.Repaired())
	return err != nil && slices.ContainsFunc(p.Steps, func(s model.Step) bool { return s.Repaired })
}

// Program prepares a program with the environment of this place.
func (p Place) Program(ctx context.Context, argv []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = p.Workspace(), p.Environ()
	return cmd
}

// Signatures counts the lines of each step in the ledger, as Count does. A missing ledger
// has none.
func (p Place) Signatures() (map[string]int, error) {
	b, err := os.ReadFile(p.Ledger())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	return p.Count(string(b)), nil
}
