package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/shell"
)

// Class is a kind of effect that a call has.
type Class string

// The classes of calls.
const (
	Read    Class = "read"
	Write   Class = "write"
	Delete  Class = "delete"
	Command Class = "command"
	Network Class = "network"
	Git     Class = "git"
)

// Action decides about a call.
type Action string

// The actions, from the mildest.
const (
	Allow Action = "allow"
	Ask   Action = "ask"
	Deny  Action = "deny"
)

// Powers are the powers of a model. An empty action means the default: allow for Write,
// ask for the others.
type Powers struct {
	Write, Delete, Command, Network, Git Action
	Rules                                []Rule
}

// of returns the action of a class before the rules.
func (p Powers) of(c Class) Action {
	switch c {
	case Read:
		return Allow
	case Write:
		return cmp.Or(p.Write, Allow)
	case Delete:
		return cmp.Or(p.Delete, Ask)
	case Network:
		return cmp.Or(p.Network, Ask)
	case Git:
		return cmp.Or(p.Git, Ask)
	}
	return cmp.Or(p.Command, Ask)
}

// Facts are the facts about the machine that Judge needs.
type Facts struct {
	// Workspace is absolute and has no symbolic links.
	Workspace string
	Step      session.StepID
	// Program returns the absolute path, without symbolic links, of the program that the
	// command would start by a name; empty if there is none. dir is the directory of the
	// command, relative to the workspace.
	Program func(name, dir string) string
	// Hash returns the SHA-256 of a file of the workspace in hexadecimal; empty if there
	// is no such regular file. file is absolute.
	Hash func(file string) string
}

// Verdict is the result of Judge.
type Verdict struct {
	Action Action
	Class  Class
	// Reason is one sentence for a person.
	Reason string
	// Confine is set for commands. It is the confinement with which the command may run
	// if it is allowed.
	Confine session.Confinement
	// Offer is the narrowest rule that would allow the call from now on. It is nil if
	// none would.
	Offer *Rule
}

// need is one thing that a call does, with the action for it.
type need struct {
	class Class
	why   string
	// unsure says that the call may do more than acode sees.
	unsure bool
	part   *part
	// path is that of a changed file.
	path   string
	action Action
	// asked says that a rule wants a person to be asked.
	asked bool
}

// judge holds the input of one judgement.
type judge struct {
	Powers
	Facts
	run *session.Run
	// digest covers all of the command.
	digest string
	// without names the check to leave out, for tests.
	without string
}

// Judge returns the verdict on a step of a model. The strictest verdict on a part of it
// holds.
//
// A class that is denied stays denied, as does a call that a rule denies. Otherwise a
// matching rule that asks decides before one that allows. Acode asks about a call that
// cannot be judged, unless Write, Delete, Command and Git are all allowed: then only the
// network is left, and the sandbox refuses that.
func (p Powers) Judge(step session.Step, f Facts) Verdict {
	return judge{Powers: p, Facts: f, run: step.Run}.verdict(step)
}

func (j judge) verdict(step session.Step) Verdict {
	j.Program = once(j.Program)
	if j.run != nil {
		j.digest = digest(*j.run)
	}
	needs := j.needs(step)
	for i := range needs {
		j.settle(&needs[i])
	}
	worst := slices.MaxFunc(needs, func(a, b need) int {
		return cmp.Or(cmp.Compare(rank(a.action), rank(b.action)), cmp.Compare(weight(a.class), weight(b.class)))
	})
	v := Verdict{Action: worst.action, Class: worst.class, Reason: visible(worst.why)}
	if j.run != nil {
		v.Confine = confine(needs)
	}
	if v.Action == Ask {
		v.Offer = j.offer(needs)
	}
	return v
}

// once returns program, which is then asked once for each name and directory.
func once(program func(name, dir string) string) func(name, dir string) string {
	known := map[[2]string]string{}
	return func(name, dir string) string {
		file, ok := known[[2]string{name, dir}]
		if !ok {
			file = program(name, dir)
			known[[2]string{name, dir}] = file
		}
		return file
	}
}

func rank(a Action) int { return slices.Index([]Action{Allow, Ask, Deny}, a) }

func weight(c Class) int {
	return slices.Index([]Class{Read, Write, Command, Git, Delete, Network}, c)
}

func confine(needs []need) session.Confinement {
	how := session.ConfinedReading
	for _, n := range needs {
		if n.class == Network {
			return session.ConfinedOnline
		}
		if n.class != Read {
			how = session.Confined
		}
	}
	return how
}

// settle decides about a need.
func (j judge) settle(n *need) {
	n.action = j.of(n.class)
	if n.unsure && n.action == Allow {
		for _, c := range []Class{Write, Delete, Git} {
			if j.of(c) != Allow {
				n.action = Ask
			}
		}
	}
	allowed := false
	for _, r := range j.Rules {
		if !j.matches(r, *n) {
			continue
		}
		switch r.Action {
		case Deny:
			n.action, n.why = Deny, "a rule denies it: "+r.Sentence()
			return
		case Ask:
			n.asked, n.why = true, "a rule asks about it: "+r.Sentence()
		case Allow:
			allowed = true
		}
	}
	switch {
	case n.action == Deny:
	case n.asked:
		n.action = Ask
	case allowed:
		n.action = Allow
	}
}

// needs returns all that a step does. There is at least one.
func (j judge) needs(step session.Step) []need {
	switch step.Kind {
	case session.KindRead, session.KindSearch:
		return []need{{class: Read, why: "it only reads"}}
	case session.KindWrite, session.KindEdit, session.KindDelete, session.KindMove, session.KindChanges:
		if len(step.Changes) > 0 {
			return j.changes(step.Changes)
		}
	case session.KindRun:
		if step.Run != nil {
			return j.command()
		}
	}
	return []need{{class: Command, unsure: true, why: "acode does not judge this kind of call"}}
}

// changes judges the paths of files. A move is a write at both paths, because it loses
// nothing: acode refuses to move onto a file that exists.
func (j judge) changes(list []session.Change) (out []need) {
	for _, c := range list {
		for _, p := range []string{c.Path, c.From, c.To} {
			n := need{class: Write, path: p, why: "it changes " + p}
			if c.Op == session.KindDelete {
				n.class, n.why = Delete, "it deletes "+p
			}
			if bad := hidden(p); bad != "" && j.without != "characters" {
				out = append(out, need{class: Command, unsure: true, why: "the path " + bad})
			}
			if p != "" {
				out = append(out, n)
			}
		}
	}
	return out
}

// hidden says why a person could not see all of a text; empty if they can.
func hidden(text string) string {
	if !utf8.ValidString(text) {
		return "is not valid UTF-8"
	}
	for _, r := range text {
		if r != '\n' && session.Invisible(r) {
			return fmt.Sprintf("holds the invisible character %U", r)
		}
	}
	return ""
}

// visible replaces everything in a sentence that hidden finds, and line breaks.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || hidden(string(r)) != "" {
			return '\ufffd'
		}
		return r
	}, s)
}

// command judges each part of a command.
func (j judge) command() (out []need) {
	parts, err := j.parts()
	if bad := hidden(strings.Join(append(j.run.Command(), j.run.Check, j.run.Dir), "\n")); bad != "" && j.without != "characters" {
		out = append(out, need{class: Command, unsure: true, why: "the command " + bad})
	}
	if err != nil && j.without != "syntax" {
		out = append(out, need{class: Command, unsure: true, why: "the command cannot be judged: " + err.Error()})
	}
	if len(j.run.Env) > 0 && j.without != "environment" {
		out = append(out, need{class: Command, why: "it sets variables of the environment"})
	}
	moved := slices.ContainsFunc(parts, changesDir)
	for _, p := range parts {
		out = append(out, j.part(&part{Part: p, moved: moved})...)
	}
	return out
}

// parts returns the parts of the command and of its check.
func (j judge) parts() ([]shell.Part, error) {
	parts, err := shell.Parts(j.run.Command())
	if j.run.Check == "" {
		return parts, err
	}
	more, also := shell.Parts(j.run.Asking().Argv)
	return append(parts, more...), cmp.Or(err, also)
}

// within reports whether file is dir or lies below it.
func within(file, dir string) bool {
	rest, err := filepath.Rel(dir, file)
	return err == nil && filepath.IsLocal(rest)
}

// at returns the lexical path of a word of a command in dir, which is relative to the
// directory of the command.
func (j judge) at(dir, word string) string {
	base := path.Join(j.Workspace, j.run.Dir)
	for _, next := range []string{dir, word} {
		if path.IsAbs(next) {
			base = "/"
		}
		base = path.Join(base, next)
	}
	return base
}

// changesDir reports whether names after p belong to another directory.
func changesDir(p shell.Part) bool {
	return p.Shell && len(p.Words) > 0 && p.Words[0].Text == "cd"
}

// digest covers all of a command.
func digest(run session.Run) string {
	b, err := json.Marshal(run)
	if err != nil {
		// strings and numbers always encode
		panic(err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
