package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// ledgerVariable names the environment variable that tells commands where the ledger is.
const ledgerVariable = "TORTURE_LEDGER"

// largeBytes is the size of the large files: more than one page of the store and more than
// what is kept inline anywhere.
const largeBytes = 64 << 10

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
	signs    bool     // it appends one line to the ledger
	extra    string   // what follows the step's name in that line
	captures bool     // its outcome includes what it printed
	volatile bool     // a power cut may take what it did
}

// name is what people and ledger call the step.
func (s step) name() string { return s.task + "/" + s.id }

// change is one change of files. becomes is what content stands for once captures are
// filled in; empty means content itself.
type change struct {
	op                         string
	path, content, becomes     string
	mode                       fs.FileMode
	old, replacement, from, to string
	all                        bool
}

// file is what a path of the workspace holds.
type file struct {
	mode fs.FileMode
	data string
}

// tree is a workspace: files by slash-separated path.
type tree map[string]file

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
// begins a line of its own, whatever a power cut left of the one before.
func signature(extra string) string {
	return `printf '\n%s\n' "$ACODE_IDEMPOTENCY_KEY$EXTRA` + extra + `" >> "$` + ledgerVariable + `"`
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

// checkOf asks the ledger whether a step happened.
func checkOf(task, id string) string {
	return "check: " + quote(`grep -q ":`+task+"/"+id+`/" "$`+ledgerVariable+`"`)
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

// states gives the workspace before the first step and after each one.
func states(steps []step) []tree {
	all := []tree{before()}
	for _, s := range steps {
		next := maps.Clone(all[len(all)-1])
		for _, c := range s.changes {
			c.apply(next)
		}
		all = append(all, next)
	}
	return all
}

func (c change) apply(t tree) {
	switch c.op {
	case "write":
		f := file{mode: 0o644, data: c.content}
		if old, ok := t[c.path]; ok {
			f.mode = old.mode
		}
		if c.mode != 0 {
			f.mode = c.mode
		}
		if c.becomes != "" {
			f.data = c.becomes
		}
		t[c.path] = f
	case "edit":
		f := t[c.path]
		f.data = strings.ReplaceAll(f.data, c.old, c.replacement)
		t[c.path] = f
	case "delete":
		delete(t, c.path)
	case "move":
		t[c.to] = t[c.from]
		delete(t, c.from)
	}
}

// folders gives the directories that hold the files of t.
func (t tree) folders() []string {
	seen := map[string]bool{}
	for name := range t {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			seen[dir] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
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
	return regexp.MustCompile(`^v1:[0-9a-f-]{36}:` + regexp.QuoteMeta(s.name()) + `/main:[0-9]+` + regexp.QuoteMeta(s.extra) + `$`)
}

// quote writes a text as YAML takes it, in double quotes.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always has a JSON form
	}
	return string(b)
}

// planFile writes the plan.
func planFile(all []task) string {
	var b strings.Builder
	b.WriteString("version: 1\ntask: Torture the quokka\ntasks:\n")
	for _, t := range all {
		fmt.Fprintf(&b, "  - id: %s\n", t.id)
		if len(t.dependsOn) > 0 {
			fmt.Fprintf(&b, "    depends_on: [%s]\n", strings.Join(t.dependsOn, ", "))
		}
		b.WriteString("    steps:\n")
		for _, s := range t.steps {
			fmt.Fprintf(&b, "      - id: %s\n        name: %s\n", s.id, quote(s.name()))
			for _, l := range append(s.yaml, changesYAML(s.changes)...) {
				fmt.Fprintf(&b, "        %s\n", l)
			}
		}
	}
	return b.String()
}

func changesYAML(cs []change) []string {
	switch len(cs) {
	case 0:
		return nil
	case 1:
		return []string{cs[0].yaml()}
	}
	lines := []string{"changes:"}
	for _, c := range cs {
		lines = append(lines, "  - "+c.yaml())
	}
	return lines
}

func (c change) yaml() string {
	switch c.op {
	case "write":
		mode := ""
		if c.mode != 0 {
			mode = fmt.Sprintf(`, mode: "%04o"`, c.mode)
		}
		return fmt.Sprintf("write: {path: %s, content: %s%s}", quote(c.path), quote(c.content), mode)
	case "edit":
		return fmt.Sprintf("edit: {path: %s, old: %s, new: %s, all: %v}", quote(c.path), quote(c.old), quote(c.replacement), c.all)
	case "delete":
		return fmt.Sprintf("delete: {path: %s}", quote(c.path))
	}
	return fmt.Sprintf("move: {from: %s, to: %s}", quote(c.from), quote(c.to))
}
