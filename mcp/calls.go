package mcp

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/tool"
)

// Conversation executes the calls of one conversation. *app.Calls is one, and describes
// the methods. The end of a context ends only a wait. Many goroutines use it at once.
type Conversation interface {
	Session(ctx context.Context) (id session.ID, short string)
	Owed(ctx context.Context) ([]app.CallResult, error)
	Question(asked *app.AskedError) session.Gate
	Answer(ctx context.Context, asked *app.AskedError, a app.Answer) error
	Do(ctx context.Context, call app.Call, patience time.Duration) (app.CallResult, error)
	Wait(ctx context.Context, op session.StepID, patience time.Duration) (app.CallResult, error)
	Stop(ctx context.Context, op session.StepID) (app.CallResult, error)
	Answered(ctx context.Context, op session.StepID) (app.CallResult, error)
	Since(ctx context.Context, a *app.CallResult) error
	Output(ctx context.Context, op session.StepID, from int64, limit int) (text string, next, total int64, err error)
	Settle(ops ...session.StepID)
	Restore(ctx context.Context, c session.Change) (session.Change, error)
	ReadFile(ctx context.Context, call app.Call, line, lines int) (text, note string, err error)
	ListFiles(ctx context.Context, call app.Call, limit int) (text, note string, err error)
	SearchFiles(ctx context.Context, call app.Call) (text, note string, err error)
	Close() error
}

// Defaults of Options.
const (
	DefaultPatience = 45 * time.Second
	DefaultSettle   = 2 * time.Second
	DefaultMessage  = 500 * time.Millisecond
)

// Options configure a server of files and commands.
type Options struct {
	Connection
	// Allowed names the classes of calls that no one is asked about, for the instructions.
	Allowed []string
	// Elicits lets the server ask for a yes through the client.
	Elicits bool
	// Sandbox is the confinement of commands, and SandboxMode how it is done; both are for
	// the instructions.
	Sandbox     session.Confinement
	SandboxMode string
	// Patience is how long a call waits for its command; 0 means DefaultPatience.
	Patience time.Duration
	// Settle is how long after its answer a call is settled; 0 means DefaultSettle.
	Settle time.Duration
	// Message is how long after a told answer a call still belongs to the message of the
	// model that got this answer; 0 means DefaultMessage. Clients make the calls of one
	// message one after another, and the model reads the answers after the last.
	Message time.Duration
	// Conversation is the client's own id of its conversation; empty if it is not known.
	Conversation string
	// Fresh begins another session of the conversation.
	Fresh bool
	// Open opens a conversation in a workspace.
	Open func(ctx context.Context, workspace string, of session.Agent, fresh bool) (Conversation, error)
}

func (o *Options) fill() {
	o.Connection.fill()
	if o.Patience == 0 {
		o.Patience = DefaultPatience
	}
	if o.Settle == 0 {
		o.Settle = DefaultSettle
	}
	if o.Message == 0 {
		o.Message = DefaultMessage
	}
}

// calls is the service of files and commands.
type calls struct {
	*server
	options Options

	mu sync.Mutex
	// talks has the conversations of this connection by the client's ids.
	talks map[string]*opening
}

// opening is a conversation that is open, or is being opened.
type opening struct {
	done chan struct{}
	talk *talk
	err  error
}

// Serve serves files and commands to one client over in and out, until the end of the
// input or of ctx. It returns nil for both, and an error if the client cannot be reached
// any more. Commands continue after it returns.
func Serve(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	o.fill()
	return serve(ctx, o.Connection, in, out, func(s *server) service {
		return &calls{server: s, options: o, talks: map[string]*opening{}}
	})
}

func (*calls) tools() []tool.Tool { return tools() }

// allows implements service. The conversation judges each call.
func (*calls) allows(tool.Power) bool { return true }

func (c *calls) words() words { return words{c.Spell, hints()} }

// instructions implements service.
func (c *calls) instructions() string {
	text := "acode keeps a record of every call on disk, so that results survive a crash of this agent.\n" +
		"- A result that begins with NOT RUN NOW is the recorded result of an equal call that you made before your connection was lost. Use it as the result. To run the call again, repeat it with fresh: true.\n" +
		"- A result that begins with NOT RUN lists calls from before your connection was lost. Compare them with your plan, then make the call again if it is still needed.\n" +
		"- A result that begins with STILL RUNNING has a handle. Use wait_command, command_output or stop_command with it; do not start the command again.\n" +
		"- OUTCOME UNKNOWN means that the call may have had its effect. Look before you repeat it.\n" +
		"- Secrets in files and outputs are masked with asterisks. Send a mask as it stands, and acode puts the secret back."
	text += "\n- " + c.options.confined()
	if len(c.options.Allowed) > 0 {
		text += "\n- A person allowed this server: " + strings.Join(c.options.Allowed, ", ") + "."
	}
	text += "\n- A call that needs the yes of a person is denied, and nothing is changed. The hint has the command that the person can type. Tell the person, and make the same call again after the yes. Do not try the same in another way."
	return text
}

// confined tells the model the limits of commands.
func (o *Options) confined() string {
	if o.Sandbox == session.Unconfined {
		return "Commands run without a sandbox."
	}
	if o.SandboxMode == "" {
		return "Commands cannot run: this system has no sandbox."
	}
	text := "Commands run in a sandbox. They can write in the workspace, in $HOME and in $TMPDIR only; $HOME is a private directory. They can read system directories and toolchains. "
	switch {
	case o.Sandbox == session.ConfinedOnline:
		text += "They can use the network."
	case o.SandboxMode == "filter":
		text += "They have no network and can open no sockets."
	default:
		text += "They have no network; each command has a loopback interface of its own."
	}
	return text + " A command cannot signal processes that an earlier command has left running."
}

// alive settles the answers that have been out for long enough.
func (c *calls) alive() {
	for _, t := range c.open() {
		t.alive()
	}
}

// open returns the conversations that are open.
func (c *calls) open() []*talk {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*talk
	for _, o := range c.talks {
		select {
		case <-o.done:
			if o.err == nil {
				out = append(out, o.talk)
			}
		default:
		}
	}
	return out
}

// close closes the conversations. inOrder says that the client ended the connection.
func (c *calls) close(inOrder bool) error {
	var errs []error
	for _, t := range c.open() {
		errs = append(errs, t.close(inOrder))
	}
	return errors.Join(errs...)
}

// Keys of _meta.
const (
	// MetaConversation has the client's id of its conversation, in initialize or in a
	// call.
	MetaConversation = "acode/conversation"
	// MetaCall has the client's name of a call. The same name on one connection is the
	// same call.
	MetaCall = "acode/call"
)

// talk returns the conversation of a call, and opens it before its first one.
func (c *calls) talk(r *sdk.CallToolRequest) (*talk, error) {
	of := session.Agent{Conversation: c.options.Conversation}
	if p := r.Session.InitializeParams(); p != nil {
		if p.ClientInfo != nil {
			of.Client = tool.Cut(c.options.Mask(p.ClientInfo.Name), 100)
		}
		of.Conversation = either(of.Conversation, metaText(p.Meta, MetaConversation))
	}
	of.Conversation = either(of.Conversation, metaText(r.Params.Meta, MetaConversation))
	of.Conversation = either(of.Conversation, given(of.Client, r.Params.Meta))
	c.mu.Lock()
	o, ok := c.talks[of.Conversation]
	if !ok {
		o = &opening{done: make(chan struct{})}
		c.talks[of.Conversation] = o
	}
	c.mu.Unlock()
	if ok {
		<-o.done
		return o.talk, o.err
	}
	o.talk, o.err = c.begin(r.Session, of)
	if o.err != nil { // the next call tries again
		c.mu.Lock()
		delete(c.talks, of.Conversation)
		c.mu.Unlock()
	}
	close(o.done)
	return o.talk, o.err
}

func (c *calls) begin(client *sdk.ServerSession, of session.Agent) (*talk, error) {
	workspace, err := c.workspace(client)
	if err != nil {
		return nil, err
	}
	open, err := c.options.Open(c.ctx, workspace, of, c.options.Fresh)
	if err != nil {
		return nil, err
	}
	t, err := newTalk(c.ctx, open, &c.options, workspace, of.Conversation != "")
	if err != nil {
		return nil, errors.Join(err, open.Close())
	}
	t.gone = func() bool { return c.wire.gone() }
	return t, nil
}
