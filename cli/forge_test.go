package cli

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/workspace"
)

// claim writes a finished claim of a key into the command directory of a session. The
// command is not the one of the plan, as after a bug or a manipulation.
func claim(ts *testscript.TestScript, args []string) {
	id, key, dir := args[0], args[1], filepath.Join(ts.Getenv("ACODE_HOME"), "commands", args[0])
	path, err := exec.LookPath("acode")
	ts.Check(err)
	locks := ts.MkAbs("../forged-locks")
	ts.Check(os.MkdirAll(locks, 0o700))
	r := command.NewRunner(command.Config{
		Dir: dir, Session: session.ID(id), Epoch: 1, Now: time.Now,
		Executable: path, Args: []string{"supervise", id, locks, dir, "1000000"},
	})
	_, err = r.Run(context.Background(), session.CommandRequest{Key: key, Epoch: 1, Argv: args[2:], Workspace: ts.MkAbs(".")})
	ts.Check(errors.Join(err, r.Close()))
}

// reopened opens a session through the store, so that every hash and signature is right.
// It takes the session over for execution and appends the drafts of make.
func reopened(ts *testscript.TestScript, id string, make func(context.Context, *local.Store, *local.Writer) ([]session.Draft, error)) {
	ctx := context.Background()
	s, err := local.Open(ctx, local.Options{
		Home: ts.Getenv("ACODE_HOME"), Now: time.Now, Version: Version,
		Redactor: redact.New(nil), Env: func(string) string { return "" },
	})
	ts.Check(err)
	w, err := s.Load(ctx, session.ID(id))
	ts.Check(err)
	drafts, err := make(ctx, s, w)
	ts.Check(err)
	_, err = w.Append(ctx, append([]session.Draft{
		{Type: session.ExecutionAcquired, Data: session.ExecutionAcquiredData{Device: s.Device(), Workspace: ts.MkAbs(".")}},
		{Type: session.StateChanged, Data: session.StateChangedData{From: w.Session().State, To: session.Executing}},
	}, drafts...)...)
	ts.Check(errors.Join(err, w.Close(), s.Close()))
}

// stray appends the start of a step that the plan does not have to a session's journal.
func stray(ts *testscript.TestScript, args []string) {
	reopened(ts, args[0], func(context.Context, *local.Store, *local.Writer) ([]session.Draft, error) {
		return []session.Draft{{Type: session.StepStarted, Data: session.StepStartedData{
			StepID: session.StepID{Task: "no", Step: "such"}, Kind: session.KindRead, Attempt: 1,
			Key: "v1:" + args[0] + ":no/such/main:1", Digest: "x"}}}, nil
	})
}

// midway leaves a session as if its process was killed right after it committed the
// intent of the plan's first step. The script decides which files are already written.
func midway(ts *testscript.TestScript, args []string) {
	reopened(ts, args[0], func(ctx context.Context, s *local.Store, w *local.Writer) ([]session.Draft, error) {
		p, err := s.Plan(ctx, w.Session())
		if err != nil {
			return nil, err
		}
		step := p.Tasks[0].Steps[0]
		d := session.StepStartedData{
			StepID: session.StepID{Task: p.Tasks[0].ID, Step: step.ID}, Kind: step.Kind, Attempt: 1, Digest: step.Digest(),
		}
		d.Key = session.Key{Session: w.Session().ID, Step: d.StepID, Operation: "main", Attempt: 1}.String()
		if len(step.Changes) > 0 {
			d.Files, err = prepared(ctx, ts, w, d.Key, step.Changes)
		}
		return []session.Draft{{Type: session.StepStarted, Data: d}}, err
	})
}

// prepared hashes the files that a step would change, and keeps the content that it would
// remove.
func prepared(ctx context.Context, ts *testscript.TestScript, w *local.Writer, key string, changes []session.Change) ([]session.Transition, error) {
	root, err := workspace.Open(ts.MkAbs("."), time.Now)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	files, err := root.Prepare(ctx, key, changes)
	defer root.Discard(key)
	for i, f := range files {
		moved := slices.ContainsFunc(files, func(o session.Transition) bool { return o.From == f.Path })
		if f.Pre.Absent() || moved {
			continue
		}
		r, err := root.Image(f.Path, f.Pre.Hash)
		if err != nil {
			return nil, err
		}
		ref, err := w.Stage(ctx, r, f.Pre.Size)
		if err != nil {
			return nil, err
		}
		files[i].Kept = ref.Hash
	}
	return files, err
}
