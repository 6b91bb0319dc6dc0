// Package app starts, resumes, decides, cancels, shows and verifies sessions. It opens
// the store, takes the locks and connects the use cases with their adapters.
//
// A door is the side that a person or a program uses. It turns input into calls of this
// package, and shows the results. Package app knows no flag, terminal or exit status. It
// reports events as session.Notice values, and asks a Person for decisions that only a
// person may make.
package app

import (
	"context"
	"errors"
	"log/slog"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/acode-dev/acode/config"
	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
)

// Setup names the store, the workspace and the environment of a Site.
type Setup struct {
	// Settings are the settings in effect.
	Settings *config.Loaded
	// Load reads the settings for another workspace.
	Load func(workspace string) (*config.Loaded, error)
	// Workspace is absolute and without symbolic links; empty means none yet.
	Workspace string
	// Allow lists accepted workspaces beside those in Settings.
	Allow    []string
	Redactor *redact.Redactor
	// KeepLog writes a log; without it log records are dropped.
	KeepLog bool
	// Version is the version of this program.
	Version string
	// Command is the command line of this process, shown to others who ask for the holder
	// of a lock.
	Command string

	// Supervisor is the program that supervises commands: an absolute path, or empty for
	// this program.
	Supervisor string

	// Agent is the confinement of an agent's commands; empty means Confined.
	Agent session.Confinement

	// Talks is nil if this program does not execute prompt steps.
	Talks *Talks

	// Deliver returns the command line of the process that delivers in the background if
	// a server is configured. A nil Deliver starts none.
	Deliver func() ([]string, error)

	// Apart returns the process for StartApart and ResumeApart. That process prints one
	// line of JSON at its end.
	Apart func(Apart) (*exec.Cmd, error)

	Now    func() time.Time
	Getenv func(string) string
}

// Site is an open store and a workspace. Only one goroutine may use it. The caller must
// close it.
type Site struct {
	Setup
	// Log is never nil, and secrets are masked in it.
	Log *slog.Logger

	store    *local.Store
	closeLog func() error
	// locks of the session that is executed
	locks []release
}

type release interface{ Release() error }

// Open opens the store for changes. It creates the store if it does not exist.
func Open(ctx context.Context, setup Setup) (*Site, error) {
	store, err := local.Open(ctx, setup.options())
	if err != nil {
		return nil, err
	}
	s := newSite(setup, store)
	if !setup.KeepLog {
		return s, nil
	}
	if s.Log, s.closeLog, err = setup.openLog(); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return s, nil
}

// OpenRead opens the store for reading. It takes no lock and changes no byte. It returns
// ErrUnknownID if there is no store.
func OpenRead(ctx context.Context, setup Setup) (*Site, error) {
	store, err := local.OpenRead(ctx, setup.options())
	if err != nil {
		return nil, err
	}
	return newSite(setup, store), nil
}

func newSite(setup Setup, store *local.Store) *Site {
	return &Site{Setup: setup, store: store, Log: slog.New(slog.DiscardHandler), closeLog: func() error { return nil }}
}

// OpenOwn opens the store to continue the session that ref names, in that session's own
// workspace instead of the current directory. With look it opens the store for reading
// only.
func OpenOwn(ctx context.Context, setup Setup, ref string, look bool) (*Site, error) {
	open := Open
	if look {
		open = OpenRead
	}
	s, err := open(ctx, setup)
	if err != nil {
		return nil, err
	}
	err = s.enterOwn(ctx, ref)
	if err == nil && !look {
		err = s.Guard()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close closes the store and the log, then releases the locks of the executed session.
func (s *Site) Close() error {
	errs := []error{s.store.Close(), s.closeLog()}
	for _, l := range s.locks {
		errs = append(errs, l.Release())
	}
	return errors.Join(errs...)
}

// Store returns the store, for the program that delivers from it.
func (s *Site) Store() *local.Store { return s.store }

func (s *Setup) options() local.Options {
	return local.Options{Home: s.home(), Now: s.Now, Redactor: s.Redactor, Version: s.Version, Env: s.Getenv, Keyring: s.Settings.Config.Key.Keyring}
}

// Learn adds the values of secret variables to the redactor. These are the variables that
// p sets for its commands under secret names.
func (s *Setup) Learn(p *session.Plan) {
	var environ []string
	for _, step := range p.All() {
		if step.Run == nil {
			continue
		}
		for name, value := range step.Run.Env {
			environ = append(environ, name+"="+value)
		}
	}
	s.Redactor.Learn(redact.FromEnvironment(environ))
}

// Find returns the session that ref names.
func (s *Site) Find(ctx context.Context, ref string) (session.ID, error) {
	return s.store.Find(ctx, ref)
}

// Paths below home that package local does not use.

func (s *Setup) home() string { return s.Settings.Config.Store.Home }

func (s *Setup) lockFile(id session.ID) string {
	return filepath.Join(s.home(), "locks", string(id)+".lock")
}

func (s *Setup) commandDir(id session.ID) string {
	return filepath.Join(s.home(), "commands", string(id))
}

// commandLine is the description of this process in lock files.
func (s *Setup) commandLine() string { return s.Redactor.String(s.Command) }
