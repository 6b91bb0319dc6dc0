package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/shell"
)

// Rule allows, asks about or denies some calls. Every field that is set must match. A
// rule that allows a program covers one part of a command, and each other part needs its
// own.
type Rule struct {
	Action Action `json:"action"`
	// Class limits the rule to one class.
	Class Class `json:"class,omitempty"`
	// Workspace limits the rule to one workspace, by its absolute path.
	Workspace string `json:"workspace,omitempty"`
	// Step is a glob for TASK/STEP.
	Step string `json:"step,omitempty"`
	// Path is a glob for changed files, relative to the workspace; ** crosses
	// directories. The path counts as the call writes it.
	Path string `json:"path,omitempty"`
	// Program is absolute and has no symbolic links. A rule that allows one of the
	// workspace needs its hash in Files.
	Program string `json:"program,omitempty"`
	// Args are the first arguments. A rule that allows covers only further arguments that
	// are no flags and stay inside the workspace.
	Args []string `json:"args,omitempty"`
	// Dir is the directory of the command, relative to the workspace: "." for itself.
	Dir string `json:"dir,omitempty"`
	// Digest covers a whole command, with the directory, limits and variables.
	Digest string `json:"digest,omitempty"`
	// Files are hashes of files of the workspace, by relative paths. If one has changed,
	// the rule does not match.
	Files map[string]string `json:"files,omitempty"`
}

// ParseRule parses the output of String. For anything else it returns an error, which has
// no code and no place.
func ParseRule(line []byte) (Rule, error) {
	var r Rule
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	err := d.Decode(&r)
	if err == nil {
		if _, end := d.Token(); end != io.EOF {
			err = fmt.Errorf("something follows the rule")
		}
	}
	if err == nil {
		err = r.check()
	}
	if err != nil {
		return Rule{}, err
	}
	return r, nil
}

// String returns r as one line of JSON.
func (r Rule) String() string {
	b, err := json.Marshal(r)
	if err != nil {
		// strings always encode
		panic(err)
	}
	return string(b)
}

var hash = regexp.MustCompile(`^[0-9a-f]{64}$`)

// check returns why r has no meaning.
func (r Rule) check() error {
	command := r.Program != "" || r.Dir != "" || r.Digest != ""
	_, badStep := path.Match(r.Step, "")
	_, badPath := path.Match(r.Path, "")
	switch {
	case rank(r.Action) < 0:
		return fmt.Errorf("action must be allow, ask or deny")
	case r.Class != "" && weight(r.Class) < 0:
		return fmt.Errorf("class must be read, write, delete, command, network or git")
	case r.Class == Read && (command || r.Path != ""):
		return fmt.Errorf("a rule for reading can name a step only")
	case r.Workspace != "" && !path.IsAbs(r.Workspace):
		return fmt.Errorf("workspace must be an absolute path")
	case badStep != nil || badPath != nil:
		return fmt.Errorf("a glob is malformed")
	case r.Path != "" && (command || path.IsAbs(r.Path) || strings.HasPrefix(r.Path, "../")):
		return fmt.Errorf("path is for changed files, relative to the workspace")
	case r.Program != "" && (!path.IsAbs(r.Program) || path.Clean(r.Program) != r.Program):
		return fmt.Errorf("program must be an absolute path")
	case len(r.Args) > 0 && r.Program == "":
		return fmt.Errorf("args need a program")
	case r.Digest != "" && !hash.MatchString(r.Digest):
		return fmt.Errorf("digest must be a SHA-256 in hexadecimal")
	case len(r.Files) > 0 && r.Action != Allow:
		return fmt.Errorf("files are for rules that allow")
	case r.Class == "" && r.Step == "" && r.Path == "" && !command:
		return fmt.Errorf("it says nothing about the calls that it is for")
	}
	for file, sum := range r.Files {
		if path.IsAbs(file) || strings.HasPrefix(path.Clean(file), "..") || !hash.MatchString(sum) {
			return fmt.Errorf("files must map relative paths to a SHA-256 in hexadecimal")
		}
	}
	return nil
}

// Sentence describes r for a person.
func (r Rule) Sentence() string {
	out := string(r.Action)
	switch {
	case r.Digest != "":
		out += " this exact command"
	case r.Program != "":
		out += " " + strings.Join(append([]string{r.Program}, r.Args...), " ") + " with further arguments"
		if r.Action == Allow {
			out += " that are no flags and stay in the workspace"
		}
	case r.Path != "":
		out += " changes of " + r.Path
	default:
		out += " calls"
	}
	if r.Class != "" {
		out += " of the class " + string(r.Class)
	}
	if r.Dir != "" {
		out += ", in the directory " + r.Dir
	}
	if r.Workspace != "" {
		out += ", in the workspace " + r.Workspace
	}
	if r.Step != "" {
		out += ", in the step " + r.Step
	}
	if len(r.Files) > 0 {
		out += ", while these files stay as they are: " + strings.Join(slices.Sorted(maps.Keys(r.Files)), ", ")
	}
	return visible(out)
}

// matches reports whether r is about n.
func (j judge) matches(r Rule, n need) bool {
	step := session.StepID{Task: j.Step.Task, Step: j.Step.Step}.String()
	switch {
	case r.Class != "" && r.Class != n.class,
		r.Workspace != "" && r.Workspace != j.Workspace,
		r.Step != "" && !glob(r.Step, step),
		r.Path != "" && (n.path == "" || !glob(r.Path, path.Clean(n.path))),
		r.Dir != "" && (j.run == nil || path.Clean(r.Dir) != path.Clean(j.run.Dir)),
		r.Digest != "" && (j.run == nil || r.Digest != j.digest),
		r.Program != "" && !j.covers(r, n.part),
		// a person who saw all of it can allow the part that acode cannot see
		n.unsure && r.Action == Allow && r.Digest == "":
		return false
	}
	for file, sum := range r.Files {
		if j.Hash(path.Join(j.Workspace, file)) != sum && j.without != "files" {
			return false
		}
	}
	return true
}

// covers reports whether the program and arguments of r are those of p.
func (j judge) covers(r Rule, p *part) bool {
	if p == nil || p.name() == "" || len(p.args()) < len(r.Args) {
		return false
	}
	for i, a := range r.Args {
		if w := p.args()[i]; !w.Exact || w.Text != a {
			return false
		}
	}
	if j.Program(p.Words[0].Text, j.run.Dir) != r.Program {
		return false
	}
	if within(r.Program, j.Workspace) && r.Action == Allow && r.Files[j.relative(r.Program)] == "" {
		return false
	}
	return r.Action != Allow || j.narrow(p, len(r.Args))
}

// narrow reports whether p does nothing beside its program with the first n arguments,
// and operands inside the workspace.
func (j judge) narrow(p *part, n int) bool {
	if p.builtin() || p.moved || len(p.Assigns) > 0 || slices.ContainsFunc(p.Redirects, func(r shell.Redirect) bool { return !void(r) }) || path.Base(j.Program(p.Words[0].Text, j.run.Dir)) != p.name() {
		return false
	}
	for i, w := range p.args() {
		if !w.Exact || j.leaves(w.Text) || i >= n && strings.HasPrefix(w.Text, "-") {
			return false
		}
	}
	return true
}

// leaves reports whether an argument may name a file outside the workspace.
func (j judge) leaves(arg string) bool {
	return slices.ContainsFunc(strings.Split(arg, "="), func(s string) bool {
		return path.IsAbs(s) && !within(path.Clean(s), j.Workspace) || slices.Contains(strings.Split(s, "/"), "..")
	})
}

// glob reports whether a pattern matches name. ** stands for any number of segments.
func glob(pattern, name string) bool {
	return segments(strings.Split(pattern, "/"), strings.Split(name, "/"))
}

func segments(pattern, name []string) bool {
	switch {
	case len(pattern) == 0:
		return len(name) == 0
	case pattern[0] == "**":
		return segments(pattern[1:], name) || len(name) > 0 && segments(pattern, name[1:])
	case len(name) == 0:
		return false
	}
	// check has refused malformed patterns
	ok, _ := path.Match(pattern[0], name[0])
	return ok && segments(pattern[1:], name[1:])
}
