// Command mutants plants mistakes in acode, one at a time, and runs the tests that claim
// to notice each. A mistake that survives shows a promise without a test.
//
// The mistakes are in the folder tables, one file for each package. Those of named.txt
// were once made or once survived; each of them must be killed. Of the others, nine in
// ten must be killed. A mistake replaces an exact text of one file. An overlay of go test
// plants it, so no file of the tree changes.
//
// A mistake that hangs its tests counts as killed. A mistake whose old text is gone, or
// that does not compile, is an error: update its entry. TestTables finds the former.
//
// The exit status is 0 if enough mistakes are killed, 1 if too few are, and 2 if mutants
// could not try them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	enough, err := run(ctx, os.Stdout)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	case !enough:
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	n, jobs  int
	seed     uint64
	run      string
	timeout  time.Duration
	wide     bool
	baseline bool
}

func run(ctx context.Context, out io.Writer) (enough bool, err error) {
	var o options
	flag.IntVar(&o.n, "n", 0, "plant only so `many`, chosen at random; 0 means all")
	flag.Uint64Var(&o.seed, "seed", 1, "of that choice")
	flag.StringVar(&o.run, "run", "", "plant only those whose name, as engine/cancel, matches this `expression`")
	flag.DurationVar(&o.timeout, "timeout", 2*time.Minute, "of the tests of one; one that hangs is killed")
	flag.IntVar(&o.jobs, "j", 2, "mutants at a `time`")
	flag.BoolVar(&o.wide, "wide", false, "run all tests of the packages that claim a mutant, to find those that notice it")
	flag.BoolVar(&o.baseline, "baseline", true, "first run the claimed tests without a mutant")
	flag.Parse()
	ms, err := o.choose()
	if err != nil {
		return false, err
	}
	root, err := moduleRoot()
	if err != nil {
		return false, err
	}
	scratch, err := os.MkdirTemp("", "acode-mutants-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(scratch)
	b := &bench{root: root, scratch: scratch, timeout: o.timeout, wide: o.wide}
	if o.baseline {
		if err := b.healthy(ctx, ms); err != nil {
			return false, err
		}
	}
	return tryAll(ctx, b, ms, o.jobs, out)
}

// choose returns the mutants that the flags select.
func (o options) choose() ([]mutant, error) {
	ms, err := load()
	if err != nil {
		return nil, err
	}
	wanted, err := regexp.Compile(o.run)
	if err != nil {
		return nil, err
	}
	ms = slices.DeleteFunc(ms, func(m mutant) bool { return !wanted.MatchString(m.id) })
	if len(ms) == 0 {
		return nil, fmt.Errorf("no mutant matches %q", o.run)
	}
	if o.n > 0 && o.n < len(ms) {
		r := rand.New(rand.NewPCG(o.seed, 0))
		r.Shuffle(len(ms), func(i, j int) { ms[i], ms[j] = ms[j], ms[i] })
		ms = ms[:o.n]
	}
	return ms, nil
}

// moduleRoot returns the directory of go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, gone := os.Stat(filepath.Join(dir, "go.mod")); gone == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("this is no directory of the module")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

// tryAll tries ms, jobs at a time, and prints each outcome.
func tryAll(ctx context.Context, b *bench, ms []mutant, jobs int, out io.Writer) (enough bool, err error) {
	outcomes := make([]outcome, len(ms))
	q := newQueue(ms)
	var said sync.Mutex
	var workers sync.WaitGroup
	for range max(jobs, 1) {
		workers.Go(func() {
			for i, ok := q.next(); ok && ctx.Err() == nil; i, ok = q.next() {
				outcomes[i] = b.try(ctx, &ms[i])
				q.done(i)
				if ctx.Err() == nil {
					said.Lock()
					fmt.Fprintln(out, line(ms[i], outcomes[i]))
					said.Unlock()
				}
			}
		})
	}
	workers.Wait()
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	return report(out, ms, outcomes)
}

func line(m mutant, o outcome) string {
	switch {
	case o.err != nil:
		return fmt.Sprintf("ERROR     %s: %v", m.id, o.err)
	case o.by == "":
		return fmt.Sprintf("SURVIVED  %s (%s): %s", m.id, m.file, m.why)
	}
	return fmt.Sprintf("killed    %s by %s", m.id, o.by)
}

// leastKilled is the share of the unnamed mutants that must be killed, in percent.
const leastKilled = 90

// report prints a summary and returns whether enough were killed.
func report(out io.Writer, ms []mutant, outcomes []outcome) (enough bool, err error) {
	// Index 0 counts the named mutants, and index 1 the others.
	var total, killed [2]int
	var survivors []mutant
	errs := 0
	for i, m := range ms {
		group := 1
		if strings.HasPrefix(m.id, named+"/") {
			group = 0
		}
		switch o := outcomes[i]; {
		case o.err != nil:
			errs++
			continue
		case o.by == "":
			survivors = append(survivors, m)
		default:
			killed[group]++
		}
		total[group]++
	}
	if len(survivors) > 0 {
		fmt.Fprintln(out, "\nsurvivors:")
	}
	for _, m := range survivors {
		fmt.Fprintf(out, "  %s (%s): %s\n", m.id, m.file, m.why)
	}
	share := 100
	if total[1] > 0 {
		share = 100 * killed[1] / total[1]
	}
	fmt.Fprintf(out, "\n%d of %d named, %d of %d others killed (%d %%)\n", killed[0], total[0], killed[1], total[1], share)
	if errs > 0 {
		return false, fmt.Errorf("%d mutants could not be tried", errs)
	}
	return killed[0] == total[0] && share >= leastKilled, nil
}
