package scene

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Query copies the database with its log and runs sqlite3 on the copy. It returns lines
// of fields separated by tabs. A missing database, or one without tables, counts as a
// store without sessions.
func (p Place) Query(ctx context.Context, sql string) (string, error) {
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
