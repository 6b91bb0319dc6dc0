package plan

import (
	"cmp"
	"maps"
	"time"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/strictyaml"
)

// defaults are what commands have that do not say otherwise themselves.
type defaults struct {
	with    []string
	dir     string
	env     map[string]string
	timeout time.Duration
}

// defaults reads those of o, which count before the ones above.
func (d *decoder) defaults(o *strictyaml.Object, above defaults) defaults {
	own := d.Object(o.Get("defaults"), "shell", "dir", "env", "timeout")
	out := above
	if s := own.Get("shell"); s != nil {
		out.with = d.shell(s)
	}
	if own.Get("dir") != nil {
		out.dir = d.dir(own)
	}
	out.timeout = cmp.Or(d.duration(own.Get("timeout")), above.timeout)
	if env := d.env(own); env != nil {
		out.env = maps.Clone(above.env)
		if out.env == nil {
			out.env = env
		}
		maps.Copy(out.env, env)
	}
	return out
}

// fill gives r, the command of the step o, what o does not say. What the defaults add to all steps
// together has a limit, because each step keeps its own copy.
func (a defaults) fill(d *decoder, r *session.Run, o *strictyaml.Object) {
	if o.Get("shell") == nil && r.Argv == nil {
		r.With = a.with
		for _, word := range a.with {
			d.added += len(word)
		}
	}
	if o.Get("dir") == nil {
		r.Dir = a.dir
		d.added += len(a.dir)
	}
	if o.Get("timeout") == nil {
		r.Timeout = a.timeout
	}
	r.Env = a.environ(d, r.Env)
	if d.added > MaxBytes {
		d.Fail(o.At, "put large values into files of the workspace", "the defaults add more than %d MiB to the steps of the plan", MaxBytes>>20)
	}
}

// environ adds own, of a step, to the variables of the defaults.
func (a defaults) environ(d *decoder, own map[string]string) map[string]string {
	if len(a.env) == 0 || d.added > MaxBytes {
		return own
	}
	for name, value := range a.env {
		d.added += len(name) + len(value)
	}
	if len(own) == 0 {
		return a.env
	}
	all := maps.Clone(a.env)
	maps.Copy(all, own)
	return all
}
