package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/internal/crash"
	"github.com/acode-dev/acode/internal/disk"
	"github.com/acode-dev/acode/internal/torture/model"
	"github.com/acode-dev/acode/internal/torture/scene"
)

// life is a session, or a resume of it, on a disk whose power can be cut at any write.
type life struct {
	scene.Place
	kind disk.Kind
	// dir contains the mount point, which always has the same path.
	dir string
	// disk has recorded all writes.
	disk *disk.Disk
	// begun is the disk before acode started.
	begun *disk.Disk
	// from is the number of the first write that counts.
	from int
	// states holds the workspace by the number of completed steps.
	states []model.Tree
	said   []saying
	// kept holds the steps with a receipt before.
	kept map[string]bool
	// cuts is the number of power cuts before.
	cuts int
	// after is the number of writes before the last cut.
	after int
	// traces is a copy of the disk after a breach.
	traces string
}

// saying is output of acode and the number of writes before it.
type saying struct {
	writes int
	text   string
}

// told returns the output before the power was cut after n writes.
func (l *life) told(n int) string {
	var b strings.Builder
	for _, s := range l.said {
		if s.writes <= n {
			b.WriteString(s.text)
		}
	}
	return b.String()
}

// lived executes the plan undisturbed on a new disk of the kind, with an existing store
// if warm is true.
func (h *harness) lived(ctx context.Context, k disk.Kind, dir string, warm bool) (l *life, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	formatted, err := k.Format(ctx, dir)
	if err != nil {
		return nil, err
	}
	l = &life{kind: k, dir: dir, disk: formatted, states: h.plan.States(),
		Place: scene.Place{Acode: h.acode, Root: filepath.Join(dir, "mount", "current"), Plan: h.plan}}
	return l, l.mounted(func() error {
		err := l.Prepare(l.Plan.YAML())
		if warm && err == nil {
			err = (&recording{Place: l.Place}).warm(ctx)
		}
		if err = errors.Join(err, syncAll(l.Root)); err != nil {
			return err
		}
		l.begun = l.disk.Fork()
		t := &trial{Case: scene.Case{Place: l.Place}, strict: true}
		if err := l.follow(ctx, t, "run", "--plan", l.PlanFile()); err != nil {
			return err
		}
		if t.Bad() {
			return fmt.Errorf("undisturbed run on %s: %s\n%s", k.Name, t.Outcome, t.printed.String())
		}
		return nil
	})
}

// mounted calls do while the disk is mounted.
func (l *life) mounted(do func() error) error {
	m, err := l.kind.Mount(l.disk, l.dir)
	if err != nil {
		return err
	}
	return errors.Join(do(), m.Close())
}

func syncAll(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
}

// follow executes t with args and records acode's output with its times.
func (l *life) follow(ctx context.Context, t *trial, args ...string) error {
	l.from = l.disk.Len()
	t.traced, t.record = true, func(c crash.Call) {
		if c.Kind == crash.KindAck && c.FD == 1 && c.Role == crash.RoleAcode {
			l.said = append(l.said, saying{l.disk.Len(), string(c.Data)})
		}
	}
	return t.carry(ctx, args)
}

// cut cuts the power after n writes, mounts the remaining disk, and judges a resume. It
// returns the life of that resume, which can be cut again.
func (l *life) cut(ctx context.Context, n int, rng *rand.Rand) (*life, *trial, error) {
	next := &life{Place: l.Place, kind: l.kind, dir: l.dir, states: l.states, cuts: l.cuts + 1, after: n,
		disk: l.disk.Cut(n, rng), said: []saying{{0, l.told(n)}}}
	boot, err := otherBoot(filepath.Join(l.dir, "current"), next.cuts)
	if err != nil {
		return nil, nil, err
	}
	t := &trial{Case: scene.Case{Place: l.Place}, boot: boot}
	t.printed.WriteString(l.told(n))
	args := []string{"resume"}
	if rng.IntN(4) == 0 {
		args = append(args, "--restart-step")
	}
	return next, t, next.mounted(func() error { return next.goOn(ctx, t, l.kept, args...) })
}

// goOn checks the content of the disk, where the steps in kept must be done, and resumes.
func (l *life) goOn(ctx context.Context, t *trial, kept map[string]bool, args ...string) error {
	err := l.compare(ctx, t, kept)
	if err == nil && !t.Bad() {
		err = l.follow(ctx, t, args...)
	}
	if err == nil && t.Bad() {
		err = l.keep()
	}
	return err
}

// keep copies the content of the disk for later inspection, with an image of the disk at
// the beginning.
func (l *life) keep() error {
	l.traces = fmt.Sprintf("%s-%d-%d-%d", l.dir, l.cuts, l.after, l.disk.Len())
	out, err := exec.Command("cp", "-a", l.Root, l.traces).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("copy the content of the disk: %w: %s", err, out)
	}
	return errors.Join(err, l.disk.Save(l.traces+".img"))
}

// compare checks the state after the cut: the steps that acode reported done, and the
// steps with a receipt before the session.
func (l *life) compare(ctx context.Context, t *trial, kept map[string]bool) error {
	if err := t.compareJournal(ctx); err != nil {
		return err
	}
	s, err := t.readStore(ctx)
	if err != nil {
		return err
	}
	l.kept = s.done
	must := told(t.printed.String())
	maps.Copy(must, kept)
	return t.compareEffects(l.states, must)
}

// cutsInARow is the most power cuts before a session may complete.
const cutsInARow = 3

// cutAgain cuts the power, and every second time also that of the resume.
func (l *life) cutAgain(ctx context.Context, rng *rand.Rand, done func(*life, *trial) error) error {
	for {
		next, t, err := l.cut(ctx, l.moment(rng), rng)
		if err == nil {
			err = done(next, t)
		}
		if err != nil || t.Bad() || t.Uncertain > 0 || next.cuts == cutsInARow || rng.IntN(2) == 0 {
			// The manual work after an answer was not synced.
			return err
		}
		l = next
	}
}

// moment draws the time of the power cut: at any write, or just after acode reported a
// step.
func (l *life) moment(rng *rand.Rand) int {
	const justAfter = 4
	n := l.from + rng.IntN(l.disk.Len()-l.from+1)
	if rng.IntN(2) == 0 {
		n = max(l.from, l.said[rng.IntN(len(l.said))].writes+rng.IntN(justAfter))
	}
	return min(n, l.disk.Len())
}
