package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/acode-dev/acode/internal/crash"
	"github.com/acode-dev/acode/internal/disk"
	"github.com/acode-dev/acode/internal/scripted"
	"github.com/acode-dev/acode/internal/torture/model"
)

func main() {
	crash.LauncherMain()
	rebootMain()
	scripted.Main(time.Now)
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if !disk.Alone() {
		os.Exit(runAlone(ctx))
	}
	if err := torture(ctx, time.Now); err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(1)
	}
}

// runAlone runs the command in a process with its own mounts and returns its exit status.
// If ctx ends first, it waits until that process has cleaned up.
func runAlone(ctx context.Context) int {
	cmd := disk.AloneCommand(os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		return 1
	}
	// The process may have ended.
	context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	// The exit status is read below.
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode()
}

// options are the flags.
type options struct {
	acode, scratch string
	n, workers     int
	images         int
	plans          int
	plan           int
	scenarios      int
	scenario       int
	only           string
	disks          int
	disk           string
	bugs           bool
	bug            string
	seed           uint64
	all            bool
}

func torture(ctx context.Context, now func() time.Time) (err error) {
	var o options
	flag.StringVar(&o.acode, "acode", "", "`program` to kill; empty builds ./cmd/acode")
	flag.StringVar(&o.scratch, "dir", "", "scratch `directory`; empty makes one in memory where that can be")
	flag.IntVar(&o.n, "n", 0, "points of each series; 0 means all, and 200 of those of agents")
	flag.IntVar(&o.images, "images", 600, "images of power cuts of the plan with every kind of step")
	flag.IntVar(&o.plans, "plans", 200, "random plans, killed and cut")
	flag.IntVar(&o.plan, "plan", 0, "run only the random plan with this `number`; 0 means everything")
	flag.IntVar(&o.scenarios, "scenarios", 300, "random scenarios of each kind: people, shutdowns of everything, cancels")
	flag.StringVar(&o.only, "only", "", "run only the scenarios of this `kind`: people, shutdowns, cancels, agents or prompts")
	flag.IntVar(&o.scenario, "scenario", 0, "with -only, run only the scenario with this `number`; 0 means all")
	flag.IntVar(&o.disks, "disks", 60, "sessions on each real file system whose power is cut")
	flag.StringVar(&o.disk, "disk", "", "run only the power cuts on this file `system`: ext4, xfs, btrfs or all")
	flag.BoolVar(&o.bugs, "bugs", true, "plant bugs too")
	flag.StringVar(&o.bug, "bug", "", "do nothing but plant the bug of this `name`")
	flag.IntVar(&o.workers, "workers", 2, "trials at a time")
	flag.Uint64Var(&o.seed, "seed", 1, "of all that is chosen at random")
	flag.BoolVar(&o.all, "all", false, "let series share no points, and take all of agents")
	flag.Parse()
	remove, err := o.place()
	if err != nil {
		return err
	}
	if err := o.build(ctx); err != nil {
		remove()
		return err
	}
	h := &harness{acode: o.acode, scratch: o.scratch, seed: o.seed, workers: o.workers, plan: model.Fixed(), log: os.Stdout, now: now}
	err = h.everything(ctx, o)
	// After a failure the files stay for inspection.
	if err == nil || ctx.Err() != nil {
		remove()
	}
	return err
}

// place chooses the scratch directory. It prefers memory, which is fast; a kill leaves
// the same state there.
func (o *options) place() (remove func(), err error) {
	if o.scratch != "" {
		return func() {}, os.MkdirAll(o.scratch, 0o755)
	}
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		o.scratch, err = os.MkdirTemp("/dev/shm", "torture-")
		if err == nil {
			return func() { _ = os.RemoveAll(o.scratch) }, nil
		}
	}
	o.scratch, err = os.MkdirTemp("", "torture-")
	return func() { _ = os.RemoveAll(o.scratch) }, err
}

func (o *options) build(ctx context.Context) error {
	if o.acode != "" {
		return nil
	}
	o.acode = filepath.Join(o.scratch, "acode")
	return build(ctx, o.acode, nil)
}

// imagesOfMaking divides the number of images for the short creation of the store.
const imagesOfMaking = 5

// everything runs all series and prints their table.
func (h *harness) everything(ctx context.Context, o options) error {
	if o.bug != "" {
		return h.plant(ctx, o.bug)
	}
	if o.plan > 0 {
		only, err := h.randomPlans(ctx, o.plan, o.plan)
		return errors.Join(err, h.table(only))
	}
	if o.only == "agents" {
		only, err := h.agents(ctx, o.n, o.all)
		return errors.Join(err, h.table(only))
	}
	if o.only == "prompts" {
		only, err := h.prompts(ctx, o.n)
		return errors.Join(err, h.table(only))
	}
	if o.only != "" || o.scenario > 0 {
		only, err := h.onlyScenarios(ctx, o)
		return errors.Join(err, h.table([]row{only}))
	}
	if o.disk != "" {
		only, err := h.onDisks(ctx, o.disk, o.disks)
		return errors.Join(err, h.table(only))
	}
	rows, err := h.kills(ctx, o)
	if err != nil {
		return err
	}
	drawn, err := h.randomPlans(ctx, 1, o.plans)
	if err != nil {
		return err
	}
	rows = append(rows, drawn...)
	for _, k := range kinds() {
		among, err := h.scenarios(ctx, k, 1, o.scenarios)
		if err != nil {
			return err
		}
		rows = append(rows, among)
	}
	called, err := h.agents(ctx, o.n, o.all)
	if err != nil {
		return err
	}
	rows = append(rows, called...)
	prompted, err := h.prompts(ctx, o.n)
	if err != nil {
		return err
	}
	rows = append(rows, prompted...)
	if _, err := h.quiet("/bin/true", "control").record(ctx, filepath.Join(o.scratch, "control", "current"), true); err == nil {
		return errors.New("power cuts: /bin/true passes")
	}
	for _, warm := range []bool{true, false} {
		n := o.images
		if !warm {
			n /= imagesOfMaking
		}
		cuts, err := h.powerCuts(ctx, n, warm)
		if err != nil {
			return err
		}
		rows = append(rows, cuts)
	}
	real, err := h.onDisks(ctx, allDisks, o.disks)
	if err != nil {
		return err
	}
	rows = append(rows, real...)
	if err = h.table(rows); !o.bugs {
		return err
	}
	return errors.Join(err, h.plant(ctx, ""))
}

// onlyScenarios executes the scenarios of one kind, or one of them.
func (h *harness) onlyScenarios(ctx context.Context, o options) (row, error) {
	first, last := 1, o.scenarios
	if o.scenario > 0 {
		first, last = o.scenario, o.scenario
	}
	for _, k := range kinds() {
		if k.name == o.only {
			return h.scenarios(ctx, k, first, last)
		}
	}
	return row{}, fmt.Errorf("-only names the kind of scenarios: people, shutdowns, cancels, agents or prompts, not %q", o.only)
}

// kills runs the four series of kills.
func (h *harness) kills(ctx context.Context, o options) ([]row, error) {
	s, err := h.look(ctx)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(h.log, "undisturbed: %d calls of acode, %d of the supervisor, %d of commands in %d processes\n",
		s.total(crash.RoleAcode), s.total(crash.RoleSupervisor), s.total(crash.RoleCommand), len(s))
	rng := rand.New(rand.NewPCG(o.seed, 0))
	var rows []row
	for i, sr := range allSeries() {
		every := s.points(sr, i%2, o.all, rng)
		points := sample(every, o.n, rng)
		fmt.Fprintf(h.log, "%s: %d of %d points\n", sr.name, len(points), len(every))
		if err := h.control(ctx, sr, points); err != nil {
			return nil, err
		}
		r, err := h.run(ctx, sr, points)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// table prints the rows, and returns an error after a breach.
func (h *harness) table(rows []row) error {
	w := tabwriter.NewWriter(h.log, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "killed\tpoints\tkills\tlost\trepeated\tuncertain\tunexplained\twrong\tstuck\t/bin/true")
	var all row
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\tfails\n", r.name, r.points, r.kills, r.lost, r.repeated, r.uncertain, r.over, r.wrong, r.stuck)
		all.points += r.points
		all.wrong += r.breaches()
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if all.wrong > 0 {
		return errors.New("breaches were found")
	}
	fmt.Fprintf(h.log, "%d points, 0 breaches\n", all.points)
	return nil
}
