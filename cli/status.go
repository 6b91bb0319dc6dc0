package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

func (i *Invocation) statusCommand() *cobra.Command {
	var check bool
	var watch time.Duration
	cmd := &cobra.Command{
		Use: "status [ID]", Short: "Show the state of a session; changes nothing", Args: Following("watch", cobra.MaximumNArgs(1)), ValidArgsFunction: i.completeSession(anySession),
		Long: "Show the state of a session. Without ID, it shows the session that is executed in this workspace,\nor else the most recent one here. It takes no lock, writes nothing and needs no network.",
	}
	run := i.reading(func(ctx context.Context, s *app.Site, ref string) error {
		switch {
		case check:
			return i.check(ctx, s, ref)
		case watch > 0:
			return i.watch(ctx, s, ref, watch)
		}
		return i.status(ctx, s, ref, i.Out)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		// There is no store yet, so nothing is pending.
		if check && len(args) == 0 && errors.Is(err, session.ErrUnknownID) {
			setup, serr := i.setup(nil)
			if err = serr; err == nil {
				err = i.answerCheck(&setup, setup.NoDelivery())
			}
		}
		var said quietExit
		// A store that cannot be read is unhealthy.
		if check && err != nil && !errors.As(err, &said) {
			return quietExit(i.fail(err, unhealthy))
		}
		return err
	}
	cmd.Flags().BoolVar(&check, "check", false, "exit 0 when delivery is healthy, 1 when it is late, 2 when it needs a person")
	cmd.Flags().DurationVar(&watch, "watch", 0, "repeat it at this interval until no process executes the session")
	cmd.Flags().Lookup("watch").NoOptDefVal = "2s"
	cmd.MarkFlagsMutuallyExclusive("check", "watch")
	return cmd
}

func (i *Invocation) status(ctx context.Context, s *app.Site, ref string, out io.Writer) error {
	status, err := s.Status(ctx, ref)
	if err != nil {
		return err
	}
	page := i.Page()
	page.Out = out
	return page.Status(status)
}

// unhealthy is the exit status of status --check when a person is needed.
const unhealthy = 2

// check answers a monitoring system with its exit status, for the session that ref names
// or for all sessions when ref is empty.
func (i *Invocation) check(ctx context.Context, s *app.Site, ref string) error {
	var id session.ID
	var err error
	if ref != "" {
		if id, err = s.Find(ctx, ref); err != nil {
			return err
		}
	}
	d, err := s.Delivery(ctx, id)
	if err != nil {
		return err
	}
	return i.answerCheck(&s.Setup, d)
}

func (i *Invocation) answerCheck(s *app.Setup, d app.Delivery) error {
	if i.JSON || !i.quiet {
		// Lost output is reported at the end and does not change the health.
		_ = i.Page().SyncStatus(d, nil)
	}
	switch s.Health(d) {
	case app.NeedsPerson:
		return quietExit(unhealthy)
	case app.Late:
		return quietExit(1)
	}
	return quietExit(0)
}

// watch prints the status until no process executes the session or a signal arrives. On a
// terminal each status replaces the one before.
func (i *Invocation) watch(ctx context.Context, s *app.Site, ref string, every time.Duration) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	page := i.Page()
	out := &outlets{done: ctx.Done()}
	page.Out = outlet{out, i.Out}
	redraws := !i.JSON && terminal.Detect(i.Out.file, i.getenv).Live
	if fd := int(i.Out.file.Fd()); redraws {
		page.Out = &terminal.Redrawn{Out: page.Out, Size: func() (columns, rows int) {
			if columns, rows, err := term.GetSize(fd); err == nil && columns > 0 {
				return columns, rows
			}
			return 80, 24
		}}
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		status, err := s.Status(ctx, ref)
		if err == nil {
			// Stay with this session when another one begins here.
			ref = string(status.ID)
			err = page.Status(status)
			out.flush()
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err != nil || !status.Running {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if !redraws && !i.JSON {
			fmt.Fprintln(page.Out)
		}
	}
}
