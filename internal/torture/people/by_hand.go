package people

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/acode-dev/acode/internal/torture/model"
)

// does performs manual work. Files and directories stay unchanged while a process of the
// session runs.
func (s *Scenario) does(a Act) error {
	switch a.hand {
	case lookAfter:
		s.killSupervisors()
		return nil
	case waits:
		s.awaitNobody()
		return nil
	}
	if s.now.short == "" || len(s.Left()) > 0 {
		return nil
	}
	s.last = nil
	if a.hand == moves {
		from := s.Workspace()
		s.Moves++
		s.astray = true
		return os.Rename(from, s.Workspace())
	}
	return s.edit(a.choice)
}

// killSupervisors kills the supervisors of this place.
func (s *Scenario) killSupervisors() {
	for _, p := range s.Left() {
		if p.Supervises() && syscall.Kill(p.PID, syscall.SIGKILL) == nil {
			s.Killed++
			s.Excused++
			s.tell("   killed: %v", p)
		}
	}
}

// shutDown sends a signal to t and to all other processes of this place, like the
// shutdown of a machine. It reports whether a command or its supervisor was among them.
func (s *Scenario) shutDown(t *typed, sig syscall.Signal) (commands bool) {
	for _, p := range s.Left() {
		if p.PID == t.cmd.Process.Pid {
			t.signal(sig, false)
			continue
		}
		if syscall.Kill(p.PID, sig) == nil {
			s.tell("   %s: %v", signalNames()[sig], p)
			commands = true
		}
	}
	return commands
}

// edit changes or removes a file that no later step touches, or makes a new file.
func (s *Scenario) edit(choice int) error {
	names := s.free()
	if len(names) == 0 || choice%4 == 0 {
		name := fmt.Sprintf("made by a person %d.txt", choice)
		return s.make(name, model.File{Mode: 0o644, Data: "made by a person\n"})
	}
	name := names[choice%len(names)]
	f, err := s.Read(name)
	if err != nil || f == nil {
		return err
	}
	if choice%4 == 1 && name != model.Bystander {
		s.tell("   removes %s", name)
		s.own[name] = nil
		return os.Remove(filepath.Join(s.Workspace(), name))
	}
	f.Data += "edited by a person\n"
	return s.make(name, *f)
}

// make writes a file by hand.
func (s *Scenario) make(name string, f model.File) error {
	s.tell("   writes %s", name)
	s.own[name] = &f
	at := filepath.Join(s.Workspace(), name)
	if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(os.WriteFile(at, []byte(f.Data), 0o600), os.Chmod(at, f.Mode))
}

// free returns the existing files that no unfinished step changes.
func (s *Scenario) free() []string {
	var busy []string
	for _, st := range s.All() {
		if s.now.status[st.Name()] != "completed" {
			busy = append(busy, st.Touches()...)
		}
	}
	there := s.withOwn(s.States()[s.now.done(s.Plan)])
	return slices.DeleteFunc(slices.Sorted(maps.Keys(there)), func(name string) bool { return slices.Contains(busy, name) })
}
