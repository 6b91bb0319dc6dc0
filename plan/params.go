package plan

import (
	"slices"
	"strings"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/strictyaml"
)

// maxDeclared limits params and inputs, because each is a variable of every command.
const maxDeclared = 1000

// params reads the params of the plan and adds their names to declared.
func (d *decoder) params(o *strictyaml.Object, declared *names) []session.Param {
	var params []session.Param
	for _, n := range d.listOf(o.Get("params"), "params", "a param") {
		p := d.Object(n, "name", "default", "required", "secret", "choices", "description")
		param := session.Param{Required: d.Bool(p.Get("required"), false), Secret: d.Bool(p.Get("secret"), false)}
		if name := d.Need(p, "name"); name != nil {
			param.Name = d.declare(declared, name, "a param")
		}
		param.Choices = d.choices(p.Get("choices"))
		param.Description = d.Shown(p.Get("description"), true)
		d.defaultOf(p, &param)
		params = append(params, param)
	}
	return params
}

// listOf is List with the limit maxDeclared.
func (d *decoder) listOf(f *strictyaml.Value, of, each string) []*strictyaml.Value {
	all := d.List(f, of, each)
	if len(all) > maxDeclared {
		d.Fail(all[maxDeclared].At, "", "more than %d %s", maxDeclared, of)
		return all[:maxDeclared]
	}
	return all
}

// inputs reads the names of variables that commands read.
func (d *decoder) inputs(o *strictyaml.Object, declared *names) []string {
	var inputs []string
	for _, n := range d.listOf(o.Get("inputs"), "names of variables", "") {
		inputs = append(inputs, d.declare(declared, n, "an input"))
	}
	return inputs
}

// declare reads the name of a param or an input and checks that it is unique.
func (d *decoder) declare(in *names, n *strictyaml.Value, what string) string {
	n.What = "the name of " + what
	at, name := n.At, d.Text(n)
	switch {
	case n.Kind() != strictyaml.Text:
		return name
	case !session.ValidVariable(name):
		d.Fail(at, "", "%q is not a name of a variable: letters, digits and underscores, without a digit at the start", name)
	case what == "a param" && forbidden(name):
		d.Fail(at, "choose another name", "%s may not be the name of a param: it decides which program a command runs, or acode sets it", name)
	case session.Unrecorded(name):
		d.Fail(at, "choose another name", "%s may not be the name of %s: acode never records it, because the shell, the terminal or the login session sets it", name, what)
	}
	if first, taken := in.first[name]; taken {
		d.Fail(at, "remove one of the two", "%s %q occurs twice, first on line %d", in.what, name, first.Line)
		return name
	}
	in.first[name] = at
	return name
}

// forbidden reports whether a variable of this name could change which program a command
// runs.
func forbidden(name string) bool {
	return name == "PATH" || strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "DYLD_") || reserved(name)
}

func (d *decoder) choices(f *strictyaml.Value) []string {
	var choices []string
	for _, n := range d.List(f, "values", "a value") {
		value := d.System(n)
		if slices.Contains(choices, value) {
			d.Fail(n.At, "remove one of the two", "the value %q occurs twice", value)
		}
		choices = append(choices, value)
	}
	return choices
}

// defaultOf reads the default of a param.
func (d *decoder) defaultOf(o *strictyaml.Object, param *session.Param) {
	f := o.Get("default")
	if f == nil {
		return
	}
	value := d.System(f)
	switch {
	case f.Kind() != strictyaml.Text:
	case param.Secret:
		d.Fail(f.At, "remove one of the two", "a secret param has no default: every reader of the plan would know it")
	case len(param.Choices) > 0 && !slices.Contains(param.Choices, value):
		d.Fail(f.At, "", `"default" is one of the choices %s, not %q`, strings.Join(param.Choices, ", "), value)
	}
	param.Default = &value
}

// notCaptured refuses a param with the name of a capture, because the param would replace
// the capture.
func (d *decoder) notCaptured(p *session.Plan, declared names) {
	if len(p.Params) == 0 {
		return
	}
	by := map[string]session.StepID{}
	for id, s := range p.All() {
		if name := s.Captures(); name != "" {
			by[name] = id
		}
	}
	for _, param := range p.Params {
		if step, captured := by[param.Name]; captured {
			d.Fail(declared.first[param.Name], "rename one of the two", "the param %s has the same name as the capture of %s", param.Name, step)
		}
	}
}

// Values reads a file of params, a YAML or JSON mapping of names to text. Its errors do
// not contain the text.
func Values(name string, data []byte) (map[string]string, error) {
	f := format()
	f.Name, f.Bare = "file of params", true
	r := &strictyaml.Reader{Format: f, Name: name}
	values := map[string]string{}
	if root := r.Root(data); root != nil {
		for _, v := range r.Object(root).Fields {
			if v.Kind() != strictyaml.Text {
				r.Fail(v.At, "put quotes around the value", "the value of %q is not text", v.Key)
			}
			values[v.Key] = r.System(&v)
		}
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	return values, nil
}
