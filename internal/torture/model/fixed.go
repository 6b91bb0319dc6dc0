package model

import (
	"fmt"
	"io/fs"
	"strings"
)

// largeBytes is the size of the large files. It is more than one page of the store and
// more than any inline content.
const largeBytes = 64 << 10

// Fixed returns the plan of the series that try every point. The order in the file is the
// order of execution and agrees with the dependencies.
func Fixed() Plan {
	p := Plan{Before: before(), tasks: tasks()}
	p.Steps = p.All()
	return p
}

// release is the captured value of the plan.
const release = "release-of-the-quokka"

// tasks returns the tasks of the plan.
func tasks() []task {
	survey := task{id: "survey-the-premises", steps: []Step{
		look("look-over-the-sources", Look{Glob: "src/**/*.go"}),
		look("find-the-open-remarks", Look{Pattern: "TO[D]O", Path: "src"}),
		write("begin-the-notebook", "notes/notebook.txt", "first line\r\nsecond line\n", 0o644),
		sign("sign-the-big-ledger", ""),
	}}
	collect := task{id: "collect-the-facts", dependsOn: []string{survey.id}, steps: []Step{
		capture("capture-the-release"),
		{id: "write-the-release-file", Changes: []Change{{op: "write", path: "facts/release.txt",
			content: "name: ${RELEASE_NAME}\nliteral: $${RELEASE_NAME}\nunknown: ${NOBODY}\n",
			becomes: "name: " + release + "\nliteral: ${RELEASE_NAME}\nunknown: ${NOBODY}\n"}}},
		sign("sign-the-big-ledger", ""),
		{id: "amend-the-notebook", Changes: []Change{{op: "edit", path: "notes/notebook.txt", old: "second", replacement: "amended"}}},
		write("write-the-large-file", "facts/large.txt", filler("large"), 0o644),
		{id: "drop-the-leftovers", Changes: []Change{{op: "delete", path: "old/leftover.txt"}}},
	}}
	arrange := task{id: "arrange-the-files", dependsOn: []string{survey.id}, steps: []Step{
		{id: "move-the-archive", Changes: []Change{{op: "move", from: "old/archive.txt", to: "kept/archive.txt"}}},
		{id: "change-all-at-once", Changes: []Change{
			{op: "write", path: "group/written.sh", content: "#!/bin/sh\nexit 0\n", mode: 0o755},
			{op: "delete", path: "old/second-leftover.txt"},
			{op: "move", from: "old/moved.txt", to: "group/moved.txt"},
			{op: "edit", path: "src/main.go", old: "TODO", replacement: "DONE"},
		}},
		argv("sign-by-arguments"),
		write("write-an-empty-file", "group/empty", "", 0o600),
	}}
	publish := task{id: "publish-the-result", dependsOn: []string{collect.id, arrange.id}, steps: []Step{
		{id: "ask-before-publishing", yaml: []string{`approve: "Publish the quokka?"`}},
		sign("publish-with-the-name", " $RELEASE_NAME"),
		{id: "replace-in-the-large-file", Changes: []Change{{op: "edit", path: "facts/large.txt", old: "large-0", replacement: "grand-0", all: true}}},
		volatile(sign("sign-without-syncing", "", "durable: false")),
		sign("sign-with-a-check", "", checkOf(publishID, "sign-with-a-check")),
		write("close-the-notebook", "notes/notebook.txt", "closed\n", 0o600),
	}}
	publish.id = publishID
	all := []task{survey, collect, arrange, publish}
	for i := range all {
		for j := range all[i].steps {
			all[i].steps[j].task = all[i].id
		}
	}
	return all
}

const publishID = "publish-the-result"

func write(id, name, content string, mode fs.FileMode) Step {
	return Step{id: id, Changes: []Change{{op: "write", path: name, content: content, mode: mode}}}
}

func sign(id, extra string, keys ...string) Step {
	s := Step{id: id, Signs: true, yaml: append([]string{"run: " + quote(signature(extra))}, keys...)}
	if extra != "" {
		s.Extra = " " + release
	}
	return s
}

func volatile(s Step) Step {
	s.Volatile = true
	return s
}

func argv(id string) Step {
	return Step{id: id, Signs: true, Extra: " by-arguments", yaml: []string{
		"run: [/bin/sh, -c, " + quote(signature("")) + "]", "dir: src", `env: {EXTRA: " by-arguments"}`}}
}

func look(id string, l Look) Step {
	s := looking(l)
	s.id = id
	return s
}

func capture(id string) Step {
	return Step{id: id, Signs: true, Captures: true, Value: release, yaml: []string{
		"run: " + quote("echo ' "+release+" '; "+signature("")), "capture: RELEASE_NAME"}}
}

// filler returns text of largeBytes in numbered lines.
func filler(word string) string {
	var b strings.Builder
	for i := 0; b.Len() < largeBytes; i++ {
		fmt.Fprintf(&b, "%s-%d line %d of the file that is large\n", word, i%7, i)
	}
	return b.String()
}

// before returns the initial workspace.
func before() Tree {
	return Tree{
		"src/main.go":             {0o644, "package main\n\n// TODO: everything\nfunc main() {}\n"},
		"src/deep/other.go":       {0o644, "package deep\n"},
		"old/leftover.txt":        {0o644, filler("leftover")},
		"old/second-leftover.txt": {0o600, "second\n"},
		"old/archive.txt":         {0o640, filler("archive")},
		"old/moved.txt":           {0o755, "moved\n"},
		"bystander.bin":           {0o644, "\x00\xff\r\nnobody touches this\n"},
	}
}

// MovedOver returns a plan of one group that moves a file over one in another directory.
func MovedOver() Plan {
	group := Step{task: "arrange-the-files", id: "move-over", Changes: []Change{
		{op: "move", from: "alpha/moved.txt", to: "beta/replaced.txt"}, {op: "write", path: "written.txt", content: "written\n"}}}
	return Plan{Before: Tree{"alpha/moved.txt": {0o644, "moved\n"}, "beta/replaced.txt": {0o644, "replaced\n"}},
		tasks: []task{{id: group.task, steps: []Step{group}}}, Steps: []Step{group}}
}

// Long returns a plan of one command that sleeps for some seconds before it signs the
// ledger.
func Long() Plan {
	sleep := Step{task: "survey-the-premises", id: "sleep-well", Signs: true, yaml: []string{"run: " + quote("sleep 4; "+signature(""))}}
	return Plan{Before: Tree{}, tasks: []task{{id: sleep.task, steps: []Step{sleep}}}, Steps: []Step{sleep}}
}

// Talking returns a plan of one command that prints for a while before it signs the
// ledger. If it receives SIGPIPE, it leaves a line that belongs to no step.
func Talking() Plan {
	const words = 6
	talk := Step{task: "survey-the-premises", id: "talk-on", Signs: true}
	script := `trap 'echo pipe >> "$` + LedgerVariable + `"' PIPE; `
	for i := range words {
		word := fmt.Sprintf("word %d\n", i)
		talk.Prints += word
		script += "printf " + octal(word) + "; sleep 0.05; "
	}
	talk.yaml = []string{"run: " + quote(script+signature(""))}
	return Plan{Before: Tree{}, tasks: []task{{id: talk.task, steps: []Step{talk}}}, Steps: []Step{talk}}
}

// Bursts returns a plan of commands that print their last word just before they end, when
// the supervisor has just moved the first.
func Bursts() Plan {
	const bursts = 16
	t := task{id: "survey-the-premises"}
	for i := range bursts {
		t.steps = append(t.steps, Step{task: t.id, id: fmt.Sprintf("burst-%d", i), Captures: true, Value: "first last", yaml: []string{
			"run: " + quote("printf 'first '; sleep 0.002; printf last"), "capture: RELEASE_NAME"}})
	}
	return Plan{Before: Tree{}, tasks: []task{t}, Steps: t.steps}
}
