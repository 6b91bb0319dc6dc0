package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/tool"
)

// DefaultUnread is the default of Connection.
const DefaultUnread = time.Minute

// Connection configures how a server talks with its client.
type Connection struct {
	Version string
	// Unread is how long a client may leave an answer unread before it loses its
	// connection; 0 means DefaultUnread.
	Unread time.Duration
	// Workspace is the directory to work in. If it is empty, it is the client's only
	// root, or else Here.
	Workspace, Here string
	// Spell puts a hint in words, and Mask masks secrets.
	Spell func(session.Hint) string
	Mask  func(string) string
	Now   func() time.Time
	Log   *slog.Logger
}

func (c *Connection) fill() {
	if c.Unread == 0 {
		c.Unread = DefaultUnread
	}
	if c.Spell == nil {
		c.Spell = session.Hint.String
	}
	if c.Mask == nil {
		c.Mask = func(s string) string { return s }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// service is the part of a server that depends on its tools.
type service interface {
	// tools returns all tools in the order in which they are listed.
	tools() []tool.Tool
	// allows reports whether a person allowed tools that need p.
	allows(p tool.Power) bool
	// instructions tells the model how the tools work.
	instructions() string
	// words puts errors in words.
	words() words
	// call carries out a call of an allowed tool. The function, unless it
	// is nil, is called when the answer is written.
	call(ctx context.Context, r *sdk.CallToolRequest, t tool.Tool) (*sdk.CallToolResult, func(), error)
	// alive is called when the client makes a request.
	alive()
	// close ends the service. inOrder says that the client ended the connection.
	close(inOrder bool) error
}

// mostCalls is how many calls of one connection are carried out at once.
const mostCalls = 64

// server is one connection to a client.
type server struct {
	Connection
	service service
	wire    *wire
	// ctx ends with the connection.
	ctx context.Context
	// busy has an element for each call that is carried out.
	busy chan struct{}
}

// serve serves one client over in and out until the end of the input or of ctx. It
// returns nil for both, and an error if the client cannot be reached any more. begin
// returns the service.
func serve(ctx context.Context, c Connection, in io.Reader, out io.Writer, begin func(*server) service) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	s := &server{Connection: c, ctx: life, busy: make(chan struct{}, mostCalls)}
	s.service = begin(s)
	s.wire = newWire(in, out, c.Unread, s.service.words())
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
	return errors.Join(s.wire.err, s.service.close(inOrder))
}

// protocol returns the server of the SDK. It answers everything but calls.
func (s *server) protocol() *sdk.Server {
	p := sdk.NewServer(&sdk.Implementation{Name: "acode", Title: "acode", Version: s.Version}, &sdk.ServerOptions{
		Instructions: s.service.instructions(),
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
	})
	for _, t := range s.service.tools() {
		if !s.service.allows(t.Needs) {
			continue
		}
		hints := &sdk.ToolAnnotations{Title: t.Title, ReadOnlyHint: t.Needs == "", OpenWorldHint: &t.Open, DestructiveHint: &t.Destroys}
		// The handler below gets the calls.
		p.AddTool(&sdk.Tool{Name: t.Name, Title: t.Title, Description: t.About, InputSchema: t.Schema(), Annotations: hints}, nil)
	}
	p.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			s.service.alive()
			if call, ok := r.(*sdk.CallToolRequest); ok && method == "tools/call" {
				return s.called(ctx, call)
			}
			return next(ctx, method, r)
		}
	})
	return p
}

// called answers a call. The client may take its request back, or be gone; then the
// answer does not count as written.
func (s *server) called(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	answer, written, err := s.carryOut(ctx, r)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return s.refuse(err), nil
	}
	s.wire.watch(r.Extra.Header.Get(idHeader), written)
	return answer, nil
}

// carryOut finds the tool of a call and uses it.
func (s *server) carryOut(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, func(), error) {
	t, err := s.find(r.Params.Name)
	if err != nil {
		return nil, nil, err
	}
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	default:
		return nil, nil, &session.Error{Code: session.ErrUsage, Message: fmt.Sprintf("%d calls are being carried out already; nothing was changed", mostCalls), Retryable: true,
			Next: session.Words("make the call again when another one has its answer")}
	}
	return s.service.call(ctx, r, t)
}

// find returns the tool with a name, if it is allowed.
func (s *server) find(name string) (tool.Tool, error) {
	all := s.service.tools()
	i := slices.IndexFunc(all, func(t tool.Tool) bool { return t.Name == name })
	if i < 0 {
		return tool.Tool{}, tool.Usage(fmt.Sprintf("there is no tool %q", tool.Cut(name, 60)), "the tools are "+strings.Join(tool.Names(all), ", "))
	}
	if !s.service.allows(all[i].Needs) {
		return tool.Tool{}, &session.Error{Code: session.ErrDenied, Message: name + " is not allowed on this server; nothing was changed", Next: session.Words(grant)}
	}
	return all[i], nil
}

// refuse answers a call that changed nothing.
func (s *server) refuse(err error) *sdk.CallToolResult {
	p := s.service.words().problem(err)
	p.Message, p.Hint = s.Mask(p.Message), s.Mask(p.Hint)
	return reply(result{Outcome: outcomeDenied, problem: &p, Text: p.String()}, true)
}

// rootsWait is how long the client may take to name its roots.
const rootsWait = 10 * time.Second

// workspace returns the directory to work in, without symbolic links.
func (s *server) workspace(client *sdk.ServerSession) (string, error) {
	dir := s.Workspace
	if dir == "" {
		root, err := s.root(client)
		if err != nil {
			return "", err
		}
		dir = either(root, s.Here)
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
