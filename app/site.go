// Package app is what can be done with sessions: start, resume, decide, cancel, look,
// verify. It opens the store, takes the locks and wires the use cases to their adapters.
//
// The doors, which a person or a program comes in by, turn words into calls of this
// package and what it says into words. It knows no flag, terminal or exit status. What
// happens goes out as a session.Notice, and what only a person may decide is asked of a
// Person.
package app

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/acode-dev/acode/config"
	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
)

// Setup says which store to open, for work in which workspace, and for whom.
type Setup struct {
	// those in effect
	Settings *config.Loaded
	// reads those of another workspace
	Load func(workspace string) (*config.Loaded, error)
	// absolute, without symbolic links; empty: none yet
	Workspace string
	// workspaces that are accepted beside those of Settings
	Allow    []string
	Redactor *redact.Redactor
	// else what belongs into the log is dropped
	KeepLog bool
	// of this program
	Version string
	// what started this process, for those who look who holds a lock
	Command string

	// Deliver gives the command line of the process that delivers beside a session, where
	// a server is configured; nil: none does.
	Deliver func() ([]string, error)

	Now    func() time.Time
	Getenv func(string) string
}

// Site is a store that is open, and a workspace. It is for one goroutine. Close it.
type Site struct {
	Setup
	// never nil; secrets do not reach it
	Log *slog.Logger

	store    *local.Store
	closeLog func() error
	// of the session that is executed
	locks []release
}

type release interface{ Release() error }

// Open opens the store for changing it. A store that is not there is made.
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

// OpenRead opens the store for looking: it takes no lock and changes no byte. It returns
// ErrUnknownID where there is no store.
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

// OpenOwn opens the store to continue the session that ref names in that session's own
// workspace: the current directory is not one that a person chose. look opens it for
// looking only.
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

// Close closes store and log, and gives back the locks of the session that was executed,
// last.
func (s *Site) Close() error {
	errs := []error{s.store.Close(), s.closeLog()}
	for _, l := range s.locks {
		errs = append(errs, l.Release())
	}
	return errors.Join(errs...)
}

// Store is the store of record, for the program that delivers from it.
func (s *Site) Store() *local.Store { return s.store }

func (s *Setup) options() local.Options {
	return local.Options{Home: s.home(), Now: s.Now, Redactor: s.Redactor, Version: s.Version, Env: s.Getenv, Keyring: s.Settings.Config.Key.Keyring}
}

// Learn makes secrets of the variables with telling names that p gives to its commands.
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

// Find gives the session that ref names.
func (s *Site) Find(ctx context.Context, ref string) (session.ID, error) {
	return s.store.Find(ctx, ref)
}

// The places below home that are not the store's own.

func (s *Setup) home() string { return s.Settings.Config.Store.Home }

func (s *Setup) lockFile(id session.ID) string {
	return filepath.Join(s.home(), "locks", string(id)+".lock")
}

func (s *Setup) commandDir(id session.ID) string {
	return filepath.Join(s.home(), "commands", string(id))
}

// commandLine is what the lock file tells others about this process.
func (s *Setup) commandLine() string { return s.Redactor.String(s.Command) }
