package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/acode-dev/acode/workspace"
)

// environments compares a scan of an unchanged workspace with git status.
func (b *bench) environments(ctx context.Context) error {
	for _, n := range []struct{ files, runs int }{{1000, 40}, {10000, 20}, {100000, 7}} {
		dir, err := b.place(fmt.Sprintf("environment-%d", n.files))
		if err != nil {
			return err
		}
		if err := makeFiles(ctx, dir, n.files); err != nil {
			return err
		}
		own, both, git, err := lookAt(ctx, dir, n.runs)
		if err != nil {
			return err
		}
		b.report.ratio(fmt.Sprintf("environment check, %d files: own scan / git status", n.files), own, git, 1.2)
		b.report.ratio("… with HEAD and dirty state / git status", both, git, 2.2)
		if n.files == 10000 {
			b.report.times("environment validation, 10,000 files, with git", both, 1000, 2000, "target, maximum")
		}
	}
	return nil
}

// makeFiles makes a repository of n files, a hundred in each directory. All files are old
// enough for a resume to trust their times.
func makeFiles(ctx context.Context, dir string, n int) error {
	old := now().Add(-time.Hour)
	for i := range n {
		at := filepath.Join(dir, fmt.Sprintf("d%02d", i/10000), fmt.Sprintf("d%02d", i/100%100), fmt.Sprintf("f%02d.go", i%100))
		if i%100 == 0 {
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				return err
			}
		}
		if err := errors.Join(os.WriteFile(at, fmt.Appendf(nil, "package p%d\n", i), 0o644), os.Chtimes(at, old, old)); err != nil {
			return err
		}
	}
	return makeRepository(ctx, dir)
}

// lookAt measures acode's own scan, the same scan with git's state, and git status, in
// turn.
func lookAt(ctx context.Context, dir string, runs int) (own, both, git sample, err error) {
	<-time.After(settling)
	m, err := manifest(ctx, dir)
	if err != nil {
		return nil, nil, nil, err
	}
	for range runs {
		err := errors.Join(
			own.timed(func() error { return compare(ctx, dir, m) }),
			git.timed(func() error { return status(ctx, dir) }),
			both.timed(func() error {
				if _, err := workspace.GitState(ctx, dir); err != nil {
					return err
				}
				return compare(ctx, dir, m)
			}))
		if err != nil {
			return nil, nil, nil, err
		}
	}
	return own, both, git, nil
}

func manifest(ctx context.Context, dir string) ([]byte, error) {
	root, err := workspace.Open(dir, now)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	m, err := root.Scan(ctx, nil, nil)
	if err != nil {
		return nil, err
	}
	return m.Encode(), nil
}

// compare does the work that a resume does with a stored manifest.
func compare(ctx context.Context, dir string, data []byte) error {
	m, err := workspace.DecodeManifest(data)
	if err != nil {
		return err
	}
	root, err := workspace.Open(dir, now)
	if err != nil {
		return err
	}
	defer root.Close()
	changed, unchecked, err := root.Changes(ctx, nil, nil, m)
	if len(changed)+len(unchecked) > 0 {
		return fmt.Errorf("%d files changed and %d were not checked, want none", len(changed), len(unchecked))
	}
	return err
}

func status(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, "git", "status", "--porcelain")
	cmd.Dir = dir
	return cmd.Run()
}
