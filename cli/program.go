package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/config"
	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/lock"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

// Delivery carries out the command line of the program that delivers: the flags, configuration,
// store, errors and exit statuses are acode's, the commands are the caller's.
func Delivery(ctx context.Context, args []string, commands func(*Host) []*cobra.Command) int {
	ownFiles()
	a := newApp()
	root := a.bare()
	root.AddCommand(commands(&Host{a})...)
	return a.carryOut(ctx, root, args)
}

// Host gives a command of another program what all commands share.
type Host struct{ a *app }

// Version is that of both programs.
func (h *Host) Version() string { return version }

// Spelled gives text, which tells a person what to type, with the flags that were typed here.
func (h *Host) Spelled(text string) string { return h.a.spelled(text) }

// JSON reports whether output is for scripts.
func (h *Host) JSON() bool { return h.a.json }

// Out is where results go.
func (h *Host) Out() io.Writer { return h.a.io.out }

// Err is where everything else goes.
func (h *Host) Err() *os.File { return h.a.io.err }

// Now is the clock.
func (h *Host) Now() time.Time { return h.a.now() }

// Confirm asks a person to type what is named. With nobody to ask it is an error.
func (h *Host) Confirm(what, typed string) error {
	if typed == what {
		return nil
	}
	if !h.a.interactive() {
		return &session.Error{Code: session.ErrUsage, Message: "this must be confirmed, and nobody can be asked; nothing was changed", Next: "add --confirm=" + session.ShellQuote(what)}
	}
	yes, err := unlessEnded(terminal.Confirm(h.a.io.in, h.a.io.err, what))
	if err == nil && !yes {
		err = &session.Error{Code: session.ErrUsage, Message: "not confirmed; nothing was changed"}
	}
	return err
}

// Exit ends the program with a status that has been explained already.
func (h *Host) Exit(status int) error { return quietExit(status) }

// ExitOf is the status that the code of err decides.
func (h *Host) ExitOf(err error) int {
	status, _ := exitOf(err)
	return status
}

// Site reads the configuration that holds in every workspace.
func (h *Host) Site() (*Site, error) {
	b, err := h.a.bootIn("", nil)
	if err != nil {
		return nil, err
	}
	return &Site{Host: h, b: b}, nil
}

// Site is an installation: its configuration, and the store that belongs to it.
type Site struct {
	*Host
	b *base
}

// Config is the configuration in effect.
func (s *Site) Config() config.Config { return s.b.cfg.Config }

// OpenRead opens the store for looking: it takes no lock and changes no byte.
func (s *Site) OpenRead(ctx context.Context) (*local.Store, error) { return s.b.openRead(ctx) }

// OpenWrite opens the store for changing it.
func (s *Site) OpenWrite(ctx context.Context) (*local.Store, error) {
	return local.Open(ctx, s.b.options())
}

// Log opens the log; close it. Secrets do not reach it.
func (s *Site) Log() (*slog.Logger, io.Closer, error) {
	err := s.b.logging()
	return s.b.log, closer(s.b.closeLog), err
}

type closer func() error

// Close implements io.Closer.
func (c closer) Close() error { return c() }

// Find gives the session that ref names.
func (s *Site) Find(ctx context.Context, st *local.Store, ref string) (session.ID, error) {
	return find(ctx, st, ref, false)
}

// SyncView is how delivery stands, as the store alone tells it: of one session, or of all when
// id is empty.
func (s *Site) SyncView(ctx context.Context, st *local.Store, id session.ID) (terminal.SyncView, error) {
	v, err := s.b.syncView(ctx, st, id)
	if err == nil && v.State == "" { // no server yet; a pause holds all the same
		var h session.Heartbeat
		h, _, _, err = st.Sync(ctx)
		v.Paused = h.Paused
	}
	return v, err
}

// Delivers reports whether a server is configured, or a process delivers from this store.
func (s *Site) Delivers() bool {
	_, delivers := s.b.drainer()
	return delivers || s.Config().Sync.URL != ""
}

// Drainer takes the lock of the one process that delivers from this store. ErrLocked says who
// has it.
func (s *Site) Drainer(command string) (release func() error, err error) {
	self, err := lock.Self(command, s.Now())
	if err != nil {
		return nil, err
	}
	l, err := acquire(drainerLock(s.b.home()), self)
	if err != nil {
		return nil, err
	}
	return l.Release, nil
}

// Holder gives who has the lock, of an ErrLocked.
func Holder(err error) error {
	var held *lock.HeldError
	if errors.As(err, &held) {
		return held
	}
	return err
}

// AskDrainer asks whoever delivers from this store to wait no longer. It leaves word in the time
// of the lock file, which nothing else depends on, and which only grows: a file system may keep no
// fraction of a second.
func (s *Site) AskDrainer() error {
	path, before, now := drainerLock(s.b.home()), s.Asked(), s.Now()
	if err := os.Chtimes(path, now, now); err != nil || s.Asked().After(before) {
		return err
	}
	later := before.Add(2 * time.Second)
	return os.Chtimes(path, later, later)
}

// Asked gives the word that AskDrainer left: another value whenever somebody asked.
func (s *Site) Asked() time.Time {
	info, err := os.Stat(drainerLock(s.b.home()))
	if err != nil {
		return time.Time{} // nobody delivers, so nobody was asked
	}
	return info.ModTime()
}

func drainerLock(home string) string { return filepath.Join(home, "locks", "drainer") }

// syncProgram is the program that delivers.
const syncProgram = "acode-sync"

// deliveryCommands are acode-sync's; acode passes them on as they were typed.
func (a *app) deliveryCommands() []*cobra.Command {
	var out []*cobra.Command
	for _, c := range []struct{ name, short string }{
		{"sync", "Deliver sessions to the server, or say how that stands"},
		{"syncer", "Deliver sessions for as long as it runs, with metrics and health"},
		{"metrics", "Print the metrics of the syncer, without a syncer"},
		{"admin", "Look after the server: migrate, devices, verify, prune"},
	} {
		out = append(out, &cobra.Command{Use: c.name, Short: c.short, DisableFlagParsing: true,
			RunE: func(*cobra.Command, []string) error { return a.handOver() },
			ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
				_ = a.handOver() // returns only when that program is missing: it has nothing to complete then
				return nil, cobra.ShellCompDirectiveNoFileComp
			}})
	}
	return out
}

// handOver becomes the program that delivers, with the same command line.
func (a *app) handOver() error {
	path, err := deliveryProgram()
	if err != nil {
		return err
	}
	err = syscall.Exec(path, append([]string{syncProgram}, a.args...), os.Environ())
	return notInstalled(err)
}

// deliveryProgram finds acode-sync beside this program, else in the path.
func deliveryProgram() (string, error) {
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), syncProgram)
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return beside, nil
		}
	}
	path, err := exec.LookPath(syncProgram)
	if err != nil {
		return "", notInstalled(err)
	}
	return path, nil
}

func notInstalled(err error) error {
	return &session.Error{Code: session.ErrConfig, Message: syncProgram + ", the part of acode that delivers to a server, cannot be started; nothing is lost",
		Cause: err, Next: "install it beside acode"}
}

// carryOut runs a command line and gives the exit status.
func (a *app) carryOut(ctx context.Context, root *cobra.Command, args []string) int {
	a.args = args
	root.SetArgs(args)
	root.SetIn(a.io.in)
	root.SetOut(a.io.out)
	root.SetErr(a.io.err)
	a.strict(root)
	cmd, err := root.ExecuteContextC(ctx)
	var said quietExit
	if lost := a.io.out.Lost(); lost != nil && (err == nil || errors.As(err, &said) || errors.Is(err, lost)) {
		status, hint := a.verdict(lost)
		a.fail(lost, status, hint)
		return cmp.Or(int(said), status)
	}
	if err == nil || errors.As(err, &said) {
		return int(said)
	}
	if session.CodeOf(err) == session.ErrInternal && isUsage(err) {
		err = &session.Error{Code: session.ErrUsage, Message: err.Error(), Next: cmd.CommandPath() + " --help"}
	}
	err = shortage(err)
	a.json = a.json || slices.Contains(args, "--json") // an unknown command ends before its flags are read
	status, hint := a.verdict(err)
	a.fail(err, status, hint)
	return status
}
