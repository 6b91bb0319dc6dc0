package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/plan"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// paramFlags are the flags that give values for the params of a plan.
type paramFlags struct {
	// values hold NAME=value.
	values []string
	file   string
}

func (f *paramFlags) define(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP(&f.values, "param", "p", nil, "value of a param of the plan, as `NAME=value`; once for each")
	cmd.Flags().StringVar(&f.file, "params", "", "values of params: a YAML or JSON `file` of NAME: value; - is standard input")
}

// params returns the values for the params of p. The flags come first, then the other
// sources of app.NewParams.
func (i *Invocation) params(p *session.Plan, f paramFlags) (app.Params, error) {
	given, err := fromFile(f.file)
	if err != nil {
		return app.Params{}, err
	}
	seen := map[string]bool{}
	for _, kv := range f.values {
		name, value, ok := strings.Cut(kv, "=")
		secret := slices.ContainsFunc(p.Params, func(param session.Param) bool { return param.Name == name && param.Secret })
		switch {
		case !ok:
			return app.Params{}, wrongParam(name, "-p takes NAME=value", "acode run --help")
		case secret:
			return app.Params{}, wrongParam(name, "the param is secret, and other users can see command lines", "give it in a file with --params, or in the environment variable "+name)
		case seen[name]:
			return app.Params{}, wrongParam(name, "the param is given twice", "acode run --help")
		}
		seen[name], given[name] = true, value
	}
	return app.NewParams(p, given, os.LookupEnv)
}

func wrongParam(name, what, next string) error {
	return &session.Error{Code: session.ErrUsage, Message: what + "; nothing was changed", Place: "-p " + name, Next: session.Words(next)}
}

// fromFile reads the values of --params.
func fromFile(file string) (map[string]string, error) {
	if file == "" {
		return map[string]string{}, nil
	}
	file = input(file)
	data, err := plan.ReadFile(file)
	if err != nil {
		return nil, err
	}
	values, err := plan.Values(file, data)
	return maps.Clone(values), err
}

// complete asks for missing secret params. It returns an error that lists the required
// params which then still have no value.
func (i *Invocation) complete(ctx context.Context, p *session.Plan, values app.Params) error {
	asking, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	missing, err := values.Complete(asking, p, i.Secret)
	if asking.Err() != nil {
		return quietExit(128 + int(syscall.SIGINT))
	}
	if err != nil || len(missing) == 0 {
		return err
	}
	names := make([]string, len(missing))
	for at, param := range missing {
		names[at] = described(param.Name, param.Description)
		if param.Secret {
			names[at] += " [secret]"
		}
	}
	return &session.Error{Code: session.ErrUsage, Message: "the plan needs params that are missing: " + strings.Join(names, ", ") + "; nothing was changed",
		Next: session.Words("give each with -p NAME=value, or all in a file with --params FILE; secrets in the file or in the environment")}
}

// described returns the name of a param with its description, if it has one.
func described(name, about string) string {
	if about == "" {
		return name
	}
	return name + " (" + strings.Join(strings.Fields(about), " ") + ")"
}

// Secret implements app.Person: it reads a value that the terminal does not show. It
// returns an empty value when the person gives none or no one can be asked.
func (i *Invocation) Secret(ctx context.Context, name, about string) (string, error) {
	if !i.interactive() {
		return "", nil
	}
	fd := int(i.in.Fd())
	// Raw before the prompt, because the terminal must not show keys that are pressed at
	// once.
	before, err := term.MakeRaw(fd)
	if err != nil {
		return "", err
	}
	defer func() { _ = term.Restore(fd, before) }() // fails only for a terminal that is gone
	keys := &keyboard{Reader: i.in, Writer: i.Err}
	answer := make(chan string, 1)
	go func() {
		value, err := term.NewTerminal(keys, "").ReadPassword(terminal.Clean(described(name, about)) + ", not shown: ")
		if err != nil && keys.interrupted {
			// As the key does on a terminal that is not raw.
			_ = syscall.Kill(os.Getpid(), syscall.SIGINT)
			return
		}
		answer <- value
	}()
	select {
	case value := <-answer:
		return value, nil
	case <-ctx.Done():
		_, _ = fmt.Fprint(i.Err, "\r\n") // the error to report is the interrupt
		return "", context.Cause(ctx)
	}
}

// keyboard notices Ctrl-C, which a raw terminal gives like any other key.
type keyboard struct {
	io.Reader
	io.Writer
	interrupted bool
}

// Read implements io.Reader.
func (k *keyboard) Read(p []byte) (int, error) {
	n, err := k.Reader.Read(p)
	k.interrupted = k.interrupted || bytes.IndexByte(p[:n], 3) >= 0
	return n, err
}
