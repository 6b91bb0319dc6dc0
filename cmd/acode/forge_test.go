package main

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
)

// claim makes a session's command directory hold the finished claim of a key for a command that
// is not the plan's: what a bug or a foreign hand could leave.
func claim(ts *testscript.TestScript, args []string) {
	id, key, dir := args[0], args[1], filepath.Join(ts.Getenv("ACODE_HOME"), "commands", args[0])
	path, err := exec.LookPath("acode")
	ts.Check(err)
	r := command.NewRunner(command.Config{
		Dir: dir, Session: session.ID(id), Epoch: 1, Now: time.Now,
		Executable: path, Args: []string{"supervise", id, "", dir, "1000000"},
	})
	_, err = r.Run(context.Background(), session.CommandRequest{Key: key, Epoch: 1, Argv: args[2:], Workspace: ts.MkAbs(".")})
	ts.Check(errors.Join(err, r.Close()))
}

// stray appends the start of a step that the plan does not have to a session's journal, through
// the store's own door, so that every hash and signature is right.
func stray(ts *testscript.TestScript, args []string) {
	ctx := context.Background()
	s, err := local.Open(ctx, local.Options{
		Home: ts.Getenv("ACODE_HOME"), Now: time.Now, Version: version,
		Redactor: redact.New(nil), Env: func(string) string { return "" },
	})
	ts.Check(err)
	w, err := s.Load(ctx, session.ID(args[0]))
	ts.Check(err)
	step := session.StepID{Task: "no", Step: "such"}
	_, err = w.Append(ctx,
		session.Draft{Type: session.ExecutionAcquired, Data: session.ExecutionAcquiredData{Device: s.Device(), Workspace: ts.MkAbs(".")}},
		session.Draft{Type: session.StateChanged, Data: session.StateChangedData{From: w.Session().State, To: session.Executing}},
		session.Draft{Type: session.StepStarted, Data: session.StepStartedData{
			StepID: step, Kind: session.KindRead, Attempt: 1, Key: "v1:" + args[0] + ":no/such/main:1", Digest: "x"}})
	ts.Check(errors.Join(err, w.Close(), s.Close()))
}
