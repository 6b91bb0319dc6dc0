package agent

import (
	"context"
	"os"
	"os/exec"
	"strings"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/cli"
	"github.com/acode-dev/acode/mcp"
	"github.com/acode-dev/acode/plan"
)

// control serves the control tools to one client until the end of the input or a signal.
func (p *program) control(parent context.Context, f serving) error {
	o := mcp.ControlOptions{Write: f.write, Check: checkPlan}
	setup, ctx, stop, err := p.connect(parent, &o.Connection, nil)
	if err != nil {
		return err
	}
	defer stop()
	confined := f.sandbox == "on"
	if f.write && confined {
		setup.Supervisor, err = cli.Supervisor()
		if err == nil {
			_, err = setup.SandboxMode()
		}
		if err != nil {
			return err
		}
	}
	setup.Apart = func(a app.Apart) (*exec.Cmd, error) { return p.Apart(a, confined) }
	o.Open = func(ctx context.Context, workspace string, write bool) (*app.Site, error) {
		open := app.OpenRead
		if write {
			open = app.Open
		}
		return enter(ctx, setup, workspace, open)
	}
	return mcp.ServeControl(ctx, o, os.Stdin, os.Stdout)
}

// checkPlan implements mcp.ControlOptions.Check.
func checkPlan(ctx context.Context, text []byte, params map[string]string) error {
	p, err := plan.Parse("plan", text)
	if err != nil {
		return err
	}
	if app.Asks(p, nil) {
		return refused("a plan that asks a model cannot be started over MCP yet", "a person can start it with: acode run FILE")
	}
	values, err := app.NewParams(p, params, os.LookupEnv)
	if err != nil {
		return err
	}
	missing, err := values.Complete(ctx, p, app.NoPerson{}.Secret)
	if err != nil || len(missing) == 0 {
		return err
	}
	var names []string
	for _, m := range missing {
		names = append(names, m.Name)
	}
	return refused("the plan needs params that are missing: "+strings.Join(names, ", "), "send them in params; a secret can be in the environment of the server instead")
}
