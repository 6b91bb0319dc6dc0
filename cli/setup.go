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

// setup reads the configuration for the workspace that -C names, or else the current
// directory. flags hold values from the command line by key path; nil for none.
func (i *Invocation) setup(flags map[string]string) (app.Setup, error) {
	dir, err := app.Directory(i.dir)
	if err != nil {
		return app.Setup{}, err
	}
	return i.setupIn(dir, flags)
}

// setupIn reads the configuration for the workspace dir. An empty dir gives the
// configuration that applies in every workspace.
func (i *Invocation) setupIn(dir string, flags map[string]string) (app.Setup, error) {
	if i.timeout < 0 {
		return app.Setup{}, &session.Error{Code: session.ErrUsage, Message: fmt.Sprintf("--timeout=%s: must not be negative; nothing was changed", i.timeout)}
	}
	load := func(dir string) (*config.Loaded, error) { return i.loadConfig(dir, flags) }
	cfg, err := load(dir)
	if err != nil {
		return app.Setup{}, err
	}
	supervisor := ""
	if i.Talks != nil {
		if supervisor, err = Supervisor(); err != nil {
			return app.Setup{}, err
		}
	}
	// The file may hold a password too.
	secrets := redact.FromEnvironment(append(os.Environ(), "url="+cfg.Config.Sync.URL))
	for _, m := range cfg.Config.Models {
		secrets = append(secrets, i.getenv(m.KeyName)) // its name may not say that it is one
	}
	return app.Setup{
		Settings: cfg, Load: load, Workspace: dir, Allow: i.allow, Redactor: redact.New(secrets), KeepLog: true,
		Version: Version, Command: "acode " + strings.Join(os.Args[1:], " "), Supervisor: supervisor, Talks: i.Talks, Deliver: i.drainer, Now: i.Now, Getenv: i.getenv,
	}, nil
}

// loadConfig reads the layers of the configuration; an empty dir has no project layer.
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

// openFor opens the store to continue the session that ref names, or a session of this
// workspace when ref is empty. look opens it for reading. Without -C a named session
// continues in its own workspace.
func (i *Invocation) openFor(ctx context.Context, ref string, look bool, flags map[string]string) (*app.Site, error) {
	if ref != "" && i.dir == "" {
		// The store has the same place for every workspace.
		setup, err := i.setupIn("", flags)
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

// with returns a command that opens the store with open and calls f.
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

// reading returns a command that only reads the store. ref is its first argument; empty
// when there is none.
func (i *Invocation) reading(f func(ctx context.Context, s *app.Site, ref string) error) func(*cobra.Command, []string) error {
	return i.with(app.OpenRead, func(ctx context.Context, s *app.Site, args []string) error { return f(ctx, s, strings.Join(args, "")) })
}

// refusedEarly logs an attempt to resume that ended before its store was open.
func (i *Invocation) refusedEarly(ref string, err error) {
	setup, serr := i.setupIn("", nil)
	// The error may come from the configuration: the log is then at its default place.
	if serr != nil {
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
