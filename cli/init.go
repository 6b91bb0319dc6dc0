package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

func (i *Invocation) initCommand() *cobra.Command {
	return &cobra.Command{
		Use: "init", Short: "Write a first plan and a configuration, with comments", Args: cobra.NoArgs,
		Long: "Write plan.yml and .agent/config.yml into the current directory, or into the one that -C names.\nBoth explain themselves in comments, and the plan runs as it is. An existing file is never\noverwritten: if there is one, nothing is written.",
		RunE: func(*cobra.Command, []string) error { return i.start() },
	}
}

// start writes the first files of a project. When one cannot be written, none remains.
func (i *Invocation) start() error {
	dir, err := app.Directory(i.dir)
	if err != nil {
		return err
	}
	if err := writeStart(dir, startFiles()); err != nil {
		return err
	}
	names := []string{}
	for _, f := range startFiles() {
		names = append(names, filepath.Join(dir, f.path))
	}
	if i.JSON {
		return terminal.JSON(i.Out, map[string]any{"v": 1, "files": names})
	}
	for at, f := range startFiles() {
		if _, err := fmt.Fprintf(i.Out, "Wrote %s: %s\n", terminal.Clean(names[at]), f.about); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(i.Out, "Next: acode run "+terminal.Clean(session.ShellQuote(i.shown(names[0]))))
	return err
}

// shown returns a path relative to the current directory when it is inside it.
func (i *Invocation) shown(path string) string {
	if here, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(here, path); err == nil && filepath.IsLocal(rel) {
			return rel
		}
	}
	return path
}

// writeStart writes files into dir and never outside it. When a file cannot be written,
// it removes the files that it wrote.
func writeStart(dir string, files []startFile) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return notStarted(dir, err)
	}
	defer func() { _ = root.Close() }() // each file is closed
	wrote := []string{}
	defer func() {
		if err != nil {
			for _, path := range wrote {
				_ = root.Remove(path) // the returned error names the first failure
			}
		}
	}()
	for _, f := range files {
		if parent := filepath.Dir(f.path); parent != "." {
			if err := root.Mkdir(parent, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
				return notStarted(filepath.Join(dir, parent), err)
			}
		}
		place := filepath.Join(dir, f.path)
		out, err := root.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) {
			return &session.Error{Code: session.ErrUsage, Message: "the file exists and is not overwritten; nothing was written", Place: place,
				Next: session.Then("move it away, or name another directory, with", session.MoveWorkIn, "")}
		}
		if err != nil {
			return notStarted(place, err)
		}
		wrote = append(wrote, f.path)
		_, err = out.WriteString(f.content)
		if err = errors.Join(err, out.Close()); err != nil {
			return notStarted(place, err)
		}
	}
	return nil
}

func notStarted(place string, err error) error {
	return &session.Error{Code: session.ErrWorkspace, Message: "cannot write the first files; nothing was left behind", Place: place, Cause: err,
		Next: session.Then("make the directory writable, or name another one, with", session.MoveWorkIn, "")}
}
