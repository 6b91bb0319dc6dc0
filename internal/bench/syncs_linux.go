package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/acode-dev/acode/internal/crash"
)

// syncs counts how often acode and its children synced files, by place.
type syncs struct {
	// store counts acode.db and its log.
	store int
	// kept counts pre-images in files.
	kept int
	// commands counts claims and the files beside them.
	commands int
	// other counts the rest of the store's directory.
	other     int
	workspace int
	// all counts syncfs.
	all int
}

func (s syncs) minus(o syncs) syncs {
	return syncs{s.store - o.store, s.kept - o.kept, s.commands - o.commands, s.other - o.other, s.workspace - o.workspace, s.all - o.all}
}

// record counts c, a call at s.
func (n *syncs) record(s site, c crash.Call) {
	if c.Kind == crash.KindSyncAll {
		n.all++
	}
	if c.Kind != crash.KindSync {
		return
	}
	name := func(dir string) bool { return strings.HasPrefix(c.Path, filepath.Join(s.home(), dir)) }
	switch {
	case strings.HasPrefix(c.Path, s.workspace()):
		n.workspace++
	case name("acode.db"):
		n.store++
	case name("blobs"):
		n.kept++
	case name("commands"):
		n.commands++
	default:
		n.other++
	}
}

// kind is a kind of step whose fsyncs are counted.
type kind struct {
	name string
	step func(i int) string
	// files returns the files that a step needs.
	files func(i int) map[string]string
	// store is the most fsyncs of the store.
	store float64
	// besides is the most fsyncs of other files.
	besides   float64
	isCommand bool
}

// largeText is larger than any text in the database.
const largeText = 96 << 10

func kinds() []kind {
	one := func(format, content string) func(int) map[string]string {
		return func(i int) map[string]string { return map[string]string{fmt.Sprintf(format, i): content} }
	}
	step := func(format string) func(int) string {
		return func(i int) string { return strings.ReplaceAll(format, "N", fmt.Sprint(i)) }
	}
	return []kind{
		{name: "read", step: step("read: {path: rN}"), files: one("r%d", "x"), store: 1.1},
		{name: "search", step: step("search: {pattern: x, path: rN}"), files: one("r%d", "x"), store: 1.1},
		{name: "write, new file", step: step("write: {path: wN, content: x}"), store: 1.1, besides: 2},
		{name: "edit", step: step("edit: {path: eN, old: x, new: y}"), files: one("e%d", "x"), store: 1.1, besides: 2},
		{name: "edit, pre-image kept as a file", step: step("edit: {path: eN, old: one, new: two}"),
			files: large, store: 2, besides: 4},
		{name: "delete", step: step("delete: {path: dN}"), files: one("d%d", "x"), store: 1.1, besides: 1},
		{name: "move, to another directory", step: step("move: {from: a/mN, to: b/mN}"), files: moved, store: 1.1, besides: 2},
		{name: "changes, 3 files in 2 directories", step: step("changes: [{write: {path: a/xN, content: x}}, {write: {path: a/yN, content: y}}, {edit: {path: b/eN, old: x, new: y}}]"),
			files: func(i int) map[string]string {
				return map[string]string{"a/there": "", fmt.Sprintf("b/e%d", i): "x"}
			}, store: 1.1, besides: 5},
		{name: "command", step: step("run: [/bin/echo, said N]"), isCommand: true},
	}
}

func large(i int) map[string]string {
	return map[string]string{fmt.Sprintf("e%d", i): "one" + strings.Repeat(fmt.Sprintf(" %04d", i), largeText/5)}
}

func moved(i int) map[string]string {
	return map[string]string{fmt.Sprintf("a/m%d", i): "x", "b/there": ""}
}

// Two plans of different length. Both include the cost of starting and ending.
const (
	fewSteps  = 4
	manySteps = 24
)

// syncs counts fsyncs under the tracer.
func (b *bench) syncs(ctx context.Context) error {
	tracer := crash.NewTracer()
	defer tracer.Close()
	for i, k := range kinds() {
		few, err := b.countKind(ctx, tracer, fmt.Sprintf("syncs-%d-few", i), k, fewSteps)
		if err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		many, err := b.countKind(ctx, tracer, fmt.Sprintf("syncs-%d-many", i), k, manySteps)
		if err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		b.reportKind(k, many.minus(few))
	}
	return b.gate(ctx, tracer)
}

func (b *bench) reportKind(k kind, n syncs) {
	per := func(count int) float64 { return float64(count) / (manySteps - fewSteps) }
	if k.isCommand {
		b.report.count("fsyncs per command: claim, exit and store", per(n.store+n.kept+n.commands+n.other+n.workspace), 4.1,
			fmt.Sprintf("store %.2f, claims %.2f", per(n.store), per(n.commands)))
		b.report.count("syncfs per command", per(n.all), 1, "counted")
		return
	}
	b.report.count("fsyncs of the store per step: "+k.name, per(n.store), k.store, "counted")
	if k.besides > 0 {
		b.report.count("fsyncs besides: "+k.name, per(n.workspace+n.kept+n.commands+n.other), k.besides, fmt.Sprintf("workspace %.2f, pre-image %.2f", per(n.workspace), per(n.kept)))
	}
}

// countKind runs n steps of a kind and counts their fsyncs.
func (b *bench) countKind(ctx context.Context, tracer *crash.Tracer, name string, k kind, n int) (syncs, error) {
	files, steps := map[string]string{}, []string{}
	for i := range n {
		steps = append(steps, k.step(i))
		if k.files == nil {
			continue
		}
		for path, content := range k.files(i) {
			files[path] = content
		}
	}
	s, err := b.newSite(name, files)
	if err != nil {
		return syncs{}, err
	}
	if err := s.writePlan(steps); err != nil {
		return syncs{}, err
	}
	return s.count(ctx, tracer, 0, "run", "--plan", s.plan())
}

// count runs acode under the tracer until all its processes have ended.
func (s site) count(ctx context.Context, tracer *crash.Tracer, exit int, args ...string) (syncs, error) {
	var n syncs
	var said bytes.Buffer
	res, err := tracer.Run(ctx, crash.Spec{
		Argv: append([]string{s.acode}, args...), Env: s.environ(), Dir: s.workspace(), Roots: []string{s.home(), s.workspace()},
		Stdout: &said, Stderr: &said, Record: func(c crash.Call) { n.record(s, c) },
	})
	if err != nil {
		return n, err
	}
	if _, err := tracer.Wait(ctx); err != nil {
		return n, err
	}
	if res.ExitCode != exit {
		return n, fmt.Errorf("acode %s: exit %d: %s", args[0], res.ExitCode, said.Bytes())
	}
	return n, nil
}

// exitApproval is acode's status when it needs an approval and cannot ask a person.
const exitApproval = 10

// gate counts the fsyncs of passing one approval and asking for the next, without the
// cost of a process that only asks again.
func (b *bench) gate(ctx context.Context, tracer *crash.Tracer) error {
	s, err := b.newSite("syncs-gate", nil)
	if err != nil {
		return err
	}
	err = s.writePlan([]string{"approve: one", "approve: two", "approve: three"})
	if err != nil {
		return err
	}
	_, err = s.count(ctx, tracer, exitApproval, "run", "--plan", s.plan())
	if err != nil {
		return err
	}
	again, err := s.count(ctx, tracer, exitApproval, "resume")
	if err != nil {
		return err
	}
	if err := s.approve(ctx); err != nil {
		return err
	}
	passed, err := s.count(ctx, tracer, exitApproval, "resume")
	if err != nil {
		return err
	}
	// The process that asks again commits its question once too.
	b.report.count("fsyncs of the store per step: approve", float64(passed.minus(again).store+1), 2, "a gate passed, the next one asked; the opening of the store left out")
	return nil
}

func (s site) approve(ctx context.Context) error {
	st, err := openStore(ctx, s.home())
	if err != nil {
		return err
	}
	id, err := only(ctx, st)
	if err := errors.Join(err, st.Close()); err != nil {
		return err
	}
	if out, err := s.command(ctx, "approve", string(id)).CombinedOutput(); err != nil {
		return fmt.Errorf("approve: %w: %s", err, out)
	}
	return nil
}
