package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/acode-dev/acode/config"
	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/workspace"
)

// base is what every command that looks at sessions needs: configuration, redaction, log.
type base struct {
	*app
	cfg       *config.Loaded
	redactor  *redact.Redactor
	log       *slog.Logger
	closeLog  func() error
	workspace string // absolute, without symlinks
}

// boot reads the configuration for the workspace in dir. flags are values that the command
// line sets, by key path.
func (a *app) boot(flags map[string]string) (*base, error) {
	dir, err := workspaceDir(a.dir)
	if err != nil {
		return nil, err
	}
	b := &base{app: a, workspace: dir}
	if b.cfg, err = loadConfig(a, dir, flags); err != nil {
		return nil, err
	}
	environ := os.Environ()
	b.redactor = redact.New(redact.FromEnvironment(environ))
	return b, nil
}

// workspaceDir gives the directory to work in, as the session will know it.
func workspaceDir(dir string) (string, error) {
	if dir == "" {
		dir = "."
	}
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", &session.Error{Code: session.ErrEnvironment, Message: "the working directory does not exist; nothing was changed", Place: dir, Cause: err,
			Next: "name a directory that exists with -C DIR"}
	}
	return abs, nil
}

func loadConfig(a *app, dir string, flags map[string]string) (*config.Loaded, error) {
	project, name, err := config.ReadProject(dir)
	if err != nil {
		return nil, err
	}
	user := a.config
	if user == "" {
		user = config.UserFile(a.getenv)
	}
	data, err := config.ReadUser(user, a.config != "")
	if err != nil {
		return nil, err
	}
	return config.Load(config.Sources{
		UserFile: user, UserData: data, ProjectFile: name, ProjectData: project,
		Getenv: a.getenv, Environ: os.Environ(), Flags: flags,
	})
}

// silent logs nothing: for commands that change no byte.
func (b *base) silent() {
	b.log = slog.New(slog.DiscardHandler)
	b.closeLog = func() error { return nil }
}

// logging opens the log.
func (b *base) logging() error {
	dir := b.cfg.Config.Log.Dir
	if dir == "" {
		dir = filepath.Join(b.home(), "log")
	}
	f, err := openLog(dir, b.cfg.Config.Log.MaxBytes, b.cfg.Config.Log.Keep)
	if err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(b.cfg.Config.Log.Level)); err != nil {
		return errors.Join(err, f.Close())
	}
	b.log = slog.New(slog.NewJSONHandler(b.redactor.Writer(f), &slog.HandlerOptions{Level: level}))
	b.closeLog = f.Close
	return nil
}

func (b *base) home() string { return b.cfg.Config.Store.Home }

func (b *base) options() local.Options {
	return local.Options{Home: b.home(), Now: b.now, Redactor: b.redactor, Version: version, Env: b.getenv, Keyring: b.cfg.Config.Key.Keyring}
}

// openRead opens the store for looking: it takes no lock and changes no byte.
func (b *base) openRead(ctx context.Context) (*local.Store, error) {
	return local.OpenRead(ctx, b.options())
}

// openWrite opens the store for changing it, and the log with it.
func (b *base) openWrite(ctx context.Context) (*local.Store, error) {
	if err := b.guardHome(); err != nil {
		return nil, err
	}
	s, err := local.Open(ctx, b.options())
	if err != nil {
		return nil, err
	}
	if err := b.logging(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// guardHome refuses a workspace that must not be one, and a store inside the workspace: the
// workspace's own tools could reach it there.
func (b *base) guardHome() error {
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	allowed := append(append([]string{}, b.allow...), b.cfg.Config.Workspace.Allow...)
	if err := workspace.Refuse(b.workspace, home, allowed); err != nil {
		return err
	}
	store := b.home()
	if real, err := filepath.EvalSymlinks(store); err == nil {
		store = real
	}
	if rel, err := filepath.Rel(b.workspace, store); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") && !b.isAllowed(allowed) {
		return &session.Error{Code: session.ErrWorkspace, Message: "the store lies inside the workspace, where its own steps could reach it; nothing was changed", Place: store,
			Next: "set ACODE_HOME to a directory outside " + b.workspace}
	}
	return nil
}

func (b *base) isAllowed(allowed []string) bool {
	for _, a := range allowed {
		if real, err := filepath.EvalSymlinks(a); err == nil && real == b.workspace {
			return true
		}
	}
	return false
}

// The places below home that are not the store's own.

func (b *base) lockFile(id session.ID) string {
	return filepath.Join(b.home(), "locks", string(id)+".lock")
}

func (b *base) commandDir(id session.ID) string {
	return filepath.Join(b.home(), "commands", string(id))
}

// workspaceLocks is the directory of the two lock files of one workspace.
func workspaceLocks(home, dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join(home, "locks", "workspace-"+hex.EncodeToString(sum[:8]))
}
