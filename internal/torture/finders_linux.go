package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/acode-dev/acode/internal/crash"
	"github.com/acode-dev/acode/internal/disk"
	"github.com/acode-dev/acode/internal/torture/model"
	"github.com/acode-dev/acode/internal/torture/scene"
)

// judge searches for a mistake in one way.
type judge struct {
	name string
	// find returns the finding, or "".
	find func(context.Context, *harness) (string, error)
}

// endJudge compares the end of an undisturbed session, which stops once for an approval,
// with the plan.
func endJudge() judge {
	return judge{"end state", func(ctx context.Context, h *harness) (string, error) {
		t, err := h.trial(ctx, "end", nil, nil)
		if err != nil || !t.Bad() {
			return "", err
		}
		return t.String(), nil
	}}
}

// burstJudge compares the last output of commands with the captures.
func burstJudge() judge {
	return judge{"last words of commands", func(ctx context.Context, h *harness) (string, error) {
		return endJudge().find(ctx, h.with(model.Bursts(), "bursts"))
	}}
}

// orderJudge checks the order of an undisturbed session's calls.
func orderJudge() judge {
	return judge{"order of calls", func(ctx context.Context, h *harness) (string, error) {
		rec, err := h.record(ctx, filepath.Join(h.scratch, "order", "current"), true)
		if err != nil {
			return "", err
		}
		if err := rec.order(); err != nil {
			return err.Error(), nil
		}
		return "", nil
	}}
}

// judgedImages is the number of images that imageJudge checks.
const judgedImages = 60

// imageJudge checks possible states after power cuts, without a resume.
func imageJudge() judge {
	return judge{"power cuts", func(ctx context.Context, h *harness) (string, error) {
		rec, err := h.record(ctx, filepath.Join(h.scratch, "images", "current"), true)
		if err != nil {
			return "", err
		}
		found := errors.New("found")
		what := ""
		err = rec.images(evenly(judgedImages, h.seed), h.seed, func(image crash.Image) error {
			t, err := rec.atCut(ctx, image)
			if err == nil && t.Bad() {
				what, err = t.String()+", "+image.String(), found
			}
			return err
		})
		if errors.Is(err, found) {
			err = nil
		}
		return what, err
	}}
}

// journalJudge kills acode just before it writes to its log, and compares its output
// until then with the journal.
func journalJudge() judge {
	return judge{"✓ lines and journal at a kill", func(ctx context.Context, h *harness) (string, error) {
		return h.hunt(ctx, crash.VictimSelf, crash.RoleAcode, func(c crash.Call) bool {
			return c.Kind == crash.KindWrite && strings.HasSuffix(c.Path, "acode.db-wal")
		}, func(o scene.Outcome) bool { return len(o.Wrong) > 0 })
	}}
}

// outputJudge kills the supervisor, or also acode, just before it moves a command's
// output, and compares the stored output with the real one.
func outputJudge() judge {
	return judge{"kills at the moves of an output", func(ctx context.Context, h *harness) (found string, err error) {
		own := h.with(model.Talking(), "talking")
		for _, victim := range []crash.Victim{crash.VictimSupervisor, crash.VictimBoth} {
			if found == "" && err == nil {
				found, err = own.hunt(ctx, victim, crash.RoleSupervisor, func(c crash.Call) bool {
					return (c.Kind == crash.KindCopy || c.Kind == crash.KindWrite) && strings.HasSuffix(c.Path, ".out")
				}, scene.Outcome.Bad)
			}
		}
		return found, err
	}}
}

// supervisorJudge kills the supervisor just before it publishes a claim, and counts
// repeated effects.
func supervisorJudge() judge {
	return judge{"kills of the supervisor", func(ctx context.Context, h *harness) (string, error) {
		return h.hunt(ctx, crash.VictimSupervisor, crash.RoleSupervisor, func(c crash.Call) bool {
			return c.Kind == crash.KindRename
		}, func(o scene.Outcome) bool { return len(o.Repeated) > 0 })
	}}
}

// randomJudge executes random plans, undisturbed and killed, until a session ends badly.
func randomJudge() judge {
	return judge{"random plans", func(ctx context.Context, h *harness) (string, error) {
		return firstBad(ctx, h.randomPlan)
	}}
}

// besideJudge executes random plans whose tasks run at once, until a session ends badly.
func besideJudge() judge {
	return judge{"plans whose tasks run at once", func(ctx context.Context, h *harness) (string, error) {
		return firstBad(ctx, func(ctx context.Context, n int, done func(disturbance, *trial)) error {
			return h.randomPlan(ctx, n*besideEvery, done)
		})
	}}
}

// besideJournalJudge is journalJudge for such plans.
func besideJournalJudge() judge {
	return judge{"✓ lines of tasks at once and journal at a kill", func(ctx context.Context, h *harness) (found string, err error) {
		for n := 1; n <= 3 && found == "" && err == nil; n++ {
			p, _ := h.drawn(n * besideEvery)
			found, err = journalJudge().find(ctx, h.with(p, fmt.Sprintf("beside-%d", n)))
		}
		return found, err
	}}
}

// randomCutsJudge checks power cuts of random plans.
func randomCutsJudge() judge {
	return judge{"power cuts of random plans", func(ctx context.Context, h *harness) (string, error) {
		return firstBad(ctx, h.randomCuts)
	}}
}

// judgedDisks is the most sessions that a judge cuts on each file system.
const judgedDisks = 45

// mountable returns the file systems that can be mounted here.
var mountable = sync.OnceValue(func() []disk.Kind {
	return slices.DeleteFunc(disk.Kinds(), func(k disk.Kind) bool { return k.Possible() != nil })
})

// diskJudges returns a judge that cuts the power of sessions on real file systems, or nil
// if none can be mounted.
func diskJudges() []judge {
	kinds := mountable()
	if len(kinds) == 0 {
		return nil
	}
	return []judge{{"power cuts on real file systems", func(ctx context.Context, h *harness) (string, error) {
		what := ""
		for _, k := range kinds {
			err := h.onDisk(ctx, k, filepath.Join(h.scratch, "disk-"+k.Name), judgedDisks, func(_ *life, t *trial) error {
				if t.Bad() {
					what = t.String() + ", on " + k.Name
					return errBad
				}
				return nil
			})
			if errors.Is(err, errBad) {
				err = nil
			}
			if what != "" || err != nil {
				return what, err
			}
		}
		return what, nil
	}}}
}

// rollbackJudge cuts a resume that undoes a whole group of changes. The content of a file
// that was moved over another one is then only at its new place.
func rollbackJudge() judge {
	return judge{"power cuts of a rollback", func(ctx context.Context, h *harness) (string, error) {
		own := h.with(model.MovedOver(), "rollback")
		rec, err := own.record(ctx, filepath.Join(own.scratch, "current"), true)
		if err != nil {
			return "", err
		}
		what, rng := "", rand.New(rand.NewPCG(h.seed, 11))
		err = rec.images(rec.applied, h.seed, func(image crash.Image) error {
			resume, t, err := rec.resumed(ctx, image, []string{"resume", "--restart-step"})
			if err != nil || resume == nil {
				return errors.Join(err, errors.New(t.String()))
			}
			some := func(all []mark) map[mark]bool { return choose(resume.changing(all), judgedImages, rng) }
			return resume.images(some, h.seed, func(second crash.Image) error {
				t, err := resume.afterCut(ctx, second)
				if err == nil && t.Bad() {
					what, err = t.String()+", "+at(second), errBad
				}
				return err
			})
		})
		if errors.Is(err, errBad) {
			err = nil
		}
		return what, err
	}}
}

// applied chooses the image that contains everything that was visible after the last
// change of a directory of the workspace.
func (r *recording) applied(all []mark) map[mark]bool {
	last, renames := 0, renamesIn(r.Workspace())
	for i, c := range r.calls {
		if renames(c) {
			last = i + 1
		}
	}
	i := slices.IndexFunc(all, func(m mark) bool { return m.cut == last && m.label == "everything" })
	return map[mark]bool{all[max(i, 0)]: true}
}

// judgedPlans is the most random plans that firstBad executes.
const judgedPlans = 40

// firstBad executes random plans by carry until a session ends badly.
func firstBad(ctx context.Context, carry func(context.Context, int, func(disturbance, *trial)) error) (string, error) {
	what := ""
	for n := 1; n <= judgedPlans && what == ""; n++ {
		err := carry(ctx, n, func(d disturbance, t *trial) {
			if t.Bad() {
				what = t.String() + ", " + d.String()
			}
		})
		if err != nil {
			return "", err
		}
	}
	return what, nil
}

// huntedPoints is the most points that hunt tries.
const huntedPoints = 24

// hunt kills before the calls that match, one in each session, until a session ends
// badly.
func (h *harness) hunt(ctx context.Context, victim crash.Victim, role string, match func(crash.Call) bool, bad func(scene.Outcome) bool) (string, error) {
	s, err := h.look(ctx)
	if err != nil {
		return "", err
	}
	rng := rand.New(rand.NewPCG(h.seed, 3))
	var points []kill
	for process, by := range s {
		for _, c := range thin(by[role], rng) {
			if match(c) {
				points = append(points, kill{process: process, point: crash.Point{Role: role, N: c.N, When: crash.Before, Victim: victim}})
			}
		}
	}
	for _, k := range sample(points, huntedPoints, rng) {
		t, err := h.trial(ctx, "hunt", []kill{k}, nil)
		if err != nil {
			return "", err
		}
		if bad(t.Outcome) || t.Bad() {
			return t.String() + ", " + k.String(), nil
		}
	}
	return "", nil
}
