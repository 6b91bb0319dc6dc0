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

// errUnseen says of a check of the order that there was nothing to look at.
var errUnseen = errors.New("nothing of it was seen")

// order checks the order of calls, for bugs that no end state shows. What shows nothing of what is
// checked fails.
func (r *recording) order() error {
	return errors.Join(r.exitsRecorded(), r.namesDurable(), r.outputsGone())
}

// orderOfSome is order of a recording that need not show everything.
func (r *recording) orderOfSome() error {
	var errs []error
	for _, err := range []error{r.exitsRecorded(), r.namesDurable(), r.outputsGone()} {
		if !errors.Is(err, errUnseen) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// exitsRecorded checks that the end of each command is durable before anybody is told.
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
		return fmt.Errorf("exit told before it was recorded: %w", err)
	}
	return nil
}

// namesDurable checks that each change of a directory of the workspace is durable before acode says that a step is done
// which makes it. Others that run at once may make others.
func (r *recording) namesDurable() error {
	changed := map[string]crash.Call{} // directories, by their last change
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

// durableFor finds a directory that is not durable although a step is told of. Only the step itself and those before it
// may have changed that directory: other tasks have directories of their own. acode prints a line while later steps of
// the task run already, so a directory that a later step changes is left to the line of that step.
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
			return fmt.Errorf("%s is told of before %s is durable: %v", step, dir, last)
		}
	}
	return nil
}

// outputsGone checks that what commands wrote, as they wrote it, is gone for good before acode says
// that the session has come to its end: nobody looks for it afterwards.
func (r *recording) outputsGone() error {
	gone := map[string]bool{} // directories of commands: whether that is durable
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
					return fmt.Errorf("the end is told of before outputs in %s are gone for good", dir)
				}
			}
			return nil
		}
	}
	return fmt.Errorf("the end of the session: %w", errUnseen)
}
