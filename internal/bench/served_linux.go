package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/internal/caller"
)

// served compares calls over the pipes of a server of tools with calls in process.
func (b *bench) served(ctx context.Context) error {
	dir, err := b.place("served")
	if err != nil {
		return err
	}
	if err := b.buildAgent(ctx); err != nil {
		return err
	}
	for _, call := range []func(i int) app.Call{writeOf, func(int) app.Call { return runOf("true") }} {
		tool := call(0).Tool
		over, within, err := b.servedCalls(ctx, filepath.Join(dir, tool), call)
		if err != nil {
			return fmt.Errorf("%s: %w", tool, err)
		}
		b.report.ratio(tool+" over MCP / in process", over, within, 1.2)
	}
	return nil
}

// buildAgent puts acode-agent beside acode, which starts it.
func (b *bench) buildAgent(ctx context.Context) error {
	at := filepath.Join(filepath.Dir(b.acode), "acode-agent")
	if b.given != "" {
		return install(filepath.Join(filepath.Dir(b.given), "acode-agent"), at)
	}
	return goBuild(ctx, at, "github.com/acode-dev/acode/cmd/acode-agent")
}

// servedCalls makes each call over a server's pipes and in process.
func (b *bench) servedCalls(ctx context.Context, dir string, call func(i int) app.Call) (over, within sample, err error) {
	a, err := newAgent(ctx, filepath.Join(dir, "within"))
	if err != nil {
		return nil, nil, err
	}
	c, err := b.serve(ctx, filepath.Join(dir, "over"))
	if err != nil {
		return nil, nil, err
	}
	for i := range callRepeats + 1 {
		err := errors.Join(over.timed(func() error { return asked(c, call(i)) }), within.timed(func() error { return a.did(ctx, call(i)) }))
		if err != nil {
			return nil, nil, err
		}
	}
	return over[1:], within[1:], errors.Join(c.End(), a.close())
}

// serve starts a server of tools, and connects to it.
func (b *bench) serve(ctx context.Context, dir string) (*caller.Client, error) {
	workspace := filepath.Join(dir, "workspace")
	if err := os.MkdirAll(workspace, 0o755); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, b.acode, "mcp", "--tools", "--allow", "files,commands,git", "--sandbox=off", "--conversation", "bench", "-C", workspace)
	cmd.Dir, cmd.Stderr = workspace, os.Stderr
	cmd.Env = []string{"ACODE_HOME=" + filepath.Join(dir, "home"), "ACODE_KEY_KEYRING=false", "HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	c, err := caller.Start(cmd)
	if err != nil {
		return nil, err
	}
	return c, c.Hello("bench", nil)
}

// asked makes a call over the pipes of a server.
func asked(c *caller.Client, call app.Call) error {
	args := map[string]string{}
	if run := call.Step.Run; run != nil {
		args["command"] = run.Shell
	} else {
		args["path"], args["content"] = call.Step.Changes[0].Path, call.Step.Changes[0].Content
	}
	r, err := c.Call(call.Tool, args)
	if err == nil && r.Structured.Outcome != app.CallDone {
		err = fmt.Errorf("%s: %s", r.Structured.Outcome, r.Structured.Text)
	}
	return err
}

// beforeRuns is how often each of two programs starts.
const beforeRuns = 200

// since compares the start of acode with that of an earlier version.
func (b *bench) since(ctx context.Context) error {
	if b.before == "" {
		return nil
	}
	earlier := filepath.Join(filepath.Dir(b.acode), "acode-before")
	if err := install(b.before, earlier); err != nil {
		return err
	}
	var present, before sample
	for range beforeRuns {
		err := errors.Join(present.timed(exec.CommandContext(ctx, b.acode, "version").Run), before.timed(exec.CommandContext(ctx, earlier, "version").Run))
		if err != nil {
			return err
		}
	}
	b.report.ratio("start of acode / of the version before", present, before, 1.03)
	return nil
}
