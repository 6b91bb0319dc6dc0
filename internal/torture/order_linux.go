package main

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acode-dev/acode/internal/crash"
	"github.com/acode-dev/acode/internal/torture/scene"
)

// errUnseen means that a check of the order had nothing to check.
var errUnseen = errors.New("nothing of it was seen")

// order checks the order of calls, for bugs that no end state shows. A check without
// matching calls fails.
func (r *recording) order() error {
	return errors.Join(r.exitsRecorded(), r.namesDurable(), r.outputsGone())
}

// orderOfSome is order for a recording that need not show everything.
func (r *recording) orderOfSome() error {
	var errs []error
	for _, err := range []error{r.exitsRecorded(), r.namesDurable(), r.outputsGone()} {
		if !errors.Is(err, errUnseen) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// exitsRecorded checks that the end of each command is durable before it is reported.
func (r *recording) exitsRecorded() error {
	supervisor := func(c crash.Call) bool { return c.Role == crash.RoleSupervisor }
	told := func(c crash.Call) bool {
		return supervisor(c) && c.Kind == crash.KindSend && bytes.Contains(c.Data, []byte(`"op":"done"`))
	}
	if !slices.ContainsFunc(r.calls, told) {
		return fmt.Errorf("the end of a command: %w", errUnseen)
	}
	err := crash.DurableBefore(r.calls, func(c crash.Call) bool {
		return supervisor(c) && c.Kind == crash.KindWrite && c.Offset == scene.ExitAt && strings.HasPrefix(c.Path, r.Home())
	}, told)
	if err != nil {
		return fmt.Errorf("exit reported before it was recorded: %w", err)
	}
	return nil
}

// namesDurable checks that the changes of directories by a step are durable before acode
// reports the step done. Steps that run at once may make other changes.
func (r *recording) namesDurable() error {
	// changed holds the last change of each directory.
	changed := map[string]crash.Call{}
	seen := 0
	for _, c := range r.calls {
		switch {
		case !c.OK() || c.Role != crash.RoleAcode:
		case c.Kind == crash.KindRename || c.Kind == crash.KindUnlink || c.Kind == crash.KindLink || c.Kind == crash.KindMkdir:
			for _, name := range []string{c.Path, c.NewPath} {
				if strings.HasPrefix(name, r.Workspace()+"/") {
					changed[filepath.Dir(name)] = c
					seen++
				}
			}
		case c.Kind == crash.KindSync:
			if last, ok := changed[c.Path]; ok && c.Begin > last.End {
				delete(changed, c.Path)
			}
		case c.Kind == crash.KindAck:
			for name := range told(string(c.Data)) {
				if err := r.durableFor(name, changed); err != nil {
					return err
				}
			}
		}
	}
	if seen == 0 {
		return fmt.Errorf("a change of a directory: %w", errUnseen)
	}
	return nil
}

// durableFor finds a directory that is not durable although acode reported a step done.
// Only the step and earlier steps may have changed that directory, because other tasks
// have their own directories. acode may print a line while later steps of the task
// run. Directories that a later step changes are therefore checked at the line of that
// step.
func (r *recording) durableFor(step string, changed map[string]crash.Call) error {
	_, at := r.Find(step)
	for _, row := range r.Rows() {
		i := slices.Index(row.Steps, at)
		if i < 0 {
			continue
		}
		for dir, last := range changed {
			name, _ := filepath.Rel(r.Workspace(), dir)
			later := slices.ContainsFunc(row.Steps[i+1:], func(at int) bool { return r.Steps[at].In(name) })
			if !row.Owns(name+"/") || later {
				continue
			}
			return fmt.Errorf("%s is reported done before %s is durable: %v", step, dir, last)
		}
	}
	return nil
}

// outputsGone checks that the temporary outputs of commands are durably removed before
// acode reports the end of the session. No process removes them later.
func (r *recording) outputsGone() error {
	// gone records whether the removal of a command's directory is durable.
	gone := map[string]bool{}
	for _, c := range r.calls {
		switch {
		case !c.OK() || c.Role != crash.RoleAcode:
		case c.Kind == crash.KindUnlink && strings.HasPrefix(c.Path, filepath.Join(r.Home(), "commands")+"/"):
			gone[filepath.Dir(c.Path)] = false
		case c.Kind == crash.KindSync:
			if _, ok := gone[c.Path]; ok {
				gone[c.Path] = true
			}
		case c.Kind == crash.KindAck && bytes.Contains(c.Data, []byte(" completed: ")):
			for dir, durable := range gone {
				if !durable {
					return fmt.Errorf("the end is reported before the outputs in %s are durably removed", dir)
				}
			}
			return nil
		}
	}
	return fmt.Errorf("the end of the session: %w", errUnseen)
}
