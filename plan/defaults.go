package plan

import (
	"cmp"
	"maps"
	"strings"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/strictyaml"
)

// defaults are the settings of commands that do not have their own.
type defaults struct {
	// run holds the shell, directory, variables and timeout.
	run session.Run
	// bytes is the greatest size that the defaults can add to a step, which keeps its own
	// copy.
	bytes int
}

// defaults returns the defaults of o, which override above.
func (d *decoder) defaults(o *strictyaml.Object, above defaults) defaults {
	if o.Get("defaults") == nil {
		return above
	}
	own := d.Object(o.Get("defaults"), "shell", "dir", "env", "timeout")
	run := above.run
	if s := own.Get("shell"); s != nil {
		run.With = d.shell(s)
	}
	if own.Get("dir") != nil {
		run.Dir = d.dir(own)
	}
	run.Timeout = cmp.Or(d.duration(own.Get("timeout")), run.Timeout)
	run.Env = merged(run.Env, d.env(own))
	out := defaults{run: run, bytes: len(run.Dir) + len(strings.Join(run.With, ""))}
	for name, value := range run.Env {
		out.bytes += len(name) + len(value)
	}
	return out
}

// merged returns all variables; own overrides above.
func merged(above, own map[string]string) map[string]string {
	switch {
	case len(own) == 0:
		return above
	case len(above) == 0:
		return own
	}
	all := maps.Clone(above)
	maps.Copy(all, own)
	return all
}

// fill sets the fields of r, the command of the step o, that o does not set.
func (a defaults) fill(d *decoder, r *session.Run, o *strictyaml.Object) {
	if d.added += a.bytes; d.added > MaxBytes {
		d.Fail(o.At, "put large values into files of the workspace", "the defaults add more than %d MiB to the steps of the plan", MaxBytes>>20)
		return
	}
	if o.Get("shell") == nil && r.Argv == nil {
		r.With = a.run.With
	}
	if o.Get("dir") == nil {
		r.Dir = a.run.Dir
	}
	if o.Get("timeout") == nil {
		r.Timeout = a.run.Timeout
	}
	r.Env = merged(a.run.Env, r.Env)
}
