package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
)

const (
	startRuns = 30
	// smallReads is the number of steps done before the kill.
	smallReads = 50
	// planSteps is the number of steps of the plan.
	planSteps = 100
	// bigBytes is the size of the file that the step in progress reads. Reading it takes
	// long enough for a kill.
	bigBytes = 1 << 29
	// settling is the age after which a file no longer counts as just touched.
	settling = 100 * time.Millisecond
	// fifo is the pipe beside the workspace that a command writes to when it runs.
	fifo = "fifo"
)

// killed makes a site whose session was killed with -9 half-way through a plan of 100
// steps, while it read a large file. Further killed resumes change only the epoch. next
// is the step after the read.
func (b *bench) killed(ctx context.Context, name string, git bool, next string) (site, error) {
	files := map[string]string{}
	var steps []string
	for i := range planSteps {
		files[fmt.Sprintf("r%d", i)] = strings.Repeat("text ", 100)
		steps = append(steps, fmt.Sprintf("read: {path: r%d}", i))
	}
	steps[smallReads] = "read: {path: big}"
	steps[smallReads+1] = next
	s, err := b.newSite(name, files)
	if err != nil {
		return s, err
	}
	big := filepath.Join(s.workspace(), "big")
	if err := errors.Join(os.WriteFile(big, nil, 0o644), os.Truncate(big, bigBytes), s.writePlan(steps)); err != nil {
		return s, err
	}
	if git {
		if err := makeRepository(ctx, s.workspace()); err != nil {
			return s, err
		}
	}
	<-time.After(settling)
	_, err = s.until(ctx, "started", smallReads+1, "run", "--json", "--plan", s.plan())
	return s, err
}

func makeRepository(ctx context.Context, dir string) error {
	for _, args := range []string{"init -q", "add -A", "-c user.name=bench -c user.email=bench@localhost -c gc.auto=0 commit -q -m bench"} {
		cmd := exec.CommandContext(ctx, "git", strings.Fields(args)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %s", args, err, out)
		}
	}
	return nil
}

// starts compares the time from the start of a resume to its first step with a program
// that does nothing.
func (b *bench) starts(ctx context.Context) error {
	var sites [2]site
	var commands [2]commandSite
	var err error
	for i, git := range []bool{false, true} {
		if sites[i], err = b.killed(ctx, fmt.Sprintf("start-%d", i), git, "read: {path: r51}"); err != nil {
			return err
		}
		if commands[i], err = b.commandSite(ctx, fmt.Sprintf("start-command-%d", i), git); err != nil {
			return err
		}
	}
	var empty, whole sample
	var first, command [2]sample
	for range startRuns {
		if err := empty.timed(exec.CommandContext(ctx, b.empty).Run); err != nil {
			return err
		}
		for i := range sites {
			took, err := sites[i].until(ctx, "started", 1, "resume", "--json")
			if err != nil {
				return err
			}
			first[i] = append(first[i], took)
			if took, err = commands[i].first(ctx); err != nil {
				return err
			}
			command[i] = append(command[i], took)
		}
		if err := whole.timed(sites[0].command(ctx, "version").Run); err != nil {
			return err
		}
	}
	b.report.ratio("process start to first resumed step / empty Go program", first[0], empty, 8)
	b.report.ratio("… in a git repository", first[1], empty, 10.5)
	b.report.ratio("… when the first step is a command", command[0], empty, 12)
	b.report.ratio("… both", command[1], empty, 14)
	b.report.ratio("(for comparison: acode version / empty Go program)", whole, empty, 5)
	return nil
}

// commandSite is a site whose next step is a command, and a copy of its store from before
// that step.
type commandSite struct {
	site
	fifo *os.File
}

// commandSite marks the read in progress as done, so that the command is the next step.
func (b *bench) commandSite(ctx context.Context, name string, git bool) (commandSite, error) {
	at := filepath.Join(b.scratch, name, fifo)
	s, err := b.killed(ctx, name, git, fmt.Sprintf("run: [/bin/sh, -c, %q]", "echo >"+at))
	if err != nil {
		return commandSite{}, err
	}
	err = s.rewrite(ctx, func(w *local.Writer) ([]session.Draft, error) {
		id := stepID(smallReads)
		if w.Session().Steps[id].Status == session.StepDone {
			return nil, nil
		}
		return []session.Draft{{Type: session.StepCompleted, Data: session.StepCompletedData{StepID: id, Key: key(w, id, 1), Attempt: 1}}}, nil
	})
	if err != nil {
		return commandSite{}, err
	}
	if err := unix.Mkfifo(at, 0o600); err != nil {
		return commandSite{}, fmt.Errorf("make fifo: %w", err)
	}
	f, err := os.OpenFile(at, os.O_RDWR, 0)
	if err != nil {
		return commandSite{}, err
	}
	return commandSite{s, f}, os.Rename(s.home(), s.home()+".before")
}

// first resumes and returns the time from the start to the command. The resume then
// continues to its end.
func (c commandSite) first(ctx context.Context) (int64, error) {
	if err := os.RemoveAll(c.home()); err != nil {
		return 0, err
	}
	if out, err := exec.CommandContext(ctx, "cp", "-a", c.home()+".before", c.home()).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("copy store: %w: %s", err, out)
	}
	if err := c.syncCopy(); err != nil {
		return 0, err
	}
	ran := make(chan int64, 1)
	go func() {
		var b [1]byte
		// If nothing arrives, the resume below fails.
		_, _ = c.fifo.Read(b[:])
		ran <- nanos()
	}()
	started, err := follow(c.command(ctx, "resume", "--json"), func(line) bool { return true })
	if err != nil {
		return 0, err
	}
	return <-ran - started, nil
}

// syncCopy syncs the copy of the store. The store of an interrupted session is synced
// too; otherwise the resume would pay for the copying.
func (c commandSite) syncCopy() error {
	f, err := os.Open(c.home())
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
}

// rewrite appends events to the only session of s as its holder, until events returns
// none.
func (s site) rewrite(ctx context.Context, events func(*local.Writer) ([]session.Draft, error)) error {
	st, err := openStore(ctx, s.home())
	if err != nil {
		return err
	}
	id, err := only(ctx, st)
	if err != nil {
		return err
	}
	w, err := st.Load(ctx, id)
	if err != nil {
		return err
	}
	for {
		ds, err := events(w)
		if err != nil || len(ds) == 0 {
			return errors.Join(err, w.Close(), st.Close())
		}
		if _, err := w.Append(ctx, ds...); err != nil {
			return err
		}
	}
}

// only returns the single session of a store.
func only(ctx context.Context, st *local.Store) (session.ID, error) {
	list, err := st.Summaries(ctx, "")
	if err != nil {
		return "", err
	}
	if len(list) != 1 {
		return "", fmt.Errorf("the store holds %d sessions, want 1", len(list))
	}
	return list[0].ID, nil
}
