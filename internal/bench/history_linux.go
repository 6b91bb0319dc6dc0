package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
)

const (
	// peakSwitch is the first argument of the child that measures memory.
	peakSwitch  = "bench-peak"
	historyRuns = 30
	shortEvents = 1000
)

// history compares the time and memory of resumes with a short and a long history.
func (b *bench) history(ctx context.Context) error {
	long := 200_000
	if b.full {
		long = 1_000_000
	}
	var sites [2]site
	var err error
	for i, events := range []int{shortEvents, long} {
		if sites[i], err = b.killed(ctx, fmt.Sprintf("history-%d", i), false, "read: {path: r51}"); err != nil {
			return err
		}
		if err := sites[i].lengthen(ctx, events); err != nil {
			return err
		}
	}
	var first [2]sample
	for range historyRuns {
		for i := range sites {
			took, err := sites[i].until(ctx, "started", 1, "resume", "--json")
			if err != nil {
				return err
			}
			first[i] = append(first[i], took)
		}
	}
	b.report.ratio(fmt.Sprintf("the same with %d events of history / with %d", long, shortEvents), first[1], first[0], 1.2)
	if err := b.recovery(ctx, sites); err != nil {
		return err
	}
	for i, events := range []int{shortEvents, long} {
		peak, err := sites[i].peak(ctx)
		if err != nil {
			return err
		}
		b.report.count(fmt.Sprintf("peak RSS of a resume to its end, %d events, MB", events), peak, 24, "getrusage of the child")
	}
	return nil
}

// lengthen makes the history of s events long, with failed attempts of the step in
// progress.
func (s site) lengthen(ctx context.Context, events int) error {
	id := stepID(smallReads)
	return s.rewrite(ctx, func(w *local.Writer) ([]session.Draft, error) {
		st := w.Session().Steps[id]
		var ds []session.Draft
		left := events - int(w.Session().LastSeq)
		for n := st.Attempt; len(ds) < min(left, 1000); n++ {
			ds = append(ds,
				session.Draft{Type: session.StepFailedEvent, Data: session.StepFailedData{StepID: id, Key: key(w, id, n), Attempt: n, Code: session.ErrFileStep, Message: "the file could not be read"}},
				session.Draft{Type: session.StepStarted, Data: session.StepStartedData{StepID: id, Kind: session.KindRead, Key: key(w, id, n+1), Attempt: n + 1, Digest: strings.Repeat("0", 64), By: "resume"}})
		}
		return ds, nil
	})
}

// recovery measures opening the store, verifying the session and loading it.
func (b *bench) recovery(ctx context.Context, sites [2]site) error {
	var all sample
	for range 40 {
		err := all.timed(func() error { return sites[1].load(ctx) })
		if err != nil {
			return err
		}
	}
	b.report.times("state recovery: open, verify and load, the long history", all, 250, 500, "target, maximum")
	return nil
}

func (s site) load(ctx context.Context) error {
	return s.rewrite(ctx, func(*local.Writer) ([]session.Draft, error) { return nil, nil })
}

// peak resumes s to its end and returns the peak memory of acode in MB. A child starts
// acode, because Linux counts the memory of the parent as that of a program it starts.
func (s site) peak(ctx context.Context) (float64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, self, peakSwitch, s.acode, "resume", "--json")
	cmd.Dir, cmd.Env = s.workspace(), s.environ()
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("peak: %w", err)
	}
	return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
}

// peakChild runs a program and prints its peak memory in MB.
func peakChild(ctx context.Context, args []string) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return err
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return errors.New("no resource usage")
	}
	_, err := fmt.Printf("%.1f\n", float64(usage.Maxrss)*1024/1e6)
	return err
}
