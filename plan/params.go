package plan

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/acode-dev/acode/session"
)

// maxDeclared bounds params and inputs: each is a variable of every command.
const maxDeclared = 1000

// params reads what the plan asks for; declared takes the names.
func (d *decoder) params(o *object, declared *names) []session.Param {
	f := o.get("params")
	if f == nil {
		return nil
	}
	var params []session.Param
	for _, n := range d.listOf(f, "params") {
		p := d.object(n, place(n), "a param", "name", "default", "required", "secret", "choices", "description")
		param := session.Param{Required: d.boolean(p, "required", false), Secret: d.boolean(p, "secret", false)}
		if name := d.need(p, "name"); name != nil {
			param.Name = d.declare(declared, name.value, name.place(), "a param")
		}
		if choices := p.get("choices"); choices != nil {
			param.Choices = d.choices(choices)
		}
		if text := p.get("description"); text != nil {
			param.Description = d.shown(text, true)
		}
		d.defaultOf(p, &param)
		params = append(params, param)
	}
	return params
}

// listOf is list with the bound of declarations.
func (d *decoder) listOf(f *field, of string) []*yaml.Node {
	all := d.list(f, of)
	if len(all) > maxDeclared {
		d.fail(place(all[maxDeclared]), "", "more than %d %s", maxDeclared, of)
		return all[:maxDeclared]
	}
	return all
}

// inputs reads the names of variables that commands read.
func (d *decoder) inputs(o *object, declared *names) []string {
	f := o.get("inputs")
	if f == nil {
		return nil
	}
	var inputs []string
	for _, n := range d.listOf(f, "names of variables") {
		inputs = append(inputs, d.declare(declared, n, place(n), "an input"))
	}
	return inputs
}

// declare reads the name of a param or an input, which has one of its own.
func (d *decoder) declare(in *names, n *yaml.Node, at position, what string) string {
	name := d.textOf(n, at, "the name of "+what)
	switch {
	case !isText(n):
		return name
	case !session.ValidVariable(name):
		d.fail(at, "", "%q is no name of a variable: letters, digits and underscores, not a digit first", name)
	case what == "a param" && forbidden(name):
		d.fail(at, "choose another name", "%s may not be the name of a param: it decides which program a command is, or acode gives it", name)
	case session.Unrecorded(name):
		d.fail(at, "choose another name", "%s may not be the name of %s: acode never records it, because the shell, the terminal or the login session sets it", name, what)
	}
	if first, taken := in.first[name]; taken {
		d.fail(at, "remove one of the two", "%s %q stands twice, first on line %d", in.what, name, first.line)
		return name
	}
	in.first[name] = at
	return name
}

// forbidden reports whether a value of this name could change which program a command is.
func forbidden(name string) bool {
	return name == "PATH" || strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "DYLD_") || reserved(name)
}

func (d *decoder) choices(f *field) []string {
	var choices []string
	for _, n := range d.list(f, "values") {
		value := d.textOf(n, place(n), "a value")
		d.noNUL(value, place(n), "a value")
		if slices.Contains(choices, value) {
			d.fail(place(n), "remove one of the two", "the value %q stands twice", value)
		}
		choices = append(choices, value)
	}
	return choices
}

// defaultOf reads what a param is when it is not given.
func (d *decoder) defaultOf(o *object, param *session.Param) {
	f := o.get("default")
	if f == nil {
		return
	}
	value := d.text(f)
	d.noNUL(value, f.place(), `"default"`)
	switch {
	case !isText(f.value):
	case param.Secret:
		d.fail(f.place(), "remove one of the two", "a secret param has no default: everyone who reads the plan would know it")
	case len(param.Choices) > 0 && !slices.Contains(param.Choices, value):
		d.fail(f.place(), "", `"default" is one of the choices %s, not %q`, strings.Join(param.Choices, ", "), value)
	}
	param.Default = &value
}

// notCaptured refuses a param that is named like a capture, which would take its place.
func (d *decoder) notCaptured(p *session.Plan, declared names) {
	if len(p.Params) == 0 {
		return
	}
	by := map[string]session.StepID{}
	for id, s := range p.All() {
		if s.Run != nil && s.Run.Capture != "" {
			by[s.Run.Capture] = id
		}
	}
	for _, param := range p.Params {
		if step, captured := by[param.Name]; captured {
			d.fail(declared.first[param.Name], "rename one of the two", "the param %s is named like the capture of %s", param.Name, step)
		}
	}
}

// Values reads a file of params: one mapping of names to text, YAML or JSON. Its errors show nothing
// of the text.
func Values(name string, data []byte) (map[string]string, error) {
	src := &source{name: name, bare: true}
	body, err := src.read(data)
	if err != nil {
		return nil, err
	}
	d := &decoder{src: src, most: 1}
	values := map[string]string{}
	if body != nil {
		for _, f := range d.object(body, place(body), "a file of params").fields {
			if !isText(f.value) {
				d.fail(f.place(), "put quotes around the value", "the value of %q is no text", f.key)
			}
			values[f.key] = f.value.Value
			d.noNUL(values[f.key], f.place(), `"`+f.key+`"`)
		}
	}
	if len(d.errs) > 0 {
		return nil, d.errs[0]
	}
	return values, nil
}
