package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acode-dev/acode/internal/crash"
	"github.com/acode-dev/acode/internal/torture/scene"
)

// Images of power cuts that each random plan gets: of its session, and then of each resume.
const (
	cutsOfPlan   = 2
	cutsOfResume = 2
)

// errBad ends a row of images: the files of the one that ended badly are looked at by people.
var errBad = errors.New("a session ended badly")

// randomCuts judges images of a session of the nth random plan, and of the resumes after them.
func (h *harness) randomCuts(ctx context.Context, n int, done func(disturbance, *trial)) error {
	p, rng := h.drawn(n)
	own := h.with(p, fmt.Sprintf("plan-%d", n))
	rec, err := own.record(ctx, filepath.Join(own.scratch, "cuts"), true)
	if err == nil {
		err = rec.judge(ctx, rec.busy(cutsOfPlan, rng), rng, disturbance{}, done)
	}
	if err == nil {
		return os.RemoveAll(own.scratch)
	}
	if errors.Is(err, errBad) {
		return nil
	}
	return err
}

// judge judges the order of a session's calls, and images of it, that some cuts came before, and of
// the resumes after the first.
func (r *recording) judge(ctx context.Context, some pick, rng *rand.Rand, before disturbance, done func(disturbance, *trial)) error {
	if err := r.orderOfSome(); err != nil {
		done(before, &trial{Case: scene.Case{Place: r.Place, Outcome: scene.Outcome{Wrong: []string{err.Error()}}}})
		return errBad
	}
	return r.images(some, rng.Uint64(), func(image crash.Image) error {
		d := disturbance{cuts: append(slices.Clone(before.cuts), image), args: []string{"resume"}}
		if rng.IntN(2) == 0 {
			d.args = append(d.args, "--restart-step")
		}
		resume, t, err := r.resumed(ctx, image, d.args)
		if err != nil {
			return fmt.Errorf("%v: %w", d, err)
		}
		done(d, t)
		switch {
		case t.Bad():
			return errBad
		case len(d.cuts) > 1 || t.Uncertain > 0: // what a person did by hand is not recorded
			return nil
		}
		return resume.judge(ctx, resume.busy(cutsOfResume, rng), rng, d, done)
	})
}

// resumed judges what a resume with args makes of an image, and records it.
func (r *recording) resumed(ctx context.Context, image crash.Image, args []string) (*recording, *trial, error) {
	t, err := r.atCut(ctx, image)
	if err != nil {
		return nil, t, err
	}
	s, err := t.readStore(ctx)
	if err != nil {
		return nil, t, err
	}
	next := &recording{Place: r.Place, states: r.states, said: t.printed.String(), kept: s.done, cuts: r.cuts + 1}
	if err := next.follow(ctx, t, args...); err != nil || t.Bad() || t.Uncertain > 0 {
		return nil, t, err
	}
	return next, t, next.complete()
}

// busy chooses n images, half of them, where there are so many, in the middle of file steps and
// their rollback: most calls are the store's.
func (r *recording) busy(n int, rng *rand.Rand) pick {
	return func(all []mark) map[mark]bool {
		chosen := choose(r.changing(all), n/2, rng)
		maps.Copy(chosen, choose(all, n-len(chosen), rng))
		return chosen
	}
}

// changing keeps the images just after a change of a directory of the workspace, of a resume one
// of the first, in which the workspace is not what programs saw: what is pending else is mostly
// the log's.
func (r *recording) changing(all []mark) []mark {
	cuts, renames := map[int]bool{}, renamesIn(r.Workspace())
	for i, c := range r.calls {
		if renames(c) && (r.cuts == 0 || len(cuts) < stepRenames) {
			cuts[i+1] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(m mark) bool {
		return !cuts[m.cut] || !strings.Contains(m.label, " workspace/") && !strings.HasPrefix(m.label, "seeded")
	})
}

// disturbance is what a session goes through: kills, or power cuts, the second one of the resume
// after the first.
type disturbance struct {
	kills []kill
	cuts  []crash.Image
	args  []string // of the resume after the last cut
}

// String names it in reports.
func (d disturbance) String() string {
	if len(d.cuts) == 0 {
		return describe(d.kills)
	}
	var words []string
	for _, image := range d.cuts {
		words = append(words, at(image))
	}
	return strings.Join(append(words, "then acode "+strings.Join(d.args, " ")), "\n  ")
}

// at names an image and its place in reports.
func at(image crash.Image) string {
	last := "the beginning"
	if image.Cut > 0 {
		last = image.Calls[image.Cut-1].String()
	}
	return fmt.Sprintf("power cut %v\n  last call: %s", image, last)
}
