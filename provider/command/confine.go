package command

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/acode-dev/acode/sandbox"
	"github.com/acode-dev/acode/session"
)

// reportFD is the descriptor on which the first stage of a confined command reports why
// the command could not be started. The command itself does not have it.
const reportFD = lockFD + 2

// confined returns the program and the arguments of the first stage of a confined
// command. file is the program of the command.
func confined(req session.CommandRequest, file string) (string, []string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, fmt.Errorf("find this program: %w", err)
	}
	report := reportFD
	if req.TTY {
		// the process that holds the terminal does not pass it on
		report = 0
	}
	dir := filepath.Join(req.Workspace, req.Dir)
	return own(self), slices.Concat([]string{self}, sandbox.Profile(*req.Sandbox).Arguments(dir, report, file, req.Argv)), nil
}

// reports reports whether the leader of c is the first stage of a sandbox. A command on a
// terminal has another leader, which starts the stage.
func (c *running) reports() bool { return c.req.Sandbox != nil && !c.req.TTY }

// openReport opens c.report and returns the end of the stage.
func (c *running) openReport() (stage *os.File, err error) {
	c.report, stage, err = os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("open a pipe for the first stage of the sandbox: %w", err)
	}
	return stage, nil
}

// startFailure returns why the ended leader did not become the command; nil if it did.
func (c *running) startFailure() error {
	if c.report == nil {
		return nil
	}
	// the stage has written less than a pipe holds, and has ended
	b, err := io.ReadAll(io.LimitReader(c.report, 4<<10))
	if err != nil {
		return nil
	}
	return sandbox.Failure(string(b))
}
