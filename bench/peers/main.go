package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"time"
)

const (
	stepsOfPlan  = 100
	stepsDone    = 50
	operations   = 600
	resumes      = 40
	maxOperation = 0.77
	maxResume    = 0.7
	maxWhole     = 1.0
	// resumeSwitch is the first argument of the child that resumes a DBOS workflow.
	resumeSwitch  = "peer-resume"
	prepareSwitch = "peer-prepare"
	wholeSwitch   = "peer-whole"
)

func main() {
	ctx := context.Background()
	var err error
	switch {
	case len(os.Args) == 3 && os.Args[1] == resumeSwitch:
		err = resumePeer(ctx, os.Args[2])
	case len(os.Args) == 3 && os.Args[1] == prepareSwitch:
		err = preparePeer(ctx, os.Args[2])
	case len(os.Args) == 4 && os.Args[1] == wholeSwitch:
		err = wholePeer(ctx, os.Args[2], os.Args[3])
	case len(os.Args) == 2 && os.Args[1] == "river":
		err = alone(ctx)
	default:
		err = compare(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// compare prints the ratios. Only a failed measurement is an error.
func compare(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "acode-peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(build(ctx, dir, "../..", "./cmd/acode"), build(ctx, dir, ".", ".", "./least", "./empty")); err != nil {
		return err
	}
	ours, theirs, err := compareOperations(ctx, dir)
	if err != nil {
		return fmt.Errorf("operations: %w", err)
	}
	fmt.Println("| measurement | median | p95 | at most | | measured |\n| --- | --: | --: | --: | --- | --- |")
	report("durable operation / one of DBOS Transact Go on SQLite", ours, theirs, maxOperation)
	if ours, theirs, err = compareWhole(ctx, dir); err != nil {
		return fmt.Errorf("whole runs: %w", err)
	}
	report("the real program: 1,000 more read steps / 1,000 more no-op steps of DBOS at FULL", ours, theirs, maxWhole)
	if err := compareCommits(ctx, dir); err != nil {
		return fmt.Errorf("commits: %w", err)
	}
	if ours, theirs, err = compareResumes(ctx, dir); err != nil {
		return fmt.Errorf("resumes: %w", err)
	}
	report("resume, process start to first new step / the same of DBOS", ours, theirs, maxResume)
	if err := compareStarts(ctx, dir); err != nil {
		return fmt.Errorf("starts: %w", err)
	}
	if err := compareDrains(ctx, dir); err != nil {
		return fmt.Errorf("drains: %w", err)
	}
	return nil
}

// build installs programs in dir, all built like the release. It copies them like an
// installation. The linker writes through a mapping, so its output lies in the cache page
// by page, and a large program takes a tenth longer to start from there.
func build(ctx context.Context, dir, module string, programs ...string) error {
	linked, err := os.MkdirTemp(dir, "linked-")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-o", linked}, programs...)...)
	cmd.Dir, cmd.Env = module, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %v: %w: %s", programs, err, out)
	}
	return os.CopyFS(dir, os.DirFS(linked))
}

// alone compares drains only.
func alone(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "acode-peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return compareDrains(ctx, dir)
}

func report(what string, a, b []time.Duration, limit float64) {
	median, p95 := quantile(a, 0.5)/quantile(b, 0.5), quantile(a, 0.95)/quantile(b, 0.95)
	mark, bound := "PASS", fmt.Sprintf("%.2f", limit)
	switch {
	case math.IsInf(limit, 1):
		mark, bound = "", ""
	case median > limit:
		mark = "over"
	case p95 > limit:
		mark = "over at p95"
	}
	fmt.Printf("| %s | %.2f | %.2f | %s | %s | %.3f / %.3f ms; %.3f / %.3f ms; n=%d |\n", what, median, p95, bound, mark,
		quantile(a, 0.5), quantile(a, 0.95), quantile(b, 0.5), quantile(b, 0.95), len(a))
}

// quantile returns milliseconds, by the nearest rank.
func quantile(s []time.Duration, q float64) float64 {
	sorted := slices.Sorted(slices.Values(s))
	return float64(sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]) / 1e6
}
