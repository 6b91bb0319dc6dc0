package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/acode-dev/acode/config"
	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/workspace"
)

// base is what every command that looks at sessions needs: configuration, redaction, log.
type base struct {
	*app
	cfg       *config.Loaded
	flags     map[string]string // what the command line sets, by key path
	redactor  *redact.Redactor
	log       *slog.Logger
	closeLog  func() error
	workspace string // absolute, without symlinks
}

// boot reads the configuration for the workspace that -C names, else the current directory.
// flags are values that the command line sets, by key path; nil for none.
func (a *app) boot(flags map[string]string) (*base, error) {
	dir, err := workspaceDir(a.dir)
	if err != nil {
		return nil, err
	}
	return a.bootIn(dir, flags)
}

// bootIn reads the configuration for the workspace dir, or what holds in every workspace when
// dir is empty.
func (a *app) bootIn(dir string, flags map[string]string) (*base, error) {
	if a.timeout < 0 {
		return nil, &session.Error{Code: session.ErrUsage, Message: fmt.Sprintf("--timeout=%s: must not be negative; nothing was changed", a.timeout)}
	}
	cfg, err := loadConfig(a, dir, flags)
	if err != nil {
		return nil, err
	}
	secrets := redact.FromEnvironment(append(os.Environ(), "url="+cfg.Config.Sync.URL)) // the file may hold a password too
	return &base{app: a, workspace: dir, flags: flags, cfg: cfg, redactor: redact.New(secrets)}, nil
}

// learn makes secrets of what p was known to hold when its session began, and of the variables with
// telling names that it gives to its commands.
func (b *base) learn(p *session.Plan) {
	var environ []string
	for i := range p.Tasks {
		for _, step := range p.Tasks[i].Steps {
			if step.Run == nil {
				continue
			}
			for name, value := range step.Run.Env {
				environ = append(environ, name+"="+value)
			}
		}
	}
	b.redactor.Learn(append(redact.FromEnvironment(environ), p.Secrets...))
}

// bootFor boots to go on with the session that ref names, or one of this workspace when ref is
// empty, and opens the store; look opens it for looking only. Without -C a named session goes
// on in its own workspace: the directory that a person happens to stand in is not one they chose.
func (a *app) bootFor(ctx context.Context, ref string, look bool, flags map[string]string) (*base, *local.Store, error) {
	if ref == "" || a.dir != "" {
		b, err := a.boot(flags)
		if err == nil && !look {
			err = b.guardHome()
		}
		if err != nil {
			return nil, nil, err
		}
		s, err := b.open(ctx, look)
		return b, s, err
	}
	b, err := a.bootIn("", flags) // where the store lies is the same for every workspace
	if err != nil {
		return nil, nil, err
	}
	s, err := b.open(ctx, look)
	if err != nil {
		return nil, nil, err
	}
	err = b.enterOwn(ctx, s, ref)
	if err == nil && !look {
		err = b.guardHome()
	}
	if err != nil {
		return nil, nil, errors.Join(err, s.Close(), b.closeLog())
	}
	return b, s, nil
}

// enterOwn makes the workspace of the session that ref names the one to work in.
func (b *base) enterOwn(ctx context.Context, s *local.Store, ref string) error {
	dir, err := ownWorkspace(ctx, s, ref)
	if err != nil {
		return err
	}
	b.workspace = dir
	b.cfg, err = loadConfig(b.app, dir, b.flags)
	return err
}

// ownWorkspace is where the session that ref names was executed last.
func ownWorkspace(ctx context.Context, s *local.Store, ref string) (string, error) {
	id, err := find(ctx, s, ref, true)
	if err != nil {
		return "", err
	}
	recorded, short, err := s.Workspace(ctx, id)
	if err != nil {
		return "", err
	}
	dir, err := realDir(recorded)
	if err != nil {
		if sess, verr := s.View(ctx, id); verr == nil && sess.State.Terminal() { // wherever its workspace is now
			return "", resume.Allowed(sess)
		}
		what, _ := unusable(err)
		return "", &session.Error{Code: session.ErrEnvironment, Message: "the workspace of session " + short + " " + what + "; nothing was changed", Place: recorded, Cause: err,
			Next: "acode resume " + short + " -C DIR, where DIR is where it is now"}
	}
	return dir, nil
}

// workspaceDir gives the directory to work in, as the session will know it.
func workspaceDir(dir string) (string, error) {
	if dir == "" {
		dir = "."
	}
	abs, err := realDir(dir)
	if err != nil {
		what, next := unusable(err)
		return "", &session.Error{Code: session.ErrEnvironment, Message: "the working directory " + what + "; nothing was changed", Place: dir, Cause: err, Next: next}
	}
	return abs, nil
}

// realDir gives the absolute path, without symbolic links, of a directory that can be entered
// and read.
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

// unusable says what err makes of a directory, and what to do about it.
func unusable(err error) (what, next string) {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "does not exist", "name a directory that exists with -C DIR"
	case errors.Is(err, syscall.ENOTDIR):
		return "is not a directory", "name a directory with -C DIR"
	case errors.Is(err, fs.ErrPermission):
		return "may not be entered", "give yourself the right to read and enter it, or name another directory with -C DIR"
	}
	return "cannot be used", "name another directory with -C DIR"
}

// loadConfig reads the layers; an empty dir has no project's.
func loadConfig(a *app, dir string, flags map[string]string) (*config.Loaded, error) {
	var project []byte
	var name string
	var err error
	if dir != "" {
		if project, name, err = config.ReadProject(dir); err != nil {
			return nil, err
		}
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

// refused logs an attempt to resume that ended before its session was in hand (NFR-014).
func (b *base) refused(id string, err error) {
	b.log.Warn("resume refused", "event", "session_resume_refused", "session_id", id, "code", string(session.CodeOf(err)), "error", err.Error())
}

func (b *base) home() string { return b.cfg.Config.Store.Home }

func (b *base) options() local.Options {
	return local.Options{Home: b.home(), Now: b.now, Redactor: b.redactor, Version: version, Env: b.getenv, Keyring: b.cfg.Config.Key.Keyring}
}

func (b *base) open(ctx context.Context, look bool) (*local.Store, error) {
	if look {
		b.silent()
		return b.openRead(ctx)
	}
	return b.openWrite(ctx)
}

// openRead opens the store for looking: it takes no lock and changes no byte.
func (b *base) openRead(ctx context.Context) (*local.Store, error) {
	return local.OpenRead(ctx, b.options())
}

// openWrite opens the store for changing it, and the log with it.
func (b *base) openWrite(ctx context.Context) (*local.Store, error) {
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
	allowed := append(append([]string{}, b.allow...), b.cfg.Config.Workspace.Allow...)
	if err := workspace.Refuse(b.workspace, config.UserDir(b.getenv), allowed); err != nil {
		return err
	}
	if !utf8.ValidString(b.workspace) {
		return &session.Error{Code: session.ErrWorkspace, Message: "the path of the workspace is no valid UTF-8, so no session there could be found again; nothing was changed", Place: b.workspace,
			Next: "rename the directory, or work in another one"}
	}
	store := resolved(b.home())
	if b.workspace != store && within(store, b.workspace) {
		return &session.Error{Code: session.ErrWorkspace, Message: "the workspace lies inside the store, whose files its own steps could reach; nothing was changed", Place: b.workspace,
			Next: "work in a directory outside " + store}
	}
	if within(b.workspace, store) && !b.isAllowed(allowed) {
		return &session.Error{Code: session.ErrWorkspace, Message: "the store lies inside the workspace, where its own steps could reach it; nothing was changed", Place: store,
			Next: "set ACODE_HOME to a directory outside " + b.workspace}
	}
	return nil
}

// within reports whether path is dir or lies below it.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// resolved gives path without symbolic links, as far as it exists: a store is looked for before it is made.
func resolved(path string) string {
	for dir, rest := path, ""; ; dir, rest = filepath.Dir(dir), filepath.Join(filepath.Base(dir), rest) {
		if real, err := filepath.EvalSymlinks(dir); err == nil || dir == filepath.Dir(dir) {
			return filepath.Join(real, rest)
		}
	}
}

func (b *base) isAllowed(allowed []string) bool {
	return slices.ContainsFunc(allowed, func(dir string) bool {
		named, err := filepath.Abs(dir)
		return err == nil && resolved(named) == b.workspace
	})
}

// The places below home that are not the store's own.

func (b *base) lockFile(id session.ID) string {
	return filepath.Join(b.home(), "locks", string(id)+".lock")
}

func (b *base) commandDir(id session.ID) string {
	return filepath.Join(b.home(), "commands", string(id))
}

// workspaceLocks is the directory of the lock files of one workspace.
func workspaceLocks(home, dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join(home, "locks", "workspace-"+hex.EncodeToString(sum[:8]))
}
