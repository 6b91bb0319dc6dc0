package plan

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/acode-dev/acode/session"
)

// Keys of a step. Those of a command are listed apart because they need "run" beside them.
var (
	kindKeys    = []string{"read", "search", "write", "edit", "delete", "move", "changes", "run", "approve"}
	runKeys     = []string{"shell", "dir", "env", "timeout", "capture", "check", "on_interrupt", "durable"}
	stepKeys    = append(append([]string{"id", "name"}, kindKeys...), runKeys...)
	changeKinds = []string{"write", "edit", "delete", "move"}
)

func (d *decoder) stepsOf(f *field, above defaults, task string) []session.Step {
	values := d.list(f, "steps")
	ids := names{what: "step", first: make(map[string]position, len(values))}
	steps := make([]session.Step, 0, len(values))
	for i, n := range values {
		steps = append(steps, d.step(n, place(n), &ids, i, above))
		if d.steps != nil {
			d.steps[session.StepID{Task: task, Step: steps[i].ID}] = place(n)
		}
		if len(d.errs) == d.most {
			return nil
		}
	}
	return steps
}

func (d *decoder) step(n *yaml.Node, at position, ids *names, i int, above defaults) session.Step {
	o := d.object(n, at, "a step", stepKeys...)
	s := session.Step{ID: d.id(o, ids, i)}
	if f := o.get("name"); f != nil {
		s.Name = d.shown(f, false)
	}
	f := d.kind(o, "a step", kindKeys)
	if f == nil {
		return s
	}
	s.Kind = session.Kind(f.key)
	if s.Kind == session.KindRun {
		s.Run = d.run(o, f)
		above.fill(d, s.Run, o)
		return s
	}
	for _, key := range runKeys {
		if other := o.get(key); other != nil {
			d.fail(other.at, "", "%q goes with run only; this step has %q", key, f.key)
		}
	}
	d.effect(&s, f)
	return s
}

// kind finds the one key of o that says what is done.
func (d *decoder) kind(o *object, what string, kinds []string) *field {
	var found []string
	var last *field
	for i := range o.fields {
		if slices.Contains(kinds, o.fields[i].key) {
			last = &o.fields[i]
			found = append(found, last.key)
		}
	}
	switch len(found) {
	case 0:
		if o.broken { // it may be what was not known
			return nil
		}
		d.fail(o.at, "", "%s does nothing; it needs one of %s", what, strings.Join(kinds, ", "))
	case 1:
		return last
	default:
		d.fail(last.at, "make a step of each", "%s does one thing; this one has %s", what, strings.Join(found, " and "))
	}
	return nil
}

// effect reads what a step of any kind but run does.
func (d *decoder) effect(s *session.Step, f *field) {
	switch s.Kind {
	case session.KindRead:
		s.Read = &session.Read{Path: d.glob(d.objectOf(f, "path"), "path")}
	case session.KindSearch:
		s.Search = d.search(f)
	case session.KindApprove:
		if s.Approve = d.shown(f, true); strings.TrimSpace(s.Approve) == "" {
			d.fail(f.place(), "", `"approve" is the question that is asked; it must not be empty`)
		}
	case session.KindChanges:
		for _, n := range d.list(f, "changes") {
			o := d.object(n, place(n), "a change", changeKinds...)
			if k := d.kind(o, "a change", changeKinds); k != nil {
				s.Changes = append(s.Changes, d.change(k))
			}
		}
	default:
		s.Changes = []session.Change{d.change(f)}
	}
}

// objectOf reads the mapping below a kind's key.
func (d *decoder) objectOf(f *field, known ...string) *object {
	return d.object(f.value, f.place(), `"`+f.key+`"`, known...)
}

func (d *decoder) search(f *field) *session.Search {
	o := d.objectOf(f, "pattern", "path")
	s := &session.Search{Path: "."}
	if p := d.need(o, "pattern"); p != nil {
		if s.Pattern = d.text(p); s.Pattern == "" {
			d.fail(p.place(), "", `"pattern" must not be empty`)
		}
		if _, err := regexp.Compile(s.Pattern); err != nil {
			d.fail(p.place(), "go doc regexp/syntax lists what may be written", `"pattern" is no RE2 expression: %s`, reason(err))
		}
	}
	if o.has("path") {
		s.Path = d.path(o, "path", true)
	}
	return s
}

// reason drops the prefix that repeats what the message around it says.
func reason(err error) string { return strings.TrimPrefix(err.Error(), "error parsing regexp: ") }

func (d *decoder) change(f *field) session.Change {
	c := session.Change{Op: session.Kind(f.key)}
	switch c.Op {
	case session.KindWrite:
		o := d.objectOf(f, "path", "content", "mode")
		c.Path = d.path(o, "path", false)
		if content := d.need(o, "content"); content != nil {
			c.Content = d.text(content)
		}
		c.Mode = d.mode(o)
	case session.KindEdit:
		d.edit(&c, d.objectOf(f, "path", "old", "new", "all"))
	case session.KindDelete:
		c.Path = d.path(d.objectOf(f, "path"), "path", false)
	case session.KindMove:
		o := d.objectOf(f, "from", "to")
		c.From, c.To = d.path(o, "from", false), d.path(o, "to", false)
		if c.From == c.To {
			d.fail(o.at, "", `"from" and "to" are the same path`)
		}
	}
	return c
}

func (d *decoder) edit(c *session.Change, o *object) {
	c.Path = d.path(o, "path", false)
	if f := d.need(o, "old"); f != nil {
		if c.Old = d.text(f); c.Old == "" {
			d.fail(f.place(), "use write to make a file", `"old" must not be empty`)
		}
	}
	if f := d.need(o, "new"); f != nil {
		c.New = d.text(f)
	}
	c.All = d.boolean(o, "all", false)
}

func (d *decoder) run(o *object, f *field) *session.Run {
	r := &session.Run{}
	if f.value.Kind == yaml.SequenceNode {
		r.Argv = d.argv(f)
	} else if isText(f.value) {
		if r.Shell = d.system(f); strings.TrimSpace(r.Shell) == "" {
			d.fail(f.place(), "", `"run" must not be empty`)
		}
	} else {
		d.fail(f.place(), "", `"run" is text for the shell or a list of arguments, not %s`, describe(f.value))
	}
	if s := o.get("shell"); s != nil {
		if r.Argv != nil {
			d.fail(s.at, "", `"shell" goes with a "run" that is text; a list is run without a shell`)
		}
		r.With = d.shell(s)
	}
	r.Dir = d.dir(o)
	r.Env = d.env(o)
	r.Timeout = d.duration(o, "timeout")
	r.Capture = d.capture(o)
	if check := o.get("check"); check != nil {
		r.Check = d.system(check)
	}
	r.OnInterrupt = session.OnInterrupt(d.oneOf(o, "on_interrupt", "ask", "rerun", "done", "fail"))
	r.Volatile = !d.boolean(o, "durable", true)
	return r
}

func (d *decoder) dir(o *object) string {
	if !o.has("dir") {
		return ""
	}
	if dir := d.path(o, "dir", true); dir != "." {
		return dir
	}
	return ""
}

// shell reads the program that a text is handed to; nil for the usual one.
func (d *decoder) shell(f *field) []string {
	if f.value.Kind == yaml.SequenceNode {
		return d.argv(f)
	}
	const next = "write shell: sh, shell: bash or shell: [program, argument, ...]"
	if !isText(f.value) {
		d.fail(f.place(), next, `"shell" is sh, bash or a list of a program and its arguments, not %s`, describe(f.value))
		return nil
	}
	switch f.value.Value {
	case "sh":
	case "bash":
		return []string{"bash", "-e", "-o", "pipefail", "-c"}
	default:
		d.fail(f.place(), next, `"shell" is sh, bash or a list of a program and its arguments, not %q`, f.value.Value)
	}
	return nil
}

func (d *decoder) argv(f *field) []string {
	values := d.list(f, "arguments")
	argv := make([]string, 0, len(values))
	for i, n := range values {
		at := place(n)
		arg := d.textOf(n, at, "an argument")
		d.noNUL(arg, at, "an argument")
		if i == 0 && arg == "" {
			d.fail(at, "", "the name of the program must not be empty")
		}
		argv = append(argv, arg)
	}
	return argv
}

func (d *decoder) env(o *object) map[string]string {
	f := o.get("env")
	if f == nil {
		return nil
	}
	env := map[string]string{}
	for _, v := range d.objectOf(f).fields {
		d.variable(v.key, v.at)
		env[v.key] = d.text(&v)
		d.noNUL(env[v.key], v.place(), `"`+v.key+`"`)
	}
	if len(env) == 0 {
		return nil
	}
	return env
}

func (d *decoder) capture(o *object) string {
	f := o.get("capture")
	if f == nil {
		return ""
	}
	name := d.text(f)
	d.variable(name, f.place())
	return name
}

// reserved reports whether a command gets the variable of this name from acode, or not at all.
func reserved(name string) bool {
	return strings.HasPrefix(name, "ACODE_") || name == "PWD" || name == "OLDPWD"
}

func (d *decoder) variable(name string, at position) {
	if !session.ValidVariable(name) {
		d.fail(at, "", "%q is no name of a variable: letters, digits and underscores, not a digit first", name)
	}
	if reserved(name) {
		d.fail(at, "", "%s cannot be set: PWD, OLDPWD and what begins with ACODE_ are acode's to give", name)
	}
}

func (d *decoder) duration(o *object, key string) time.Duration {
	f := o.get(key)
	if f == nil {
		return 0
	}
	const next = "write a number with its unit, such as 90s, 10m or 1h30m"
	if !isText(f.value) {
		d.fail(f.place(), next, "%q is a duration, not %s", key, describe(f.value))
		return 0
	}
	s := d.text(f)
	v, err := time.ParseDuration(s)
	if err != nil && regexp.MustCompile(`^([0-9]+(ns|us|µs|ms|s|m|h))+$`).MatchString(s) {
		d.fail(f.place(), next, "%q is at most 2562047h, not %s", key, s)
	} else if err != nil {
		d.fail(f.place(), next, "%q is a duration, not %q", key, s)
	} else if v <= 0 {
		d.fail(f.place(), next, "%q must be longer than nothing, not %s", key, s)
	}
	return v
}
