package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/config"
	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
)

// setup reads the configuration for the workspace that -C names, else the current
// directory. flags are values that the command line sets, by key path; nil for none.
func (i *Invocation) setup(flags map[string]string) (app.Setup, error) {
	dir, err := app.Directory(i.dir)
	if err != nil {
		return app.Setup{}, err
	}
	return i.setupIn(dir, flags)
}

// setupIn reads the configuration for the workspace dir, or what holds in every workspace
// when dir is empty.
func (i *Invocation) setupIn(dir string, flags map[string]string) (app.Setup, error) {
	if i.timeout < 0 {
		return app.Setup{}, &session.Error{Code: session.ErrUsage, Message: fmt.Sprintf("--timeout=%s: must not be negative; nothing was changed", i.timeout)}
	}
	load := func(dir string) (*config.Loaded, error) { return i.loadConfig(dir, flags) }
	cfg, err := load(dir)
	if err != nil {
		return app.Setup{}, err
	}
	secrets := redact.FromEnvironment(append(os.Environ(), "url="+cfg.Config.Sync.URL)) // the file may hold a password too
	return app.Setup{
		Settings: cfg, Load: load, Workspace: dir, Allow: i.allow, Redactor: redact.New(secrets), KeepLog: true,
		Version: Version, Command: "acode " + strings.Join(os.Args[1:], " "), Deliver: i.drainer, Now: i.Now, Getenv: i.getenv,
	}, nil
}

// loadConfig reads the layers; an empty dir has no project's.
func (i *Invocation) loadConfig(dir string, flags map[string]string) (*config.Loaded, error) {
	var project []byte
	var name string
	var err error
	if dir != "" {
		if project, name, err = config.ReadProject(dir); err != nil {
			return nil, err
		}
	}
	user := i.config
	if user == "" {
		user = config.UserFile(i.getenv)
	}
	data, err := config.ReadUser(user, i.config != "")
	if err != nil {
		return nil, err
	}
	return config.Load(config.Sources{
		UserFile: user, UserData: data, ProjectFile: name, ProjectData: project,
		Getenv: i.getenv, Environ: os.Environ(), Flags: flags,
	})
}

// openFor opens the store to continue the session that ref names, or one of this
// workspace when ref is empty; look opens it for looking only. Without -C a named session
// continues in its own workspace.
func (i *Invocation) openFor(ctx context.Context, ref string, look bool, flags map[string]string) (*app.Site, error) {
	if ref != "" && i.dir == "" {
		setup, err := i.setupIn("", flags) // where the store lies is the same for every workspace
		if err != nil {
			return nil, err
		}
		return app.OpenOwn(ctx, setup, ref, look)
	}
	setup, err := i.setup(flags)
	if err != nil {
		return nil, err
	}
	if look {
		return app.OpenRead(ctx, setup)
	}
	if err := setup.Guard(); err != nil {
		return nil, err
	}
	return app.Open(ctx, setup)
}

// with wraps a command that opens the store for f.
func (i *Invocation) with(open func(context.Context, app.Setup) (*app.Site, error), f func(context.Context, *app.Site, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		setup, err := i.setup(nil)
		if err != nil {
			return err
		}
		s, err := open(cmd.Context(), setup)
		if err != nil {
			return err
		}
		return errors.Join(f(cmd.Context(), s, args), s.Close())
	}
}

// reading wraps a command that only looks. ref is its first argument; empty when there is
// none.
func (i *Invocation) reading(f func(ctx context.Context, s *app.Site, ref string) error) func(*cobra.Command, []string) error {
	return i.with(app.OpenRead, func(ctx context.Context, s *app.Site, args []string) error { return f(ctx, s, strings.Join(args, "")) })
}

// refusedEarly logs an attempt to resume that ended before its store was open.
func (i *Invocation) refusedEarly(ref string, err error) {
	setup, serr := i.setupIn("", nil)
	if serr != nil { // the configuration is what was refused: the log is where it is without one
		cfg, cerr := config.Load(config.Sources{Getenv: func(name string) string {
			if strings.HasPrefix(name, "ACODE_") && name != "ACODE_HOME" {
				return ""
			}
			return i.getenv(name)
		}})
		if cerr != nil {
			return
		}
		setup = app.Setup{Settings: cfg, Redactor: redact.New(redact.FromEnvironment(os.Environ()))}
	}
	setup.LogRefused(ref, err)
}
