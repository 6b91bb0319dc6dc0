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

// Images of power cuts for each random plan: of its session, and then of each resume.
const (
	cutsOfPlan   = 2
	cutsOfResume = 2
)

// errBad ends a row of images and keeps the files of the session that ended badly.
var errBad = errors.New("a session ended badly")

// randomCuts judges images of a session of the nth random plan, and of the resumes after
// them.
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

// judge judges the order of a session's calls and images of the session. before lists
// earlier cuts. It also judges resumes after the first image.
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
		// The recording does not contain manual work.
		case len(d.cuts) > 1 || t.Uncertain > 0:
			return nil
		}
		return resume.judge(ctx, resume.busy(cutsOfResume, rng), rng, d, done)
	})
}

// resumed judges a resume of an image with args, and records it.
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

// busy chooses n images. Up to half of them are in the middle of file steps and their
// rollback, because most calls belong to the store.
func (r *recording) busy(n int, rng *rand.Rand) pick {
	return func(all []mark) map[mark]bool {
		chosen := choose(r.changing(all), n/2, rng)
		maps.Copy(chosen, choose(all, n-len(chosen), rng))
		return chosen
	}
}

// changing keeps the images just after a change of a directory of the workspace. For a
// resume it keeps those after the first changes. In these images the workspace differs
// from the one that programs saw; other pending changes mostly belong to the log.
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

// disturbance is the series of faults of a session: kills, or power cuts. Each later cut
// is of the resume after the cut before it.
type disturbance struct {
	kills []kill
	cuts  []crash.Image
	// args are those of the resume after the last cut.
	args []string
}

// String returns the name of the disturbance for reports.
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

// at returns the name and place of an image for reports.
func at(image crash.Image) string {
	last := "the beginning"
	if image.Cut > 0 {
		last = image.Calls[image.Cut-1].String()
	}
	return fmt.Sprintf("power cut %v\n  last call: %s", image, last)
}
