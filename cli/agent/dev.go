package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/provider/script"
	"github.com/acode-dev/acode/provider/script/server"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

// devCommand has the commands for people who develop and try agents.
func (p *program) devCommand() *cobra.Command {
	c := &cobra.Command{Use: "dev", Short: "Try agents without a model"}
	c.AddCommand(p.devModelCommand())
	return c
}

func (p *program) devModelCommand() *cobra.Command {
	var file, listen string
	c := &cobra.Command{
		Use:   "model --script FILE",
		Short: "Serve a model that follows a script",
		Long: `Serves a script as a model, in the APIs of OpenAI, Anthropic, Gemini and Ollama. The
server listens on this machine only, until it gets a signal. It prints its address and the
configuration of models that use it.

The script has one JSON object a line, each of them a reply. A request with n replies of
the model gets line n+1. Any name of a model and any key are right.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.serveScript(cmd.Context(), file, listen) },
	}
	c.Flags().StringVar(&file, "script", "", "the script, a `file` with one reply a line")
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "the `address` of the server; port 0 is any free one")
	return c
}

// serveScript serves the script until a signal.
func (p *program) serveScript(ctx context.Context, file, listen string) error {
	if file == "" {
		return refused("no script is named", "add --script FILE")
	}
	path, err := filepath.Abs(filepath.Join(p.Dir(), file))
	if filepath.IsAbs(file) {
		path, err = file, nil
	}
	if err != nil {
		return err
	}
	m := script.Model{Name: "script", File: path}
	if err := m.Check(ctx); err != nil {
		return err
	}
	if host, _, err := net.SplitHostPort(listen); err != nil || !net.ParseIP(host).IsLoopback() {
		return refused("--listen="+listen+" is not an address of this machine", "use --listen=127.0.0.1:PORT")
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return &session.Error{Code: session.ErrConfig, Message: "the server cannot listen", Place: listen, Cause: err, Next: session.Words("choose another port")}
	}
	url := "http://" + l.Addr().String()
	if p.JSON {
		err = terminal.JSON(p.Out, scriptJSON{V: 1, Script: path, URL: url})
	} else {
		_, err = fmt.Fprintf(p.Out, devText, terminal.CleanLines(path), url)
	}
	if err != nil {
		return err
	}
	web := &http.Server{Handler: server.New(server.Options{Model: m.Serve}), ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	go func() {
		<-ctx.Done()
		_ = web.Close() // Serve returns its error
	}()
	if err := web.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return &session.Error{Code: session.ErrInternal, Message: "the server ended", Cause: err}
	}
	return nil
}

// scriptJSON is the answer to scripts.
type scriptJSON struct {
	V      int    `json:"v"`
	Script string `json:"script"`
	// URL is the address of the server, without the path that some APIs need.
	URL string `json:"url"`
}

const devText = `The script %[1]s is served at %[2]s until a signal ends it.
To use it, add these models to your configuration:

models:
  openai-script: {provider: openai, model: script, base_url: "%[2]s/v1"}
  anthropic-script: {provider: anthropic, model: script, base_url: "%[2]s"}
  ollama-script: {provider: ollama, model: script, base_url: "%[2]s", context_tokens: 8192}
`
