package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// moduleDir returns the directory of the sources.
func moduleDir(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find module: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// build builds acode at a path and acode-agent beside it, with the files of an overlay
// instead of the sources.
func build(ctx context.Context, at string, overlay []byte) error {
	dir, err := moduleDir(ctx)
	if err != nil {
		return err
	}
	args := []string{"build", "-o", at}
	if overlay != nil {
		name := at + ".overlay.json"
		if err := os.WriteFile(name, overlay, 0o600); err != nil {
			return fmt.Errorf("write overlay: %w", err)
		}
		args = append(args, "-overlay", name)
	}
	for _, program := range []string{"acode", "acode-agent"} {
		args[2] = filepath.Join(filepath.Dir(at), program)
		cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/"+program)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w: %s", program, err, out)
		}
	}
	return nil
}
