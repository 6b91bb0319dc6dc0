package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// bench is the place where mutants are planted: the unchanged source of the module, and a
// scratch directory.
type bench struct {
	root    string
	scratch string
	// timeout limits the tests of one mutant.
	timeout time.Duration
	// wide runs all tests of the packages that claim a mutant.
	wide bool
}

// outcome is the result of a mutant.
type outcome struct {
	// by is the test that killed the mutant, or "" if it survived.
	by string
	// err means that the mutant could not be tried.
	err error
}

// compileTime is the most time of a build beyond the time of its tests.
const compileTime = 5 * time.Minute

// try plants m and runs the tests that claim it.
func (b *bench) try(ctx context.Context, m *mutant) outcome {
	text, err := m.plant(b.root)
	if err != nil {
		return outcome{err: err}
	}
	dir := filepath.Join(b.scratch, strings.ReplaceAll(m.id, "/", "-"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return outcome{err: err}
	}
	planted := filepath.Join(dir, filepath.Base(m.file))
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(b.root, m.file): planted}})
	if err != nil {
		return outcome{err: err}
	}
	list := filepath.Join(dir, "overlay.json")
	if err := errors.Join(os.WriteFile(planted, text, 0o600), os.WriteFile(list, overlay, 0o600)); err != nil {
		return outcome{err: err}
	}
	for _, c := range m.tests {
		out, err := b.test(ctx, dir, c, "-overlay", list)
		if o := judge(out, err); o.by != "" || o.err != nil {
			return o
		}
	}
	return outcome{}
}

// healthy runs the tests of all claims without a mutant. A test that fails then proves
// nothing.
func (b *bench) healthy(ctx context.Context, ms []mutant) error {
	names := map[string][]string{}
	var subtests []claim
	for _, m := range ms {
		for _, c := range m.tests {
			if strings.Contains(c.names[0], "/") {
				subtests = append(subtests, c)
				continue
			}
			names[c.folder] = append(names[c.folder], c.names...)
		}
	}
	claims := subtests
	for folder, of := range names {
		slices.Sort(of)
		claims = append(claims, claim{folder, slices.Compact(of)})
	}
	slices.SortFunc(claims, func(x, y claim) int { return strings.Compare(x.folder, y.folder) })
	for _, c := range claims {
		out, err := b.test(ctx, b.scratch, c)
		if o := judge(out, err); o.by != "" || o.err != nil {
			return fmt.Errorf("without a mutant the tests of %s fail:\n%s", c.folder, out)
		}
	}
	return nil
}

// marker is the variable that identifies the processes left by a test.
const marker = "ACODE_MUTANT"

// test runs the tests of c and returns the output of go test. It kills the processes that
// the tests left.
func (b *bench) test(ctx context.Context, dir string, c claim, flags ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, b.timeout+compileTime)
	defer cancel()
	args := append([]string{"test", "-vet=off", "-failfast", "-timeout", b.timeout.String()}, flags...)
	if !b.wide || len(flags) == 0 {
		args = append(args, "-run", c.pattern())
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+c.folder)...)
	mark := marker + "=" + dir
	cmd.Dir, cmd.Env = b.root, append(os.Environ(), "ACODE_KEY_KEYRING=false", mark)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return endLeft(mark) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), errors.Join(err, endLeft(mark))
}

var (
	failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	broken = regexp.MustCompile(`(?m)\[(build|setup) failed\]`)
)

// judge derives an outcome from the output of go test.
func judge(out string, err error) outcome {
	switch {
	case err == nil:
		return outcome{}
	case broken.MatchString(out):
		return outcome{err: fmt.Errorf("it does not compile:\n%s", out)}
	case strings.Contains(out, "panic: test timed out"):
		return outcome{by: "time-out"}
	}
	var status *exec.ExitError
	if !errors.As(err, &status) {
		return outcome{err: err}
	}
	if f := failed.FindAllStringSubmatch(out, -1); f != nil {
		return outcome{by: f[0][1]}
	}
	if strings.Contains(out, "panic: ") || strings.Contains(out, "fatal error: ") {
		return outcome{by: "panic"}
	}
	if status.ExitCode() == 1 {
		return outcome{by: "end of the test process"}
	}
	return outcome{err: fmt.Errorf("%w:\n%s", err, out)}
}

// endLeft kills every process with mark in its environment, and its children. Without
// /proc it kills nothing.
func endLeft(mark string) error {
	for range 50 {
		pids := marked(mark)
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			// The process may have ended.
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		timer := time.NewTimer(20 * time.Millisecond)
		<-timer.C
	}
	return fmt.Errorf("processes with %s could not be ended", mark)
}

func marked(mark string) []int {
	// Without /proc nothing is found.
	entries, _ := os.ReadDir("/proc")
	parent, hit := map[int]int{}, map[int]bool{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		_, rest, ok := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		if err != nil || !ok || len(fields) < 2 || fields[0] == "Z" {
			continue
		}
		parent[pid], _ = strconv.Atoi(fields[1])
		env, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		hit[pid] = slices.Contains(strings.Split(string(env), "\x00"), mark)
	}
	var pids []int
	for pid := range parent {
		for up := pid; up > 1; up = parent[up] {
			if hit[up] {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}
