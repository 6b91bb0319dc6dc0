package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/internal/crash"
)

func main() {
	crash.LauncherMain()
	ctx := context.Background()
	var err error
	switch {
	case len(os.Args) > 1 && os.Args[1] == app.StageCommand:
		os.Exit(app.Confined(os.Args[2:]))
	case len(os.Args) > 1 && os.Args[1] == operateSwitch:
		err = operateChild(ctx, os.Args[2:])
	case len(os.Args) > 1 && os.Args[1] == app.SuperviseCommand:
		err = app.Supervise(ctx, os.Args[2:], now)
	case len(os.Args) > 1 && os.Args[1] == callsSwitch:
		err = callsChild(ctx, os.Args[2:])
	case len(os.Args) > 1 && os.Args[1] == flushSwitch:
		err = flushChild(ctx, os.Args[2:])
	case len(os.Args) > 1 && os.Args[1] == peakSwitch:
		err = peakChild(ctx, os.Args[2:])
	default:
		err = run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is one run of all measurements.
type bench struct {
	// acode is the program, and given the one that it is a copy of; empty for one that was
	// built.
	acode, given string
	// before is an earlier version of the program; empty for none.
	before string
	// empty is a program that does nothing.
	empty string
	// scratch contains all files of the run, on the measured disk.
	scratch string
	full    bool
	report  report
}

// part is a group of rows that are measured together.
type part struct {
	name string
	run  func(*bench, context.Context) error
}

func parts() []part {
	return []part{
		{"operation", (*bench).operation},
		{"flush", (*bench).flushes},
		{"syncs", (*bench).syncs},
		{"parallel", (*bench).parallel},
		{"files", (*bench).fileSteps},
		{"bytes", (*bench).bytesPerStep},
		{"start", (*bench).starts},
		{"history", (*bench).history},
		{"environment", (*bench).environments},
		{"planning", (*bench).planning},
		{"fresh", (*bench).freshSteps},
		{"drain", delivering((*bench).drains)},
		{"far", delivering((*bench).farDrains)},
		{"beside", delivering((*bench).besides)},
		{"partition", (*bench).partitions},
		{"pass", delivering((*bench).passes)},
		{"drainer", delivering((*bench).processes)},
		{"status", (*bench).statuses},
		{"tools", (*bench).tools},
		{"served", (*bench).served},
		{"agent", (*bench).agent},
		{"since", (*bench).since},
	}
}

func run(ctx context.Context) (err error) {
	b := &bench{}
	only := ""
	flag.StringVar(&b.acode, "acode", "", "`program` to measure; empty builds ./cmd/acode")
	flag.StringVar(&b.before, "before", "", "earlier `program` whose start is compared")
	flag.StringVar(&b.scratch, "dir", "", "scratch `directory`, on the disk that is to be measured; empty makes one")
	flag.StringVar(&only, "run", "", "`pattern` of the parts to run: operation, flush, syncs, files, bytes, start, history, environment, planning, fresh, drain, far, beside, partition, pass, drainer, status, tools, served, agent, since")
	flag.BoolVar(&b.full, "full", false, "1,000,000 events of history and backlog")
	flag.Parse()
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	if b.scratch, err = os.MkdirTemp(b.scratch, "acode-bench-"); err != nil {
		return err
	}
	// The directory holds only scratch files.
	defer func() { _ = os.RemoveAll(b.scratch) }()
	if b.scratch, err = filepath.EvalSymlinks(b.scratch); err != nil {
		return err
	}
	if err := b.build(ctx); err != nil {
		return err
	}
	b.report.begin(os.Stdout)
	for _, p := range parts() {
		if !pattern.MatchString(p.name) {
			continue
		}
		start := nanos()
		if err := p.run(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		fmt.Fprintf(os.Stderr, "bench: %s took %.1f s\n", p.name, float64(nanos()-start)/1e9)
	}
	b.report.end(os.Stdout)
	return nil
}

// place makes a directory for a part.
func (b *bench) place(name string) (string, error) {
	dir := filepath.Join(b.scratch, name)
	return dir, os.MkdirAll(dir, 0o755)
}
