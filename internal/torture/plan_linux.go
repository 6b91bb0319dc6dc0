package main

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

// ledgerVariable names the environment variable that tells commands where the ledger is.
const ledgerVariable = "TORTURE_LEDGER"

// largeBytes is the size of the large files: more than one page of the store and more than
// what is kept inline anywhere.
const largeBytes = 64 << 10

// plan is what a session carries out, and all that the judge knows of it.
type plan struct {
	before tree   // the workspace at the beginning
	tasks  []task // in the order of the file
	steps  []step // those that come to their end, in the order of execution
	policy string // on_failure; empty writes none
	fails  string // name of the step that fails, rightly, each time; empty for none
}

// fixed gives the plan of the series that try every point.
func fixed() plan {
	all := tasks()
	return plan{before: before(), tasks: all, steps: flatten(all)}
}

// task is a task of the plan. Names of tasks and steps are too long to be met by chance in
// a hash or a key.
type task struct {
	id        string
	dependsOn []string
	steps     []step
}

// step is a step of the plan with all that the judge needs to know of it.
type step struct {
	task, id string
	yaml     []string // its keys besides id and name
	changes  []change // what it does to files
	does     []change // what its command does to files
	reads    bool     // it takes note of files that nobody works out
	signs    bool     // it appends one line to the ledger
	extra    string   // what follows the step's name in that line
	captures bool     // its outcome includes what it printed
	mended   bool     // it fails until a person has mended the cause
	volatile bool     // a power cut may take what it did
}

// name is what people and ledger call the step.
func (s step) name() string { return s.task + "/" + s.id }

// release is what the capture of the plan holds.
const release = "release-of-the-quokka"

// tasks gives the plan.
func tasks() []task {
	survey := task{id: "survey-the-premises", steps: []step{
		{id: "look-over-the-sources", yaml: []string{`read: {path: "src/**/*.go"}`}},
		{id: "find-the-open-remarks", yaml: []string{`search: {pattern: "TO[D]O", path: "src"}`}},
		write("begin-the-notebook", "notes/notebook.txt", "first line\r\nsecond line\n", 0o644),
		sign("sign-the-big-ledger", ""),
	}}
	collect := task{id: "collect-the-facts", dependsOn: []string{survey.id}, steps: []step{
		capture("capture-the-release"),
		{id: "write-the-release-file", changes: []change{{op: "write", path: "facts/release.txt",
			content: "name: ${RELEASE_NAME}\nliteral: $${RELEASE_NAME}\nunknown: ${NOBODY}\n",
			becomes: "name: " + release + "\nliteral: ${RELEASE_NAME}\nunknown: ${NOBODY}\n"}}},
		sign("sign-the-big-ledger", ""),
		{id: "amend-the-notebook", changes: []change{{op: "edit", path: "notes/notebook.txt", old: "second", replacement: "amended"}}},
		write("write-the-large-file", "facts/large.txt", filler("large"), 0o644),
		{id: "drop-the-leftovers", changes: []change{{op: "delete", path: "old/leftover.txt"}}},
	}}
	arrange := task{id: "arrange-the-files", dependsOn: []string{survey.id}, steps: []step{
		{id: "move-the-archive", changes: []change{{op: "move", from: "old/archive.txt", to: "kept/archive.txt"}}},
		{id: "change-all-at-once", changes: []change{
			{op: "write", path: "group/written.sh", content: "#!/bin/sh\nexit 0\n", mode: 0o755},
			{op: "delete", path: "old/second-leftover.txt"},
			{op: "move", from: "old/moved.txt", to: "group/moved.txt"},
			{op: "edit", path: "src/main.go", old: "TODO", replacement: "DONE"},
		}},
		argv("sign-by-arguments"),
		write("write-an-empty-file", "group/empty", "", 0o600),
	}}
	publish := task{id: "publish-the-result", dependsOn: []string{collect.id, arrange.id}, steps: []step{
		{id: "ask-before-publishing", yaml: []string{`approve: "Publish the quokka?"`}},
		sign("publish-with-the-name", " $RELEASE_NAME"),
		{id: "replace-in-the-large-file", changes: []change{{op: "edit", path: "facts/large.txt", old: "large-0", replacement: "grand-0", all: true}}},
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

func write(id, name, content string, mode fs.FileMode) step {
	return step{id: id, changes: []change{{op: "write", path: name, content: content, mode: mode}}}
}

// signature is the shell text that appends a command's line to the ledger, in one write. It
// begins a line of its own, whatever a power cut left of the one before, and ends it with a full
// stop, so that half of a line is none.
func signature(extra string) string {
	return `printf '\n%s\n' "$ACODE_IDEMPOTENCY_KEY$EXTRA` + extra + `." >> "$` + ledgerVariable + `"`
}

func sign(id, extra string, keys ...string) step {
	s := step{id: id, signs: true, yaml: append([]string{"run: " + quote(signature(extra))}, keys...)}
	if extra != "" {
		s.extra = " " + release
	}
	return s
}

func volatile(s step) step {
	s.volatile = true
	return s
}

func argv(id string) step {
	return step{id: id, signs: true, extra: " by-arguments", yaml: []string{
		"run: [/bin/sh, -c, " + quote(signature("")) + "]", "dir: src", `env: {EXTRA: " by-arguments"}`}}
}

func capture(id string) step {
	return step{id: id, signs: true, captures: true, yaml: []string{
		"run: " + quote("echo ' "+release+" '; "+signature("")), "capture: RELEASE_NAME"}}
}

// asked is the shell text that looks for the whole line of a step.
func asked(task, id string) string {
	return `grep -q ":` + task + "/" + id + `/.*[.]$" "$` + ledgerVariable + `"`
}

// checkOf asks the ledger whether a step happened.
func checkOf(task, id string) string {
	return "check: " + quote(asked(task, id))
}

// filler is text of largeBytes in numbered lines.
func filler(word string) string {
	var b strings.Builder
	for i := 0; b.Len() < largeBytes; i++ {
		fmt.Fprintf(&b, "%s-%d line %d of the file that is large\n", word, i%7, i)
	}
	return b.String()
}

// before is the workspace at the beginning.
func before() tree {
	return tree{
		"src/main.go":             {0o644, "package main\n\n// TODO: everything\nfunc main() {}\n"},
		"src/deep/other.go":       {0o644, "package deep\n"},
		"old/leftover.txt":        {0o644, filler("leftover")},
		"old/second-leftover.txt": {0o600, "second\n"},
		"old/archive.txt":         {0o640, filler("archive")},
		"old/moved.txt":           {0o755, "moved\n"},
		"bystander.bin":           {0o644, "\x00\xff\r\nnobody touches this\n"},
	}
}

// end is the state in which the store must leave the session.
func (p plan) end() string {
	switch {
	case p.fails == "":
		return "completed"
	case p.policy == "fail":
		return "failed"
	}
	return "paused"
}

// flatten gives the steps in the order of execution, which is that of the file: it agrees
// with the dependencies.
func flatten(all []task) []step {
	var steps []step
	for _, t := range all {
		steps = append(steps, t.steps...)
	}
	return steps
}

// line is what the ledger must hold of a step, once.
func (s step) line() *regexp.Regexp {
	return regexp.MustCompile(`^v1:[0-9a-f-]{36}:` + regexp.QuoteMeta(s.name()) + `/main:[0-9]+` + regexp.QuoteMeta(s.extra+".") + `$`)
}
