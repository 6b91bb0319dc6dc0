package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
)

func (i *Invocation) followCommand() *cobra.Command {
	var after uint64
	cmd := &cobra.Command{
		Use: "follow [ID]", Short: "Show the progress of a session that another process executes", Args: cobra.MaximumNArgs(1), ValidArgsFunction: i.completeSession(anySession),
		Long: "Show the progress of a session that another process executes, in the same lines as run. It begins\nwith the start of that process and ends when no process executes the session. The exit status is\nthat of run. Without ID, it shows the session that is executed in this workspace, or else the most\nrecent one here. It takes no lock and writes nothing.",
	}
	cmd.RunE = i.reading(func(ctx context.Context, s *app.Site, ref string) error {
		from := uint64(app.ThisRun)
		if cmd.Flags().Changed("after") {
			from = after
		}
		return i.follow(ctx, s, ref, from)
	})
	cmd.Flags().Uint64Var(&after, "after", 0, "begin behind this event, the `seq` of a line of --json; 0 begins with the first")
	return cmd
}

func (i *Invocation) follow(ctx context.Context, s *app.Site, ref string, after uint64) error {
	ctx, _, stop := i.signals(ctx)
	defer stop()
	f := &following{screen: i.screen(s, true), ctx: ctx}
	f.follows = true
	result, err := s.Follow(ctx, app.Following{Ref: ref, After: after, Lines: f.lines()}, f.tell)
	f.end()
	var sig app.Interrupted
	switch {
	case errors.As(err, &sig):
		return quietExit(128 + sig.Signal)
	case err != nil:
		return err
	}
	return quietExit(exitOfResult(result))
}

// following shows the processes that execute a session, one after the other. Each process
// has a beginning and a result.
type following struct {
	*screen
	ctx context.Context
	// result is the result of the process that is shown; nil before it has one. following
	// prints it last, as that process does.
	result *session.Notice
}

// lines returns which lines of commands to show; they are the ones that run shows.
func (f *following) lines() app.Lines {
	switch {
	case !f.Watches():
		return app.NoLines
	case f.JSON || f.verbose > 0:
		return app.AllLines
	}
	return app.LiveLines
}

func (f *following) tell(n session.Notice) {
	switch {
	case n.Kind == session.NoticeSession:
		f.end()
		f.begin(n)
		return
	// A printer needs the session before its first notice.
	case f.printer == nil:
		f.begin(session.Notice{Session: n.Session})
	}
	if n.Kind == session.NoticeResult {
		f.result = &n
		return
	}
	f.Notice(n)
}

// begin makes a printer and names the session of n.
func (f *following) begin(n session.Notice) {
	f.printer = f.newPrinter(f.ctx.Done(), app.Delivery{})
	n.Kind, n.Text = session.NoticeSession, n.Session.Task
	f.Notice(n)
}

func (f *following) end() {
	if f.result != nil {
		f.Notice(*f.result)
		f.result = nil
	}
	if f.printer != nil {
		f.close()
		f.printer = nil
	}
}
