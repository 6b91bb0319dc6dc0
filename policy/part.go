package policy

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/acode-dev/acode/shell"
)

// part is a part of a command that is judged.
type part struct {
	shell.Part
	// moved says that the command changes its directory, so that relative names are not
	// known.
	moved bool
}

// name returns the name of the program without its directory; empty if it is not known.
func (p *part) name() string {
	if len(p.Words) == 0 || !p.Words[0].Exact {
		return ""
	}
	return path.Base(p.Words[0].Text)
}

func (p *part) args() []shell.Word { return p.Words[1:] }

// builtin reports whether a shell runs the part by itself.
func (p *part) builtin() bool {
	return p.Shell && len(p.Words) > 0 && p.Words[0].Exact && slices.Contains(builtins, p.Words[0].Text)
}

// check finds things that a part does beside reading.
type check struct {
	name string
	find func(j judge, p *part) []need
}

// checks lists all that must find nothing in a part that only reads.
func checks() []check {
	return []check{
		{"assignments", judge.assignments}, {"output", judge.output}, {"input", judge.input},
		{"dynamic", judge.dynamic}, {"state", judge.state}, {"program", judge.program}, {"arguments", judge.arguments}, {"place", judge.place},
	}
}

func (j judge) part(p *part) (out []need) {
	if inner := unwrapped(p); inner != nil {
		// the program itself starts nothing else
		out = j.inspect(&part{Part: shell.Part{Words: append(slices.Clone(p.Words[:1]), shell.Word{}), Shell: p.Shell, Assigns: p.Assigns, Redirects: p.Redirects}, moved: p.moved}, "program", "arguments", "state")
		return append(out, j.part(inner)...)
	}
	return j.inspect(p)
}

// inspect runs the checks on one program. A part in which they find nothing only reads.
func (j judge) inspect(p *part, skip ...string) (out []need) {
	for _, c := range checks() {
		if c.name == j.without || slices.Contains(skip, c.name) {
			continue
		}
		for _, n := range c.find(j, p) {
			n.part = p
			// one reason for each class
			if n.unsure || !slices.ContainsFunc(out, func(o need) bool { return o.class == n.class }) {
				out = append(out, n)
			}
		}
	}
	if len(out) == 0 {
		out = []need{{class: Read, part: p, why: "each part of it only reads"}}
	}
	return out
}

func (j judge) assignments(p *part) []need {
	if len(p.Assigns) == 0 {
		return nil
	}
	return []need{{class: Command, why: "it sets the variable " + p.Assigns[0]}}
}

// output finds redirections that write. They are judged as a command and as a write.
func (j judge) output(p *part) (out []need) {
	for _, r := range p.Redirects {
		if strings.HasPrefix(r.Op, "<") && r.Op != "<>" || void(r) {
			continue
		}
		why := "it writes to " + shown(r.Target)
		out = append(out, need{class: Command, why: why}, need{class: Write, why: why})
	}
	return out
}

// devices take output and keep nothing.
var devices = []string{"/dev/null", "/dev/stdout", "/dev/stderr"}

// void reports whether r names a device, or copies or closes a descriptor.
func void(r shell.Redirect) bool {
	return r.Target.Exact && (slices.Contains(devices, r.Target.Text) || (r.Op == ">&" || r.Op == "<&") && number.MatchString(r.Target.Text))
}

// input finds redirections by which bash opens a connection.
func (j judge) input(p *part) (out []need) {
	for _, r := range p.Redirects {
		switch {
		case strings.HasPrefix(r.Target.Text, "/dev/tcp") || strings.HasPrefix(r.Target.Text, "/dev/udp"):
			out = append(out, need{class: Network, why: "it opens a connection by " + r.Target.Text})
		case !r.Target.Exact:
			out = append(out, need{class: Command, why: "it redirects to a file that is known only when it runs"})
		}
	}
	return out
}

// dynamic finds a program whose name is known only when the command runs.
func (j judge) dynamic(p *part) []need {
	if len(p.Words) == 0 || p.Words[0].Exact {
		return nil
	}
	return []need{{class: Command, unsure: true, why: "the name of a program is known only when the command runs"}}
}

// state finds commands that change how the shell reads the rest, and programs that start
// others.
func (j judge) state(p *part) []need {
	reads := readers[p.name()]
	if p.Script || reads != nil && reads(p.args()) || !slices.Contains(opaque, p.name()) && !(p.name() == "find" && hasFlag(p.args(), "-exec", "-ok")) {
		return nil
	}
	return []need{{class: Command, unsure: true, why: "acode does not look into " + p.name()}}
}

// place finds programs of the workspace, and programs that are not found.
func (j judge) place(p *part) []need {
	name := p.name()
	if name == "" || p.builtin() {
		return nil
	}
	word := p.Words[0].Text
	real := j.Program(word, j.run.Dir)
	why := ""
	switch {
	case strings.Contains(word, "/") && (!path.IsAbs(word) || within(path.Clean(word), j.Workspace)) || within(real, j.Workspace):
		why = name + " is a program of the workspace"
	case real == "":
		why = name + " is no program that acode finds"
	case strings.Contains(word, "/") && word != "/bin/sh" && j.Program(name, j.run.Dir) != real:
		why = word + " is not the " + name + " of PATH"
	case !stands(path.Base(real), name):
		why = name + " is another program: " + real
	default:
		return nil
	}
	return []need{{class: Command, why: why}}
}

// stands reports whether file is the usual file behind a program.
func stands(file, name string) bool {
	rest, ok := strings.CutPrefix(file, name)
	return ok && strings.Trim(rest, "0123456789.-") == "" || slices.Contains(multicall[name], file) || slices.Contains(multicall[""], file)
}

// program finds programs that do more than read.
func (j judge) program(p *part) []need {
	name := p.name()
	if name == "" || p.Script && p.Words[0].Exact || p.builtin() || readers[name] != nil {
		return nil
	}
	if name == "git" {
		return git(p.args())
	}
	return named(p, name+" may do more than read")
}

// named returns the effects of a program according to its name. why is about a command.
func named(p *part, why string) (out []need) {
	name := p.name()
	for _, c := range effects(name, p.args()) {
		out = append(out, need{class: c, why: map[Class]string{
			Delete: name + " deletes", Network: name + " uses the network", Write: name + " writes files", Command: why,
		}[c]})
	}
	return out
}

// arguments finds arguments by which a program that usually reads does more.
func (j judge) arguments(p *part) (out []need) {
	reads := readers[p.name()]
	if reads == nil || reads(p.args()) {
		return nil
	}
	if p.name() == "find" && hasFlag(p.args(), "-delete") {
		out = append(out, need{class: Delete, why: "find deletes with -delete"})
		rest := slices.DeleteFunc(slices.Clone(p.args()), func(w shell.Word) bool { return w == shell.Word{Text: "-delete", Exact: true} })
		if reads(rest) {
			return out
		}
	}
	return append(out, named(p, "acode does not know that "+p.name()+" only reads with these arguments")...)
}

// hasFlag reports whether an argument begins with one of flags, or may do so.
func hasFlag(args []shell.Word, flags ...string) bool {
	return slices.ContainsFunc(args, func(a shell.Word) bool {
		return slices.ContainsFunc(flags, func(f string) bool { return strings.HasPrefix(a.Text, f) })
	})
}

// gives reports whether an argument may give a flag of a list. A short one may stand
// among others, and a long one may be shortened.
func gives(args []shell.Word, list string) bool {
	return slices.ContainsFunc(args, func(a shell.Word) bool {
		name, long := strings.CutPrefix(a.Text, "--")
		name, _, _ = strings.Cut(name, "=")
		return !plain(a) || slices.ContainsFunc(strings.Fields(list), func(f string) bool {
			if len(f) == 1 {
				return !long && strings.HasPrefix(a.Text, "-") && strings.Contains(a.Text, f)
			}
			return long && name != "" && strings.HasPrefix(f, name)
		})
	})
}

func shown(w shell.Word) string {
	if !w.Exact {
		return "a file that is known only when it runs"
	}
	return w.Text
}

var (
	duration = regexp.MustCompile(`^[0-9]+[smh]?$`)
	harmless = regexp.MustCompile(`^-(0|r|[nP][0-9]+)$`)
	number   = regexp.MustCompile(`^([0-9]|-)$`)
)

// unwrapped returns the command that a plain use of timeout or xargs starts; nil for all
// else.
func unwrapped(p *part) *part {
	args := p.Words
	switch p.name() {
	case "timeout":
		if len(args) > 2 && args[1].Exact && duration.MatchString(args[1].Text) {
			return &part{Part: shell.Part{Words: args[2:]}, moved: p.moved}
		}
	case "xargs":
		rest := args[1:]
		for len(rest) > 0 && rest[0].Exact && harmless.MatchString(rest[0].Text) {
			rest = rest[1:]
		}
		if len(rest) > 0 && !strings.HasPrefix(rest[0].Text, "-") {
			// its input becomes arguments
			return &part{Part: shell.Part{Words: append(slices.Clone(rest), shell.Word{})}, moved: p.moved}
		}
	}
	return nil
}
