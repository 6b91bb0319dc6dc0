// Package scene is where a session under torture happens, and what anybody can see there without
// asking acode.
//
// A Place has the workspace, the store, the ledger that commands append to, and the processes that
// were left. A Case adds what was found wrong: the package compares the workspace with what a plan
// makes of it and counts lines and receipts; what has to be there at which moment its callers say. It
// starts nothing itself but sqlite3, on a copy of the store.
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

// Place is where a session happens: everything below one directory.
type Place struct {
	Acode string // path of the program
	Root  string // the directory
	Moves int    // how often the workspace was moved
	model.Plan
}

// Workspace is where the session works; each move of it gives it another name.
func (p Place) Workspace() string {
	if p.Moves > 0 {
		return filepath.Join(p.Root, fmt.Sprintf("workspace moved %d", p.Moves))
	}
	return filepath.Join(p.Root, "workspace")
}

// Home is the directory of the store and of commands.
func (p Place) Home() string { return filepath.Join(p.Root, "home") }

// Ledger is the file that commands append to.
func (p Place) Ledger() string { return filepath.Join(p.Root, "ledger", "ledger") }

// Mended is the file without which some steps fail; people make it.
func (p Place) Mended() string { return p.Ledger() + model.MendedSuffix }

// PlanFile is where Prepare writes the plan.
func (p Place) PlanFile() string { return filepath.Join(p.Root, "plan.yml") }

func (p Place) database() string { return filepath.Join(p.Home(), "acode.db") }

// Environ is the environment of all that runs here.
func (p Place) Environ() []string {
	user := filepath.Join(p.Root, "user")
	return []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "HOME=" + user, "XDG_CONFIG_HOME=" + user, "TMPDIR=" + user,
		"ACODE_HOME=" + p.Home(), model.LedgerVariable + "=" + p.Ledger()}
}

// Prepare makes the beginning of a session: the workspace, an empty ledger, and text as the plan. What
// else is there stays.
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

// Read reads a file of the workspace; nil says that there is none.
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

// Put makes a path of the workspace what it is in a tree, in the directory of its own that a
// command makes for it.
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

// Broken reports whether there is still something to mend.
func (p Place) Broken() bool {
	_, err := os.Lstat(p.Mended())
	return err != nil && slices.ContainsFunc(p.Steps, func(s model.Step) bool { return s.Mended })
}

// Program prepares a program as acode is started here. Nothing runs yet.
func (p Place) Program(ctx context.Context, argv []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = p.Workspace(), p.Environ()
	return cmd
}

// Signatures counts the lines that each step has in the ledger, as Count does; without one there are none.
func (p Place) Signatures() (map[string]int, error) {
	b, err := os.ReadFile(p.Ledger())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	return p.Count(string(b)), nil
}
