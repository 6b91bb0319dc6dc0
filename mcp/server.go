package mcp

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
)

// Conversation executes the calls of one conversation. *app.Calls is one, and describes
// the methods. The end of a context ends only a wait. Many goroutines use it at once.
type Conversation interface {
	Session(ctx context.Context) (id session.ID, short string)
	Owed(ctx context.Context) ([]app.CallResult, error)
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
	DefaultUnread   = time.Minute
	DefaultMessage  = 500 * time.Millisecond
)

// Options configure a server.
type Options struct {
	Version string
	// Files and Commands allow changes of files, and commands. Without them the server
	// only reads.
	Files, Commands bool
	// Network lets commands use the network.
	Network bool
	// Sandbox is the confinement of commands, and SandboxMode how it is done; both are for
	// the instructions.
	Sandbox     session.Confinement
	SandboxMode string
	// Patience is how long a call waits for its command; 0 means DefaultPatience.
	Patience time.Duration
	// Settle is how long after its answer a call is settled; 0 means DefaultSettle.
	Settle time.Duration
	// Unread is how long a client may leave an answer unread before it loses its
	// connection; 0 means DefaultUnread.
	Unread time.Duration
	// Message is how long after a told answer a call still belongs to the message of the
	// model that got this answer; 0 means DefaultMessage. Clients make the calls of one
	// message one after another, and the model reads the answers after the last.
	Message time.Duration
	// Conversation is the client's own id of its conversation; empty if it is not known.
	Conversation string
	// Getenv returns a variable of the environment, in which some clients give the id of
	// their conversation; nil for no variables.
	Getenv func(name string) string
	// Fresh begins another session of the conversation.
	Fresh bool
	// Workspace is the directory to work in. If it is empty, it is the client's only
	// root, or else Here.
	Workspace, Here string
	// Open opens a conversation in a workspace.
	Open func(ctx context.Context, workspace string, of session.Agent, fresh bool) (Conversation, error)
	// Spell puts a hint in words, and Mask masks secrets.
	Spell func(session.Hint) string
	Mask  func(string) string
	Now   func() time.Time
	Log   *slog.Logger
}

func (o *Options) allows(p power) bool {
	return p == "" || p == powerFiles && o.Files || p == powerCommands && o.Commands
}

// mostCalls is how many calls of one connection are carried out at once.
const mostCalls = 64

// server is one connection to a client.
type server struct {
	options Options
	wire    *wire
	// ctx ends with the connection.
	ctx context.Context
	// calls has an element for each call that is carried out.
	calls chan struct{}

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

// Serve serves one client over in and out until the end of the input or of ctx. It
// returns nil for both, and an error if the client cannot be reached any more. Commands
// continue after it returns.
func Serve(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	o.fill()
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	s := &server{options: o, ctx: life, calls: make(chan struct{}, mostCalls), talks: map[string]*opening{}}
	s.wire = newWire(in, out, &o)
	if _, err := s.protocol().Connect(life, s.wire, nil); err != nil {
		return err
	}
	select {
	case <-s.wire.done:
	case <-ctx.Done():
		s.wire.end(nil)
	}
	inOrder := ctx.Err() == nil && s.wire.err == nil && s.wire.reads()
	end()
	return errors.Join(s.wire.err, s.close(inOrder))
}

func (o *Options) fill() {
	if o.Patience == 0 {
		o.Patience = DefaultPatience
	}
	if o.Settle == 0 {
		o.Settle = DefaultSettle
	}
	if o.Unread == 0 {
		o.Unread = DefaultUnread
	}
	if o.Message == 0 {
		o.Message = DefaultMessage
	}
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	if o.Spell == nil {
		o.Spell = session.Hint.String
	}
	if o.Mask == nil {
		o.Mask = func(s string) string { return s }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// protocol returns the server of the SDK. It answers everything but calls.
func (s *server) protocol() *sdk.Server {
	p := sdk.NewServer(&sdk.Implementation{Name: "acode", Title: "acode", Version: s.options.Version}, &sdk.ServerOptions{
		Instructions: s.options.instructions(),
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
	})
	for _, t := range tools() {
		if !s.options.allows(t.needs) {
			continue
		}
		hints := &sdk.ToolAnnotations{Title: t.title, ReadOnlyHint: t.needs == "", OpenWorldHint: &t.open, DestructiveHint: &t.destroys}
		// The handler below gets the calls.
		p.AddTool(&sdk.Tool{Name: t.name, Title: t.title, Description: t.about, InputSchema: t.schema(), Annotations: hints}, nil)
	}
	p.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			if call, ok := r.(*sdk.CallToolRequest); ok && method == "tools/call" {
				return s.called(ctx, call)
			}
			s.alive()
			return next(ctx, method, r)
		}
	})
	return p
}

// instructions tells the model how the tools work.
func (o *Options) instructions() string {
	text := "acode keeps a record of every call on disk, so that results survive a crash of this agent.\n" +
		"- A result that begins with NOT RUN NOW is the recorded result of an equal call that you made before your connection was lost. Use it as the result. To run the call again, repeat it with fresh: true.\n" +
		"- A result that begins with NOT RUN lists calls from before your connection was lost. Compare them with your plan, then make the call again if it is still needed.\n" +
		"- A result that begins with STILL RUNNING has a handle. Use wait_command, command_output or stop_command with it; do not start the command again.\n" +
		"- OUTCOME UNKNOWN means that the call may have had its effect. Look before you repeat it.\n" +
		"- Secrets in files and outputs are masked with asterisks. Send a mask as it stands, and acode puts the secret back."
	if o.Commands {
		text += "\n- " + o.confined()
	}
	if !o.Files || !o.Commands {
		text += "\n- This server does not allow everything: "
		switch {
		case !o.Files && !o.Commands:
			text += "it only reads."
		case !o.Files:
			text += "files can be changed by commands only."
		default:
			text += "it runs no commands."
		}
	}
	return text
}

// confined tells the model the limits of commands.
func (o *Options) confined() string {
	if o.Sandbox == session.Unconfined {
		return "Commands run without a sandbox."
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
func (s *server) alive() {
	for _, t := range s.open() {
		t.alive()
	}
}

// open returns the conversations that are open.
func (s *server) open() []*talk {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*talk
	for _, o := range s.talks {
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
func (s *server) close(inOrder bool) error {
	var errs []error
	for _, t := range s.open() {
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
func (s *server) talk(r *sdk.CallToolRequest) (*talk, error) {
	of := session.Agent{Conversation: s.options.Conversation}
	if p := r.Session.InitializeParams(); p != nil {
		if p.ClientInfo != nil {
			of.Client = cut(s.options.Mask(p.ClientInfo.Name), 100)
		}
		of.Conversation = either(of.Conversation, metaText(p.Meta, MetaConversation))
	}
	of.Conversation = either(of.Conversation, metaText(r.Params.Meta, MetaConversation))
	of.Conversation = either(of.Conversation, s.options.given(of.Client, r.Params.Meta))
	s.mu.Lock()
	o, ok := s.talks[of.Conversation]
	if !ok {
		o = &opening{done: make(chan struct{})}
		s.talks[of.Conversation] = o
	}
	s.mu.Unlock()
	if ok {
		<-o.done
		return o.talk, o.err
	}
	o.talk, o.err = s.begin(r.Session, of)
	if o.err != nil { // the next call tries again
		s.mu.Lock()
		delete(s.talks, of.Conversation)
		s.mu.Unlock()
	}
	close(o.done)
	return o.talk, o.err
}

func (s *server) begin(client *sdk.ServerSession, of session.Agent) (*talk, error) {
	workspace, err := s.workspace(client)
	if err != nil {
		return nil, err
	}
	c, err := s.options.Open(s.ctx, workspace, of, s.options.Fresh)
	if err != nil {
		return nil, err
	}
	t, err := newTalk(s.ctx, c, &s.options, workspace, of.Conversation != "")
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	t.gone = func() bool { return s.wire.gone() }
	return t, nil
}

// rootsWait is how long the client may take to name its roots.
const rootsWait = 10 * time.Second

// workspace returns the directory to work in, without symbolic links.
func (s *server) workspace(client *sdk.ServerSession) (string, error) {
	dir := s.options.Workspace
	if dir == "" {
		root, err := s.root(client)
		if err != nil {
			return "", err
		}
		dir = either(root, s.options.Here)
	}
	return app.Directory(dir)
}

// root returns the client's only root; empty if it has none, or several.
func (s *server) root(client *sdk.ServerSession) (string, error) {
	p := client.InitializeParams()
	// From the version of 2026-07-28 on, a server cannot ask for roots.
	//lint:ignore SA1019 clients with older versions name their directory in this way only
	if p == nil || p.Capabilities == nil || p.Capabilities.RootsV2 == nil || p.ProtocolVersion >= "2026-07-28" {
		return "", nil
	}
	ctx, stop := context.WithTimeout(s.ctx, rootsWait)
	defer stop()
	//lint:ignore SA1019 as above
	got, err := client.ListRoots(ctx, nil)
	if err != nil {
		return "", &session.Error{Code: session.ErrWorkspace, Message: "the client did not name its roots; nothing was changed", Cause: err, Retryable: true,
			Next: session.Words("make the call again; a person can name the directory when starting the server with -C DIR")}
	}
	if len(got.Roots) != 1 {
		return "", nil
	}
	u, err := url.Parse(got.Roots[0].URI)
	if err != nil || u.Scheme != "file" || !filepath.IsAbs(u.Path) {
		return "", nil
	}
	return u.Path, nil
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// metaText returns a text of _meta that can name something; empty for none.
func metaText(meta sdk.Meta, key string) string {
	s, _ := meta[key].(string)
	if len(s) > 200 {
		return ""
	}
	return s
}
