package scene

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

// Case is one judged session: its place and its outcome.
type Case struct {
	Place
	Outcome
}

// Outcome holds the findings about a session.
type Outcome struct {
	// Killed counts the kills that struck.
	Killed int
	// Uncertain counts outcomes that acode did not know.
	Uncertain int
	// Excused counts outcomes that are unknowable.
	Excused int
	// Lost lists missing steps and files.
	Lost []string
	// Repeated lists steps that acted, or were completed, more than once.
	Repeated []string
	// Wrong lists all other breaches.
	Wrong []string
	// Stuck is the reason why the end was not reached, or "".
	Stuck string
}

// Bad reports whether there was a breach. An unknown outcome must be unknowable.
func (o Outcome) Bad() bool {
	return len(o.Lost)+len(o.Repeated)+len(o.Wrong) > 0 || o.Stuck != "" || o.Uncertain > o.Excused
}

// String returns the breaches, or "".
func (o Outcome) String() string {
	var parts []string
	for what, list := range map[string][]string{"lost": o.Lost, "repeated": o.Repeated, "wrong": o.Wrong} {
		if len(list) > 0 {
			parts = append(parts, what+": "+strings.Join(list, "; "))
		}
	}
	slices.Sort(parts)
	if o.Stuck != "" {
		parts = append(parts, "stuck: "+o.Stuck)
	}
	if o.Uncertain > o.Excused {
		parts = append(parts, fmt.Sprintf("%d outcomes are unknown, of which %d could not be known", o.Uncertain, o.Excused))
	}
	return strings.Join(parts, "; ")
}

// Breach records a breach.
func (c *Case) Breach(format string, args ...any) {
	c.Wrong = append(c.Wrong, fmt.Sprintf(format, args...))
}

// CountReceipts finds steps with more than one receipt in the journal.
func (c *Case) CountReceipts(receipts map[string]int) {
	for _, name := range slices.Sorted(maps.Keys(receipts)) {
		if n := receipts[name]; n > 1 {
			c.Repeated = append(c.Repeated, fmt.Sprintf("receipt of %s (%d times)", name, n))
		}
	}
}

// CompareTree compares the workspace with want, in bytes and modes. A leftover temporary
// file is a breach.
func (c *Case) CompareTree(want model.Tree) error {
	seen := map[string]bool{}
	missing := c.Folders()
	err := filepath.WalkDir(c.Workspace(), func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(c.Workspace(), at)
		if err != nil || name == "." {
			return err
		}
		if d.IsDir() {
			i := slices.Index(missing, name)
			if i < 0 {
				c.Breach("the directory %s must not exist", name)
				return nil
			}
			missing = slices.Delete(missing, i, i+1)
			return nil
		}
		seen[name] = true
		return c.CompareFile(at, name, want)
	})
	for name := range want {
		if err == nil && !seen[name] {
			c.Lost = append(c.Lost, "file "+name)
		}
	}
	for _, name := range missing {
		c.Lost = append(c.Lost, "directory "+name)
	}
	slices.Sort(c.Lost)
	if err != nil {
		return fmt.Errorf("walk workspace: %w", err)
	}
	return nil
}

// CompareFile compares the file at a path with the file called name in want.
func (c *Case) CompareFile(at, name string, want model.Tree) error {
	f, ok := want[name]
	if !ok {
		c.Breach("the file %s must not exist", name)
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
		c.Breach("%s has the mode %v, not %v", name, info.Mode(), f.Mode)
	case string(b) != f.Data:
		c.Breach("%s has wrong content (%d bytes)", name, len(b))
	}
	return nil
}
