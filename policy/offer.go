package policy

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// runners execute their arguments or files of the workspace. A rule for one of
// them would allow everything.
var runners = append(append(append([]string{}, opaque...), remotes...), strings.Fields(`sh bash dash ash ksh mksh zsh fish csh tcsh pwsh python python2 python3 pypy pypy3
	perl ruby node nodejs deno bun lua luajit php Rscript R julia groovy scala kotlin java jshell ghci erl elixir iex tclsh guile sbcl osascript awk gawk mawk nawk sed m4 bc dc
	make gmake cmake ninja meson bazel scons rake just task mage go cargo npm pnpm yarn pip pip3 uv poetry gem bundle composer mvn gradle sbt ant dotnet swift zig cabal stack mix
	tox nox pytest jest vitest mocha tsx ts-node pre-commit find git-shell vim vi nvim ex ed emacs nano less more man screen tmux gcc cc clang ld as`)...)

// simple are programs whose arguments are only files.
var simple = []string{"mkdir", "touch", "cp", "mv"}

// offer returns the narrowest rule that allows everything that is asked; nil if no rule
// can.
func (j judge) offer(needs []need) *Rule {
	var asking []need
	for _, n := range needs {
		if n.asked {
			return nil
		}
		if n.action == Ask {
			asking = append(asking, n)
		}
	}
	n := asking[0]
	switch {
	case j.run != nil && len(asking) == 1 && j.nameable(n):
		return j.named(n)
	case j.run != nil:
		return j.exact(asking)
	case len(asking) == 1 && n.path != "" && !strings.ContainsAny(n.path, `*?[\`):
		return &Rule{Action: Allow, Class: n.class, Workspace: j.Workspace, Path: path.Clean(n.path)}
	}
	return nil
}

// nameable reports whether a rule may name the program of n.
func (j judge) nameable(n need) bool {
	if n.unsure || n.part == nil || len(n.part.Words) == 0 || n.class != Command && n.class != Git {
		return false
	}
	name := n.part.name()
	runs := slices.Contains(runners, name) || slices.Contains(runners, strings.TrimRight(name, "0123456789.-"))
	return !runs && !j.lost(n.part) && j.narrow(n.part, len(n.part.args()))
}

// named returns a rule for the program of n, its subcommand and its flags.
func (j judge) named(n need) *Rule {
	args, fixed := n.part.args(), 0
	if !slices.Contains(simple, n.part.name()) {
		fixed = min(1, len(args))
	}
	for i, a := range args {
		if strings.HasPrefix(a.Text, "-") {
			fixed = i + 1
		}
	}
	program := j.Program(n.part.Words[0].Text, j.run.Dir)
	r := &Rule{Action: Allow, Class: n.class, Workspace: j.Workspace, Program: program, Dir: path.Clean(j.run.Dir), Files: map[string]string{}}
	j.bind(r, program)
	for _, a := range args[:fixed] {
		r.Args = append(r.Args, a.Text)
		j.bind(r, j.at("", a.Text))
	}
	return r
}

// bind binds r to a file, if there is such a file in the workspace.
func (j judge) bind(r *Rule, file string) {
	if within(file, j.Workspace) {
		if sum := j.Hash(file); sum != "" {
			r.Files[j.relative(file)] = sum
		}
	}
}

// exact returns a rule for the whole command, bound to the files of the workspace that it
// names.
func (j judge) exact(asking []need) *Rule {
	if slices.ContainsFunc(asking, func(n need) bool { return n.part != nil && j.lost(n.part) }) {
		return nil
	}
	// of a command that cannot be judged, the parts that are seen
	parts, _ := j.parts()
	dirs := []string{""}
	for _, p := range parts {
		if !changesDir(p) {
			continue
		}
		// a name after the second change would be a guess
		if len(dirs) > 1 || len(p.Words) != 2 || !p.Words[1].Exact {
			return nil
		}
		dirs = append(dirs, p.Words[1].Text)
	}
	r := &Rule{Action: Allow, Workspace: j.Workspace, Digest: j.digest, Files: map[string]string{}}
	for _, n := range asking {
		if n.part != nil && n.part.name() != "" {
			j.bind(r, j.Program(n.part.Words[0].Text, j.run.Dir))
		}
	}
	for _, p := range parts {
		for _, redirect := range p.Redirects {
			if redirect.Op == "<" {
				p.Words = append(slices.Clone(p.Words), redirect.Target)
			}
		}
		for _, w := range p.Words {
			_, value, _ := strings.Cut(w.Text, "=")
			for _, dir := range dirs {
				j.bind(r, j.at(dir, w.Text))
				j.bind(r, j.at(dir, value))
			}
		}
	}
	return r
}

// lost reports whether p starts a program of the workspace whose content cannot be bound.
func (j judge) lost(p *part) bool {
	if p.name() == "" {
		return false
	}
	word := p.Words[0].Text
	real := j.Program(word, j.run.Dir)
	switch {
	case within(real, j.Workspace):
		return p.moved || j.Hash(real) == ""
	case strings.Contains(word, "/"):
		return p.moved && !path.IsAbs(word) || real == ""
	}
	return false
}

func (j judge) relative(file string) string {
	// both are absolute
	rest, _ := filepath.Rel(j.Workspace, file)
	return rest
}
