package plan

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/strictyaml"
)

// The keys of a step. The keys of runKeys are valid only beside "run", and those of
// promptKeys only beside "prompt". Both may have a capture.
var (
	kindKeys    = []string{"read", "search", "write", "edit", "delete", "move", "changes", "run", "approve", "prompt"}
	promptKeys  = []string{"tools", "model", "max_turns"}
	runKeys     = []string{"shell", "dir", "env", "timeout", "capture", "check", "on_interrupt", "durable", "exclusive", "tty"}
	stepKeys    = slices.Concat([]string{"id", "name"}, kindKeys, runKeys, promptKeys)
	changeKinds = []string{"write", "edit", "delete", "move"}
)

func (d *decoder) stepsOf(f *strictyaml.Value, above defaults, task string) []session.Step {
	values := d.List(f, "steps", "a step")
	ids := names{what: "step", first: make(map[string]strictyaml.Position, len(values))}
	steps := make([]session.Step, 0, len(values))
	for i, n := range values {
		steps = append(steps, d.step(n, &ids, i, above))
		if d.steps != nil {
			d.steps[session.StepID{Task: task, Step: steps[i].ID}] = n.At
		}
	}
	return steps
}

func (d *decoder) step(n *strictyaml.Value, ids *names, i int, above defaults) session.Step {
	o := d.Object(n, stepKeys...)
	s := session.Step{ID: d.id(o, ids, i), Name: d.Shown(o.Get("name"), false)}
	f := d.kind(o, "a step", kindKeys)
	if f == nil {
		return s
	}
	s.Kind = session.Kind(f.Key)
	d.fitting(o, f.Key)
	switch s.Kind {
	case session.KindRun:
		s.Run = d.run(o, f)
		above.fill(d, s.Run, o)
	case session.KindPrompt:
		s.Prompt = d.prompt(o, f)
	default:
		d.effect(&s, f)
	}
	return s
}

// fitting refuses keys that do not go with the kind of a step.
func (d *decoder) fitting(o *strictyaml.Object, kind string) {
	for _, key := range slices.Concat(runKeys, promptKeys) {
		goes := "run"
		switch {
		case slices.Contains(promptKeys, key):
			goes = "prompt"
		case key == "capture":
			goes = "run or prompt"
		}
		if other := o.Get(key); other != nil && !slices.Contains(strings.Fields(goes), kind) {
			d.Fail(other.KeyAt, "", "%q goes with %s only; this step has %q", key, goes, kind)
		}
	}
}

// maxTurns is the greatest valid value of max_turns.
const maxTurns = 10_000

func (d *decoder) prompt(o *strictyaml.Object, f *strictyaml.Value) *session.Prompt {
	p := &session.Prompt{MaxTurns: session.DefaultMaxTurns, Capture: d.capture(o)}
	if p.Text = d.Shown(f, true); strings.TrimSpace(p.Text) == "" {
		d.Fail(f.At, "", `"prompt" says what a model is to do; it must not be empty`)
	}
	if t := o.Get("tools"); t != nil {
		for _, n := range d.List(t, "tools", "a name") {
			if name := d.OneOf(n, "files", "commands"); !slices.Contains(p.Tools, name) {
				p.Tools = append(p.Tools, name)
			}
		}
	}
	if m := o.Get("model"); m != nil {
		if p.Model = d.Text(m); !session.ValidName(p.Model) {
			d.Fail(m.At, "", "%q is not a name of a model: 1 to 64 letters, digits, dots, underscores and hyphens", p.Model)
		}
	}
	if n := o.Get("max_turns"); n != nil {
		turns, ok := number(n)
		if !ok || turns < 1 || turns > maxTurns {
			d.Fail(n.At, "", `"max_turns" is a whole number from 1 to %d, not %s`, maxTurns, n.Describe())
		}
		p.MaxTurns = int(turns)
	}
	return p
}

// kind returns the only key of o that is in kinds.
func (d *decoder) kind(o *strictyaml.Object, what string, kinds []string) *strictyaml.Value {
	var found []string
	var last *strictyaml.Value
	for i := range o.Fields {
		if slices.Contains(kinds, o.Fields[i].Key) {
			last = &o.Fields[i]
			found = append(found, last.Key)
		}
	}
	switch len(found) {
	case 0:
		if o.Broken { // An unknown key may be the missing one.
			return nil
		}
		d.Fail(o.At, "", "%s does nothing; it needs one of %s", what, strings.Join(kinds, ", "))
	case 1:
		return last
	default:
		d.Fail(last.KeyAt, "use one step for each", "%s does one thing; this one has %s", what, strings.Join(found, " and "))
	}
	return nil
}

// effect reads a step of any kind except run.
func (d *decoder) effect(s *session.Step, f *strictyaml.Value) {
	switch s.Kind {
	case session.KindRead:
		s.Read = &session.Read{Path: d.glob(d.Need(d.Object(f, "path"), "path"))}
	case session.KindSearch:
		s.Search = d.search(f)
	case session.KindApprove:
		if s.Approve = d.Shown(f, true); strings.TrimSpace(s.Approve) == "" {
			d.Fail(f.At, "", `"approve" is a question to a person; it must not be empty`)
		}
	case session.KindChanges:
		for _, n := range d.List(f, "changes", "a change") {
			o := d.Object(n, changeKinds...)
			if k := d.kind(o, "a change", changeKinds); k != nil {
				s.Changes = append(s.Changes, d.change(k))
			}
		}
	default:
		s.Changes = []session.Change{d.change(f)}
	}
}

func (d *decoder) search(f *strictyaml.Value) *session.Search {
	o := d.Object(f, "pattern", "path")
	s := &session.Search{Path: cmp.Or(d.path(o.Get("path"), true), ".")}
	if p := d.Need(o, "pattern"); p != nil {
		s.Pattern = d.Filled(p)
		if _, err := regexp.Compile(s.Pattern); err != nil {
			d.Fail(p.At, "the syntax is listed by: go doc regexp/syntax", `"pattern" is not an RE2 expression: %s`, reason(err))
		}
	}
	return s
}

// reason drops a prefix that the message already contains.
func reason(err error) string { return strings.TrimPrefix(err.Error(), "error parsing regexp: ") }

func (d *decoder) change(f *strictyaml.Value) session.Change {
	c := session.Change{Op: session.Kind(f.Key)}
	switch c.Op {
	case session.KindWrite:
		o := d.Object(f, "path", "content", "mode")
		c.Path = d.path(d.Need(o, "path"), false)
		c.Content = d.Text(d.Need(o, "content"))
		c.Mode = d.mode(o)
	case session.KindEdit:
		d.edit(&c, d.Object(f, "path", "old", "new", "all"))
	case session.KindDelete:
		c.Path = d.path(d.Need(d.Object(f, "path"), "path"), false)
	case session.KindMove:
		o := d.Object(f, "from", "to")
		c.From, c.To = d.path(d.Need(o, "from"), false), d.path(d.Need(o, "to"), false)
		if c.From == c.To {
			d.Fail(o.At, "", `"from" and "to" are the same path`)
		}
	}
	return c
}

func (d *decoder) edit(c *session.Change, o *strictyaml.Object) {
	c.Path = d.path(d.Need(o, "path"), false)
	if f := d.Need(o, "old"); f != nil {
		if c.Old = d.Text(f); c.Old == "" {
			d.Fail(f.At, "use write to make a file", `"old" must not be empty`)
		}
	}
	c.New = d.Text(d.Need(o, "new"))
	c.All = d.Bool(o.Get("all"), false)
}

func (d *decoder) run(o *strictyaml.Object, f *strictyaml.Value) *session.Run {
	r := &session.Run{}
	if f.Kind() == strictyaml.List {
		r.Argv = d.argv(f)
	} else if f.Kind() == strictyaml.Text {
		if r.Shell = d.system(f); strings.TrimSpace(r.Shell) == "" {
			d.Fail(f.At, "", `"run" must not be empty`)
		}
	} else {
		d.Fail(f.At, "", `"run" is text for the shell or a list of arguments, not %s`, f.Describe())
	}
	if s := o.Get("shell"); s != nil {
		if r.Argv != nil {
			d.Fail(s.KeyAt, "", `"shell" goes with a "run" that is text; a list is run without a shell`)
		}
		r.With = d.shell(s)
	}
	r.Dir = d.dir(o)
	r.Env = d.env(o)
	r.Timeout = d.duration(o.Get("timeout"))
	r.Capture = d.capture(o)
	r.Check = d.system(o.Get("check"))
	r.OnInterrupt = session.OnInterrupt(d.OneOf(o.Get("on_interrupt"), "ask", "rerun", "done", "fail"))
	r.Volatile = !d.Bool(o.Get("durable"), true)
	r.Exclusive = d.Bool(o.Get("exclusive"), false)
	if r.TTY = d.Bool(o.Get("tty"), false); r.TTY && o.Get("capture") != nil {
		d.Fail(o.Get("capture").KeyAt, "remove one of the two, or capture in a step of its own",
			`"capture" takes only the standard output; with "tty" a command writes both streams to one terminal`)
	}
	return r
}

func (d *decoder) dir(o *strictyaml.Object) string {
	if dir := d.path(o.Get("dir"), true); dir != "." {
		return dir
	}
	return ""
}

// shell returns the program that receives the text. It returns nil for the default shell.
func (d *decoder) shell(f *strictyaml.Value) []string {
	if f.Kind() == strictyaml.List {
		return d.argv(f)
	}
	const next = "write shell: sh, shell: bash or shell: [program, argument, ...]"
	if f.Kind() != strictyaml.Text {
		d.Fail(f.At, next, `"shell" is sh, bash or a list of a program and its arguments, not %s`, f.Describe())
		return nil
	}
	switch f.Written() {
	case "sh":
	case "bash":
		return []string{"bash", "-e", "-o", "pipefail", "-c"}
	default:
		d.Fail(f.At, next, `"shell" is sh, bash or a list of a program and its arguments, not %q`, f.Written())
	}
	return nil
}

func (d *decoder) argv(f *strictyaml.Value) []string {
	values := d.List(f, "arguments", "an argument")
	argv := make([]string, 0, len(values))
	for i, n := range values {
		arg := d.System(n)
		if i == 0 && arg == "" {
			d.Fail(n.At, "", "the name of the program must not be empty")
		}
		argv = append(argv, arg)
	}
	return argv
}

func (d *decoder) env(o *strictyaml.Object) map[string]string {
	env := map[string]string{}
	for _, v := range d.Object(o.Get("env")).Fields {
		d.variable(v.Key, v.KeyAt)
		env[v.Key] = d.System(&v)
	}
	if len(env) == 0 {
		return nil
	}
	return env
}

func (d *decoder) capture(o *strictyaml.Object) string {
	f := o.Get("capture")
	if f == nil {
		return ""
	}
	name := d.Text(f)
	d.variable(name, f.At)
	return name
}

// reserved reports whether acode alone decides about the variable of this name.
func reserved(name string) bool {
	return strings.HasPrefix(name, "ACODE_") || name == "PWD" || name == "OLDPWD"
}

func (d *decoder) variable(name string, at strictyaml.Position) {
	if !session.ValidVariable(name) {
		d.Fail(at, "", "%q is not a name of a variable: letters, digits and underscores, without a digit at the start", name)
	}
	if reserved(name) {
		d.Fail(at, "", "%s cannot be set: acode sets PWD, OLDPWD and every name that begins with ACODE_", name)
	}
}

func (d *decoder) duration(f *strictyaml.Value) time.Duration {
	if f == nil {
		return 0
	}
	const next = "write a number with its unit, such as 90s, 10m or 1h30m"
	if f.Kind() != strictyaml.Text {
		d.Fail(f.At, next, "%s is a duration, not %s", f, f.Describe())
		return 0
	}
	s := d.Text(f)
	v, err := time.ParseDuration(s)
	if err != nil && regexp.MustCompile(`^([0-9]+(ns|us|µs|ms|s|m|h))+$`).MatchString(s) {
		d.Fail(f.At, next, "%s is at most 2562047h, not %s", f, s)
	} else if err != nil {
		d.Fail(f.At, next, "%s is a duration, not %q", f, s)
	} else if v <= 0 {
		d.Fail(f.At, next, "%s must be longer than zero, not %s", f, s)
	}
	return v
}
