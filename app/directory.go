package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"unicode/utf8"

	"github.com/acode-dev/acode/config"
	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/subtree"
	"github.com/acode-dev/acode/workspace"
)

// Directory returns the absolute path of dir as sessions record it. An empty dir is the
// current directory.
func Directory(dir string) (string, error) {
	if dir == "" {
		dir = "."
	}
	abs, err := realDir(dir)
	if err != nil {
		what, next := unusable(err)
		return "", &session.Error{Code: session.ErrEnvironment, Message: "the working directory " + what + "; nothing was changed", Place: dir, Cause: err, Next: session.Then(next, session.MoveWorkIn, "")}
	}
	return abs, nil
}

// realDir returns the absolute path, without symbolic links, of a directory that can be
// entered and read.
func realDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", err
	}
	f, err := os.Open(abs + "/.")
	if err != nil {
		return "", err
	}
	return abs, f.Close()
}

// unusable returns words for the problem err of a directory, and for the next step.
func unusable(err error) (what, next string) {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "does not exist", "name a directory that exists, with"
	case errors.Is(err, syscall.ENOTDIR):
		return "is not a directory", "name a directory, with"
	case errors.Is(err, fs.ErrPermission):
		return "may not be entered", "give yourself the right to read and enter it, or name another directory, with"
	}
	return "cannot be used", "name another directory, with"
}

// enterOwn sets the workspace to that of the session that ref names.
func (s *Site) enterOwn(ctx context.Context, ref string) error {
	id, err := s.findToResume(ctx, ref)
	if err != nil {
		return err
	}
	recorded, short, err := s.store.Workspace(ctx, id) // the workspace of the last execution
	if err != nil {
		return err
	}
	if s.Workspace, err = realDir(recorded); err != nil {
		if sess, verr := s.store.View(ctx, id); verr == nil && sess.State.Terminal() { // a session that is over needs no workspace
			return resume.Allowed(sess)
		}
		what, _ := unusable(err)
		return &session.Error{Code: session.ErrEnvironment, Message: "the workspace of session " + short + " " + what + "; nothing was changed", Place: recorded, Cause: err,
			Next: session.Then("name the directory where it is now", session.MoveResumeIn, short)}
	}
	s.Settings, err = s.Load(s.Workspace)
	return err
}

// Guard refuses a workspace that acode must not work in, and a store inside the
// workspace: the session's own commands could reach the store there.
func (s *Setup) Guard() error {
	allowed := slices.Concat(s.Allow, s.Settings.Config.Workspace.Allow)
	if err := workspace.Refuse(s.Workspace, config.UserDir(s.Getenv), allowed); err != nil {
		return err
	}
	if !utf8.ValidString(s.Workspace) {
		return &session.Error{Code: session.ErrWorkspace, Message: "the path of the workspace is not valid UTF-8, so acode could not find its sessions again; nothing was changed", Place: s.Workspace,
			Next: session.Words("rename the directory, or work in another one")}
	}
	if s.Settings.Config.Sandbox == string(session.Confined) {
		if _, err := s.SandboxMode(); err != nil {
			return err
		}
	}
	store := subtree.Resolved(s.home())
	if s.Workspace != store && subtree.Within(store, s.Workspace) {
		return &session.Error{Code: session.ErrWorkspace, Message: "the workspace lies inside the store, whose files its own steps could reach; nothing was changed", Place: s.Workspace,
			Next: session.Words("work in a directory outside " + store)}
	}
	if subtree.Within(s.Workspace, store) && !s.isAllowed(allowed) {
		return &session.Error{Code: session.ErrWorkspace, Message: "the store lies inside the workspace, where its own steps could reach it; nothing was changed", Place: store,
			Next: session.Words("set ACODE_HOME to a directory outside " + s.Workspace)}
	}
	return nil
}

func (s *Setup) isAllowed(allowed []string) bool {
	return slices.ContainsFunc(allowed, func(dir string) bool {
		named, err := filepath.Abs(dir)
		return err == nil && subtree.Resolved(named) == s.Workspace
	})
}

// workspaceLocks returns the directory with the lock files of the workspace dir.
func (s *Setup) workspaceLocks(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join(s.home(), "locks", "workspace-"+hex.EncodeToString(sum[:8]))
}
