package agent

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/cli"
	"github.com/acode-dev/acode/mcp"
	"github.com/acode-dev/acode/session"
)

// conversationVariable has the client's id of its conversation, for a client that passes
// it in the environment of the server.
const conversationVariable = "ACODE_CONVERSATION"

// serving are the flags of mcp.
type serving struct {
	tools, fresh     bool
	write            bool
	allow            []string
	sandbox          string
	conversation     string
	patience, settle time.Duration
}

func (p *program) mcpCommand() *cobra.Command {
	var f serving
	c := &cobra.Command{
		Use:   "mcp",
		Short: "Serve tasks, or files and commands, over the Model Context Protocol",
		Long: `Serves tools to one client over standard input and output.

Without --tools a client can look at the sessions of the workspace, which the tools call
tasks. With --allow-write it can also start, resume and cancel them. A task continues when
the client leaves. No tool approves, denies or answers a question for a person.

With --tools it serves files and commands of the workspace to an agent. acode keeps a record of each call that changes something. When the agent is killed and
continues, it gets the records of the calls whose answers it lost, and no call has its
effect twice.

The workspace is the directory of -C. Without -C it is the only root of the client, or
else the current directory.

With --tools, acode judges each call by approvals in your configuration. By default the
agent may read and write files of the workspace, and run commands that only read. It may
do what --allow names, too. A call that needs your yes is denied, and its answer names the
"acode approve" command that you can type. After your yes, the agent makes the call again,
and it is carried out once. With approvals.elicitation: allow, the server also asks
through the client. Without --tools, the server only reads, unless --allow-write is given.

Commands run in a sandbox: they change files of the workspace only, and cannot read your
home directory. Without --allow network they reach no network, unless you approve it.
docs/threats.md says what the sandbox promises, and acode doctor what this machine
enforces.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			if f.tools {
				return p.serve(cmd.Context(), f)
			}
			return p.control(cmd.Context(), f)
		},
	}
	fl := c.Flags()
	fl.BoolVar(&f.tools, "tools", false, "serve files and commands")
	fl.BoolVar(&f.write, "allow-write", false, "without --tools: start, resume and cancel tasks")
	fl.StringSliceVar(&f.allow, "allow", nil, "with --tools: what the agent may do without a question, which is recorded: "+cli.AllowUsage)
	fl.StringVar(&f.sandbox, "sandbox", "on", "`off` runs commands with all your rights; this is recorded")
	fl.StringVar(&f.conversation, "conversation", "", "with --tools: the client's own `id` of its conversation (default $"+conversationVariable+")")
	fl.BoolVar(&f.fresh, "new", false, "with --tools: begin another session")
	fl.DurationVar(&f.patience, "patience", mcp.DefaultPatience, "with --tools: wait this long for a command before its handle is returned")
	fl.DurationVar(&f.settle, "settle", mcp.DefaultSettle, "with --tools: an answer is settled this long after it was written")
	return c
}

func refused(message, next string) error {
	return &session.Error{Code: session.ErrUsage, Message: message + "; nothing was changed", Next: session.Words(next)}
}

// check refuses flags of the other kind of server.
func (f serving) check(cmd *cobra.Command) error {
	if f.sandbox != "on" && f.sandbox != "off" {
		return refused("--sandbox="+f.sandbox+" is not known", "use --sandbox=on or --sandbox=off")
	}
	if f.tools {
		if f.write {
			return refused("--allow-write cannot be combined with --tools", "use --allow files,commands")
		}
		return nil
	}
	for _, flag := range []string{"allow", "conversation", "new", "patience", "settle"} {
		if cmd.Flags().Changed(flag) {
			return refused("--"+flag+" needs --tools", "add --tools to serve files and commands")
		}
	}
	return nil
}

// options checks the flags.
func (f serving) options() (o mcp.Options, err error) {
	o.Allowed, o.Sandbox = f.allow, session.Confined
	switch {
	case f.sandbox == "off":
		o.Sandbox = session.Unconfined
	case slices.Contains(f.allow, "network"):
		o.Sandbox = session.ConfinedOnline
	}
	if f.patience <= 0 || f.settle <= 0 {
		return o, refused("--patience and --settle must be above 0", "leave them out for the defaults")
	}
	o.Fresh, o.Conversation, o.Patience, o.Settle = f.fresh, f.conversation, f.patience, f.settle
	if o.Conversation == "" {
		o.Conversation = os.Getenv(conversationVariable)
	}
	return o, nil
}

// serve serves files and commands to one client until the end of the input or a signal.
func (p *program) serve(parent context.Context, f serving) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	supervisor, err := cli.Supervisor()
	if err != nil {
		return err
	}
	setup, ctx, stop, err := p.connect(parent, &o.Connection, f.allow)
	if err != nil {
		return err
	}
	defer stop()
	setup.Supervisor, setup.Agent = supervisor, o.Sandbox
	o.Elicits = setup.Settings.Config.Approvals.Elicitation
	if o.Sandbox != session.Unconfined {
		o.SandboxMode, err = setup.SandboxMode()
		if err != nil && setup.Settings.Config.Approvals.Command == "allow" {
			return unconfinable(err)
		}
	}
	o.Open = func(ctx context.Context, workspace string, of session.Agent, fresh bool) (mcp.Conversation, error) {
		return open(ctx, setup, workspace, of, fresh)
	}
	return mcp.Serve(ctx, o, os.Stdin, os.Stdout)
}

// connect fills c for a client at standard input and output. The context ends with a
// signal that ends the server.
func (p *program) connect(parent context.Context, c *mcp.Connection, allow []string) (setup app.Setup, ctx context.Context, stop func(), err error) {
	if setup, err = p.SetupAllowing(allow); err != nil {
		return setup, nil, nil, err
	}
	setup.KeepLog = true
	if c.Here, err = os.Getwd(); err != nil {
		return setup, nil, nil, err
	}
	c.Version, c.Workspace, c.Spell, c.Mask, c.Now = cli.Version, p.Dir(), p.Spell, setup.Redactor.String, p.Now
	ctx, stop = signal.NotifyContext(parent, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	return setup, ctx, stop, nil
}

// unconfinable adds to err how to serve without a sandbox.
func unconfinable(err error) error {
	if e := (*session.Error)(nil); errors.As(err, &e) {
		e.Next = session.Words("to run commands with all your rights, add --sandbox=off; to see what is missing: acode doctor")
	}
	return err
}

// conversation closes its site, too.
type conversation struct {
	*app.Calls
	site *app.Site
}

// open opens a conversation with a site of its own: only one goroutine may use a site.
func open(ctx context.Context, setup app.Setup, workspace string, of session.Agent, fresh bool) (mcp.Conversation, error) {
	site, err := enter(ctx, setup, workspace, app.Open)
	if err != nil {
		return nil, err
	}
	calls, err := site.Converse(ctx, of, fresh)
	if err != nil {
		return nil, errors.Join(err, site.Close())
	}
	return conversation{calls, site}, nil
}

// Close implements mcp.Conversation.
func (c conversation) Close() error { return errors.Join(c.Calls.Close(), c.site.Close()) }

// enter opens the store for a workspace.
func enter(ctx context.Context, setup app.Setup, workspace string, open func(context.Context, app.Setup) (*app.Site, error)) (*app.Site, error) {
	settings, err := setup.Load(workspace)
	if err != nil {
		return nil, err
	}
	setup.Settings, setup.Workspace = settings, workspace
	if err := setup.Guard(); err != nil {
		return nil, err
	}
	return open(ctx, setup)
}
