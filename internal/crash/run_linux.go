package crash

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// run is the tracer's state of one Run.
type run struct {
	spec   Spec
	roots  roots
	number int
	pid    int
	// began means that the program has been executed.
	began  bool
	result Result
	// met is the number of calls that the point counts.
	met int
	// err is the first error of the tracer itself.
	err error
	// ended is closed when the root has ended.
	ended chan struct{}
}

func (r *run) snapshot() Result {
	res := r.result
	res.Calls = maps.Clone(res.Calls)
	res.Killed = slices.Clone(res.Killed)
	return res
}

// launch forks the launcher of a run. It must run on the tracer's thread, which becomes
// the parent that may wait for it.
func (s *state) launch(spec Spec, out output, gate *os.File) (*run, error) {
	if s.closing {
		return nil, ErrClosed
	}
	if len(spec.Argv) == 0 {
		return nil, errors.New("run: no program")
	}
	if spec.Role == nil {
		spec.Role = DefaultRole
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find launcher: %w", err)
	}
	r := &run{spec: spec, roots: newRoots(spec.Roots), number: s.runs + 1, ended: make(chan struct{})}
	r.result.Calls = map[string]int{}
	argv := append([]string{strings.TrimSuffix(self, " (deleted)"), launchSwitch}, spec.Argv...)
	env := spec.Env
	if env == nil {
		env = []string{}
	}
	pid, err := syscall.ForkExec(self, argv, &syscall.ProcAttr{Dir: spec.Dir, Env: env,
		Files: []uintptr{out.stdin.Fd(), out.stdout.Fd(), out.stderr.Fd(), gate.Fd()},
		Sys:   &syscall.SysProcAttr{Setpgid: true}})
	if err != nil {
		return nil, fmt.Errorf("start launcher: %w", err)
	}
	r.pid, r.result.PID = pid, pid
	s.runs, s.run = r.number, r
	s.procs[pid] = &process{pid: pid, root: true, launching: true, run: r}
	return r, nil
}

// adoptRoot begins to trace the thread that will execute the program.
func (s *state) adoptRoot(r *run, tid int) error {
	p := s.procs[r.pid]
	if p == nil {
		// The process has ended.
		return nil
	}
	if err := seize(tid); err != nil {
		p.killed = true
		// The process may be gone already.
		_ = unix.Kill(p.pid, unix.SIGKILL)
		return err
	}
	s.threads[tid] = &thread{tid: tid, proc: p}
	return nil
}
