package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/config"
	"github.com/acode-dev/acode/internal/crash"
	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
)

const (
	// callsSwitch is the first argument of the child that makes calls of an agent.
	callsSwitch = "bench-calls"
	callRepeats = 150
	// fewFiles is the number of files that calls write. The cost of a session grows with
	// its files, and not with its history.
	fewFiles = 50
	// patience is longer than any call of a measurement.
	patience = time.Minute
)

// tools measures the calls of an outside agent, in process.
func (b *bench) tools(ctx context.Context) error {
	dir, err := b.place("tools")
	if err != nil {
		return err
	}
	wrote, bare, err := b.writeCalls(ctx, filepath.Join(dir, "write"))
	if err != nil {
		return err
	}
	b.report.ratio("write_file / its file calls and two synced log writes", wrote, bare, 1.5)
	ran, bare, err := b.runCalls(ctx, filepath.Join(dir, "run"))
	if err != nil {
		return err
	}
	b.report.ratio("run_command / its supervisor's calls and two synced log writes", ran, bare, 1.3)
	if err := b.callSyncs(ctx); err != nil {
		return err
	}
	return b.longConversation(ctx, dir)
}

// agent is a connection of an agent, with a log for the bare side.
type agent struct {
	*app.Calls
	site *app.Site
	dir  string
	log  *os.File
}

func newAgent(ctx context.Context, dir string) (a agent, err error) {
	a.dir = dir
	if err := errors.Join(os.MkdirAll(a.workspace(), 0o755), os.MkdirAll(filepath.Join(dir, "raw"), 0o755), os.MkdirAll(filepath.Join(dir, "locks"), 0o755), preallocate(filepath.Join(dir, "log"))); err != nil {
		return a, err
	}
	environ := map[string]string{"ACODE_HOME": filepath.Join(dir, "home"), "ACODE_KEY_KEYRING": "false", "HOME": dir}
	getenv := func(name string) string { return environ[name] }
	powers := []byte("approvals: {delete: allow, command: allow, git: allow}\n")
	load := func(string) (*config.Loaded, error) {
		return config.Load(config.Sources{Getenv: getenv, UserFile: "config.yml", UserData: powers})
	}
	settings, err := load("")
	if err != nil {
		return a, err
	}
	a.site, err = app.Open(ctx, app.Setup{Settings: settings, Load: load, Workspace: a.workspace(), Redactor: redact.New(nil), Command: "bench", Agent: session.Unconfined, Now: now, Getenv: getenv})
	if err != nil {
		return a, err
	}
	if a.Calls, err = a.site.Converse(ctx, app.Agent{Client: "bench"}, false); err != nil {
		return a, err
	}
	a.log, err = os.OpenFile(filepath.Join(dir, "log"), os.O_RDWR, 0)
	return a, err
}

func (a agent) workspace() string { return filepath.Join(a.dir, "workspace") }

func (a agent) close() error { return errors.Join(a.Close(), a.site.Close(), a.log.Close()) }

// twice makes two synced writes of a log.
func (a agent) twice(i int) error {
	return errors.Join(overwrite(a.log, content("intent", i), 2*i), overwrite(a.log, content("result", i), 2*i+1))
}

// did makes a call and settles its answer, as an agent does that goes on.
func (a agent) did(ctx context.Context, c app.Call) error {
	got, err := a.Do(ctx, c, patience)
	if err == nil && got.Outcome != app.CallDone {
		err = fmt.Errorf("%s: %s %s", c.Arguments, got.Outcome, got.Message)
	}
	if err == nil {
		a.Settle(got.Op)
	}
	return err
}

func writeOf(i int) app.Call {
	c := session.Change{Op: session.KindWrite, Path: fileName(i % fewFiles), Content: string(content("after", i))}
	return app.Call{Tool: "write_file", Arguments: c.Path, Step: session.Step{ID: "call", Kind: session.KindWrite, Changes: []session.Change{c}}}
}

func runOf(script string) app.Call {
	return app.Call{Tool: "run_command", Arguments: script, Step: session.Step{ID: "call", Kind: session.KindRun, Run: &session.Run{Shell: script}}}
}

func (b *bench) writeCalls(ctx context.Context, dir string) (wrote, bare sample, err error) {
	a, err := newAgent(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	raw, err := os.Open(filepath.Join(dir, "raw"))
	if err != nil {
		return nil, nil, err
	}
	for i := range callRepeats + 1 {
		err := errors.Join(
			wrote.timed(func() error { return a.did(ctx, writeOf(i)) }),
			bare.timed(func() error { return errors.Join(a.twice(i), replace(raw, fileName(i%fewFiles), content("after", i))) }))
		if err != nil {
			return nil, nil, err
		}
	}
	return wrote[1:], bare[1:], errors.Join(a.close(), raw.Close())
}

// replace writes a file with the least work: a temporary file, its sync, the rename and
// the sync of the directory.
func replace(dir *os.File, name string, content []byte) error {
	temp := filepath.Join(dir.Name(), ".temp")
	t, err := os.Create(temp)
	if err != nil {
		return err
	}
	_, err = t.Write(content)
	if err := errors.Join(err, unix.Fsync(int(t.Fd())), t.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp, filepath.Join(dir.Name(), name)); err != nil {
		return err
	}
	return unix.Fsync(int(dir.Fd()))
}

func (b *bench) runCalls(ctx context.Context, dir string) (ran, bare sample, err error) {
	a, err := newAgent(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	commands, id := filepath.Join(dir, "commands"), session.ID("01890a5d-ac96-774b-bcce-b302099a8057")
	runner := command.NewRunner(command.Config{Dir: commands, Session: id, Epoch: 1, Now: now,
		Args: []string{app.SuperviseCommand, string(id), filepath.Join(dir, "locks"), commands, "67108864"}})
	defer runner.Close()
	for i := range callRepeats + 1 {
		req := session.CommandRequest{Key: session.KeyOf(id, stepID(i), 1).String(), Epoch: 1, Argv: []string{"/bin/sh", "-e", "-c", "true"}, Workspace: a.workspace(), Env: os.Environ()}
		err := errors.Join(
			ran.timed(func() error { return a.did(ctx, runOf("true")) }),
			bare.timed(func() error {
				_, err := runner.Run(ctx, req)
				return errors.Join(err, a.twice(i), runner.Forget(req.Key))
			}))
		if err != nil {
			return nil, nil, err
		}
	}
	return ran[1:], bare[1:], a.close()
}

// callSyncs counts the fsyncs of calls, and of reads beside them.
func (b *bench) callSyncs(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	tracer := crash.NewTracer()
	defer tracer.Close()
	var counts [3]syncs
	for i, args := range [][]string{{"4", "0"}, {"24", "0"}, {"4", "100"}} {
		s := site{dir: filepath.Join(b.scratch, fmt.Sprintf("call-syncs-%d", i)), acode: self}
		if err := os.MkdirAll(s.workspace(), 0o755); err != nil {
			return err
		}
		if counts[i], err = s.count(ctx, tracer, 0, append([]string{callsSwitch, s.dir}, args...)...); err != nil {
			return err
		}
	}
	b.report.count("fsyncs of the store per changing call", float64(counts[1].minus(counts[0]).store)/20, 2, "counted; write_file")
	b.report.count("fsyncs of the store per reading call", float64(counts[2].minus(counts[0]).store)/100, 0, "counted")
	return nil
}

// callsChild makes some changing and some reading calls. It prints how long the first
// answer took, from the opening of the store, and the peak memory in MB.
func callsChild(ctx context.Context, args []string) error {
	changing, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	reading, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	began := nanos()
	a, err := newAgent(ctx, args[0])
	if err != nil {
		return err
	}
	first := int64(0)
	for i := range changing {
		if err := a.did(ctx, writeOf(i)); err != nil {
			return err
		}
		if i == 0 {
			first = nanos() - began
		}
		for range reading / max(1, changing) {
			a.Record(app.Call{Tool: "read_file", Arguments: "a", Step: session.Step{Kind: session.KindRead, Read: &session.Read{Path: "a"}}}, nil)
		}
	}
	if err := a.close(); err != nil {
		return err
	}
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(callsSaid{first, float64(usage.Maxrss) / 1024})
}

// callsSaid is the output of callsChild.
type callsSaid struct {
	First int64   `json:"first_ns"`
	Peak  float64 `json:"peak_mb"`
}

// longConversation compares the first answer after a restart in a conversation of 10,000
// operations with one of 10.
func (b *bench) longConversation(ctx context.Context, dir string) error {
	const restarts = 7
	var first [2]sample
	peak := 0.0
	for i, n := range []int{10, 10000} {
		at := filepath.Join(dir, fmt.Sprintf("long-%d", n))
		if _, err := callsIn(ctx, at, n); err != nil {
			return err
		}
		for range restarts {
			said, err := callsIn(ctx, at, 1)
			if err != nil {
				return err
			}
			first[i], peak = append(first[i], said.First), max(peak, said.Peak)
		}
	}
	b.report.ratio("first answer after a restart, 10,000 operations / 10", first[1], first[0], 2)
	b.report.count("peak RSS with 10,000 operations, MB", peak, 64, "getrusage of the child")
	return nil
}

func callsIn(ctx context.Context, dir string, n int) (said callsSaid, err error) {
	self, err := os.Executable()
	if err != nil {
		return said, err
	}
	out, err := exec.CommandContext(ctx, self, callsSwitch, dir, strconv.Itoa(n), "0").Output()
	if err != nil {
		return said, fmt.Errorf("make %d calls: %w", n, err)
	}
	return said, json.Unmarshal(out, &said)
}
