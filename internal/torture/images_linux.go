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
	"sync"

	"github.com/acode-dev/acode/internal/crash"
	"github.com/acode-dev/acode/internal/torture/model"
	"github.com/acode-dev/acode/internal/torture/scene"
)

// warmPlan is the plan that creates a store before a recording begins. Filling its log
// would otherwise make millions of images.
const warmPlan = "version: 1\ntask: Warm the store\ntasks:\n  - id: warm\n    steps:\n      - {id: look, read: {path: \"*\"}}\n"

// recording is an undisturbed session with all its calls from a certain moment on.
type recording struct {
	scene.Place
	initial crash.Tree
	calls   []crash.Call
	// states holds the workspace by the number of completed steps.
	states []model.Tree
	// said is acode's output before.
	said string
	// kept holds the steps with a receipt before.
	kept map[string]bool
	// cuts is the number of power cuts before.
	cuts int
}

// record runs the plan undisturbed in root, with an existing store if warm is true. It
// checks that the recorded calls are complete.
func (h *harness) record(ctx context.Context, root string, warm bool) (*recording, error) {
	r := &recording{Place: scene.Place{Acode: h.acode, Root: root, Plan: h.plan}}
	r.states = r.Plan.States()
	err := errors.Join(os.RemoveAll(root), r.Prepare(r.Plan.YAML()))
	if err == nil && warm {
		err = r.warm(ctx)
	}
	if err != nil {
		return nil, err
	}
	t := &trial{Case: scene.Case{Place: r.Place}, strict: true}
	if err := r.follow(ctx, t, "run", "--plan", r.PlanFile()); err != nil {
		return nil, err
	}
	if t.Bad() {
		return nil, fmt.Errorf("undisturbed run: %s\n%s", t.Outcome, t.printed.String())
	}
	return r, r.complete()
}

// follow executes a trial with args and records its calls.
func (r *recording) follow(ctx context.Context, t *trial, args ...string) (err error) {
	if r.initial, err = crash.Snapshot(r.Root); err != nil {
		return err
	}
	t.traced, t.record = true, func(c crash.Call) { r.calls = append(r.calls, c) }
	err = t.carry(ctx, args)
	r.calls = crash.Ordered(r.calls)
	return err
}

// warm creates a store with a session elsewhere.
func (r *recording) warm(ctx context.Context) error {
	elsewhere := scene.Place{Acode: r.Acode, Root: filepath.Join(r.Root, "user", "elsewhere"), Plan: model.Fixed()}
	if err := elsewhere.Prepare(warmPlan); err != nil {
		return err
	}
	t := &trial{Case: scene.Case{Place: r.Place}}
	out, err := t.command(ctx, "run", "--plan", elsewhere.PlanFile(), "-C", elsewhere.Workspace()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("warm the store: %w: %s", err, out)
	}
	return nil
}

// complete compares the result of the calls with the real tree.
func (r *recording) complete() error {
	want, err := crash.Snapshot(r.Root)
	if err != nil {
		return err
	}
	got, err := crash.Replay(r.initial, r.calls)
	if err != nil {
		return fmt.Errorf("follow the recording: %w", err)
	}
	if diff := got.Differences(want); len(diff) > 0 {
		return fmt.Errorf("the recording does not lead to %s", strings.Join(diff, ", "))
	}
	return nil
}

// longRow is the number of similar consecutive writes that mean the filling of a new log.
const longRow = 64

// beginning keeps the calls until the filling of the new log has just begun. At that
// point the store is complete except for its log.
func (r *recording) beginning() {
	const filled = 4
	for i := range r.calls {
		n := 0
		for i+n < len(r.calls) && r.calls[i+n].Kind == crash.KindWrite && alike(r.calls[i+n], r.calls[i]) {
			n++
		}
		if n >= longRow {
			r.calls = r.calls[:i+filled]
			return
		}
	}
}

// mark identifies an image of a recording by its cut, its number there, and the fates of
// changes.
type mark struct {
	cut, number int
	label       string
}

// pick chooses some of all images.
type pick func(all []mark) map[mark]bool

// evenly chooses n random images, spread over all cuts.
func evenly(n int, seed uint64) pick {
	return func(all []mark) map[mark]bool { return choose(all, n, rand.New(rand.NewPCG(seed, 7))) }
}

// images yields some of the recording's images.
func (r *recording) images(some pick, seed uint64, yield func(crash.Image) error) error {
	var all []mark
	err := r.everyImage(seed, func(_ crash.Image, m mark) error {
		all = append(all, m)
		return nil
	})
	if err != nil {
		return err
	}
	chosen := some(all)
	return r.everyImage(seed, func(image crash.Image, m mark) error {
		if !chosen[m] {
			return nil
		}
		return yield(image)
	})
}

func (r *recording) everyImage(seed uint64, yield func(crash.Image, mark) error) error {
	at := map[int]int{}
	for image, err := range crash.Images(r.initial, r.calls, crash.Options{Seed: seed}) {
		if err != nil {
			return err
		}
		at[image.Cut]++
		if err := yield(image, mark{image.Cut, at[image.Cut], image.Label}); err != nil {
			return err
		}
	}
	return nil
}

// choose draws n images: one of each cut in turn, until there are enough.
func choose(all []mark, n int, rng *rand.Rand) map[mark]bool {
	byCut := map[int][]mark{}
	for _, m := range all {
		byCut[m.cut] = append(byCut[m.cut], m)
	}
	cuts := slices.Sorted(maps.Keys(byCut))
	chosen := map[mark]bool{}
	for len(chosen) < min(n, len(all)) {
		rng.Shuffle(len(cuts), func(i, j int) { cuts[i], cuts[j] = cuts[j], cuts[i] })
		for _, cut := range cuts {
			if len(chosen) < n {
				chosen[byCut[cut][rng.IntN(len(byCut[cut]))]] = true
			}
		}
	}
	return chosen
}

// atCut makes the image real, in another boot of the machine, and checks its content.
func (r *recording) atCut(ctx context.Context, image crash.Image) (*trial, error) {
	if err := errors.Join(os.RemoveAll(r.Root), image.Materialize(r.Root), os.MkdirAll(filepath.Dir(r.Ledger()), 0o755)); err != nil {
		return nil, err
	}
	boot, err := otherBoot(r.Root, r.cuts+1)
	if err != nil {
		return nil, err
	}
	t := &trial{Case: scene.Case{Place: r.Place}, boot: boot}
	t.printed.WriteString(r.said + acknowledged(image.Calls))
	if err := t.compareJournal(ctx); err != nil {
		return t, err
	}
	names := told(t.printed.String())
	maps.Copy(names, r.kept)
	return t, t.compareEffects(r.states, names)
}

// afterCut also checks the image, resumes, and judges the end.
func (r *recording) afterCut(ctx context.Context, image crash.Image) (*trial, error) {
	t, err := r.atCut(ctx, image)
	if err != nil {
		return t, err
	}
	return t, t.carry(ctx, []string{"resume"})
}

// acknowledged returns acode's output before a cut.
func acknowledged(calls []crash.Call) string {
	var b strings.Builder
	for _, c := range calls {
		if c.Kind == crash.KindAck && c.FD == 1 && c.Role == crash.RoleAcode {
			b.Write(c.Data)
		}
	}
	return b.String()
}

// compareEffects checks that the steps in must are done after the cut. Each command must
// have its line, and each file must be as the last of these steps left it, or the
// following step. Changes by the command of the following step are ignored.
func (t *trial) compareEffects(states []model.Tree, must map[string]bool) error {
	lines, err := t.Signatures()
	if err != nil {
		return err
	}
	for _, s := range t.Steps {
		if must[s.Name()] && s.Signs && !s.Volatile && lines[s.Name()] == 0 {
			t.Breach("reported done: %s, but its line in the ledger is gone", s.Name())
		}
	}
	var errs []error
	for _, r := range t.Rows() {
		errs = append(errs, t.compareRow(r, states, must))
	}
	return errors.Join(errs...)
}

// compareRow compares the files that only the steps of a row change.
func (t *trial) compareRow(r model.Row, states []model.Tree, must map[string]bool) error {
	now, next := states[0], states[0]
	done := 0
	var doing []model.Change
	for _, i := range r.Steps {
		next = states[i+1]
		if !must[t.Steps[i].Name()] {
			doing = t.Steps[i].Does
			break
		}
		now = next
		done++
	}
	names := union(now, next)
	for _, c := range doing {
		for _, name := range c.Paths() {
			delete(names, name)
		}
	}
	for name := range names {
		if !r.Owns(name) {
			continue
		}
		f, err := t.Read(name)
		if err != nil {
			return err
		}
		if !now.Has(name, f) && !next.Has(name, f) {
			t.Breach("reported done: %d steps%s, but %s has other content", done, r.Name, name)
		}
	}
	return nil
}

func union(a, b model.Tree) map[string]bool {
	names := map[string]bool{}
	for _, t := range []model.Tree{a, b} {
		for name := range t {
			names[name] = true
		}
	}
	return names
}

// powerCuts judges n images of a session and the order of its calls. If warm is false,
// the images are of the creation of its store.
func (h *harness) powerCuts(ctx context.Context, n int, warm bool) (row, error) {
	r := row{name: "the machine"}
	if !warm {
		r.name = "the machine, store in the making"
	}
	var mu sync.Mutex
	var errs []error
	var group sync.WaitGroup
	for w := range h.workers {
		group.Go(func() {
			err := h.someCuts(ctx, w, (n+h.workers-1)/h.workers, warm, func(image crash.Image, t *trial) {
				mu.Lock()
				defer mu.Unlock()
				r.add(t.Outcome)
				h.report(r, image, t)
			})
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	group.Wait()
	return r, errors.Join(errs...)
}

// someCuts is the share of one worker, which records its own session.
func (h *harness) someCuts(ctx context.Context, worker, n int, warm bool, done func(crash.Image, *trial)) error {
	rec, err := h.record(ctx, filepath.Join(h.scratch, fmt.Sprintf("cuts-%d", worker), "current"), warm)
	if err != nil {
		return err
	}
	if err := rec.order(); err != nil {
		return err
	}
	if !warm {
		rec.beginning()
	}
	seed := h.seed + uint64(worker)
	return rec.images(evenly(n, seed), seed, func(image crash.Image) error {
		t, err := rec.afterCut(ctx, image)
		if err != nil {
			return fmt.Errorf("%v: %w", image, err)
		}
		done(image, t)
		return nil
	})
}

func (h *harness) report(r row, image crash.Image, t *trial) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.Bad() {
		h.describe(fmt.Sprintf("%s\n  %s", at(image), t.Outcome))
	}
	if r.points%200 == 0 {
		fmt.Fprintf(h.log, "power cuts: %d images, %d breaches\n", r.points, r.breaches())
	}
}
