package app

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/shell"
)

// surroundings returns the variables of this process in the form that inputs use.
func surroundings(digest func(name, value string) string) session.Environment {
	e := session.Environment{Vars: map[string]string{}, Secret: redact.SecretName, Digest: digest, Reads: reader()}
	for _, kv := range os.Environ() {
		if name, value, ok := strings.Cut(kv, "="); ok && session.ValidVariable(name) {
			e.Vars[name] = value
		}
	}
	return e
}

// reader returns a function that lists the variables a command and its check read. Plans
// repeat shell texts, so it parses each text once.
func reader() func(*session.Run) []string {
	known := map[string][]string{}
	of := func(text string) []string {
		names, ok := known[text]
		if !ok {
			names, _ = shell.Reads(text) // a text that cannot be parsed reads none; acode check warns about it
			known[text] = names
		}
		return names
	}
	return func(r *session.Run) []string {
		var names []string
		if text, ok := shell.Script(r.Command()); ok {
			names = of(text)
		}
		if r.Check != "" {
			names = slices.Concat(names, of(r.Check))
		}
		return names
	}
}

// record takes the inputs of a new session.
func (w *work) record(ctx context.Context) error {
	digest, err := w.store.Fingerprint(ctx)
	if err != nil {
		return err
	}
	w.inputs = session.Record(w.plan, w.params.Recorded, surroundings(digest))
	for name := range w.params.Secrets { // secrets from a file or a person count as set
		w.inputs.Secrets[name] = true
	}
	w.learnInputs()
	return nil
}

// restore reads the inputs of a continued session, and returns how this process differs
// from them. It asks person for missing secret params.
func (w *work) restore(ctx context.Context, person Person) (resume.Inputs, error) {
	var found resume.Inputs
	var err error
	reading := context.WithoutCancel(ctx) // the read is short, and later code notices the end of ctx
	if w.inputs, err = w.writer.Inputs(reading); err != nil || w.inputs == nil {
		return found, err
	}
	digest, err := w.store.Fingerprint(reading)
	if err != nil {
		return found, err
	}
	here := surroundings(digest)
	old := *w.inputs
	if w.choices.Renew {
		found.Renew = true
		w.inputs, found.Renewed = old.Renew(w.plan, here)
	} else {
		found.Differ = old.Differ(here)
	}
	w.learnInputs()
	have := func(name string) bool { _, ok := w.params.Secrets[name]; return ok }
	done := func(id session.StepID) bool { return w.writer.Session().Status(id) == session.StepDone }
	missing := w.inputs.Missing(w.plan, here, have, done)
	for _, name := range missing {
		if err := w.askFor(ctx, person, name); err != nil {
			return found, err
		}
		if !have(name) {
			found.Missing = append(found.Missing, name)
		}
	}
	return found, nil
}

// askFor asks person for the secret param name. It does nothing for a variable that is no
// param: the environment must set it.
func (w *work) askFor(ctx context.Context, person Person, name string) error {
	param := paramOf(w.plan, name)
	if param == nil {
		return nil
	}
	value, err := person.Secret(ctx, name, w.Redactor.String(param.Description))
	if err == nil && value != "" {
		w.params.Secrets[name] = value
		w.Redactor.Learn([]string{value})
	}
	return err
}

// learnInputs adds the secret inputs to the redactor: params with secret names, and
// unrecorded values from the environment.
func (w *work) learnInputs() {
	if w.params.Secrets == nil {
		w.params.Secrets = map[string]string{}
	}
	for name := range w.inputs.Secrets {
		if _, given := w.params.Secrets[name]; given {
			continue
		}
		if value, ok := os.LookupEnv(name); ok {
			w.params.Secrets[name] = value
		}
	}
	var environ []string
	for name, value := range w.inputs.Params {
		environ = append(environ, name+"="+value)
	}
	w.Redactor.Learn(slices.AppendSeq(redact.FromEnvironment(environ), maps.Values(w.params.Secrets)))
}

// renewed adds an event to begin which records that the session uses the present inputs.
func (w *work) renewed(ctx context.Context, begin []session.Draft, names []string) ([]session.Draft, error) {
	ref, err := w.writer.StageInputs(ctx, w.inputs)
	if err != nil {
		return nil, err
	}
	const most = 100
	return append(begin, session.Draft{Type: session.InputsChanged, Actor: "user",
		Data: session.InputsChangedData{Inputs: ref, Names: names[:min(len(names), most)]}}), nil
}

// Params are the values of a plan's params at the start of a session.
type Params struct {
	Recorded map[string]string
	// Secrets are never recorded.
	Secrets map[string]string
}

// NewParams returns values for the params of p: given values first, then the environment
// (only for secrets), then defaults. It returns ErrUsage for a name that p does not
// declare, and for a value that is not among the choices.
func NewParams(p *session.Plan, given map[string]string, environment func(string) (string, bool)) (Params, error) {
	for name := range given {
		if paramOf(p, name) == nil {
			return Params{}, unknownParam(p, name)
		}
	}
	out := Params{Recorded: map[string]string{}, Secrets: map[string]string{}}
	for _, param := range p.Params {
		value, ok := given[param.Name]
		if !ok && param.Secret {
			value, ok = environment(param.Name)
		}
		if !ok && param.Default != nil {
			value, ok = *param.Default, true
		}
		if !ok {
			continue
		}
		if err := out.take(param, value); err != nil {
			return Params{}, err
		}
	}
	return out, nil
}

// take stores a value. It refuses a value that is not among the choices, and one that an
// environment cannot hold.
func (v Params) take(param session.Param, value string) error {
	switch {
	case strings.ContainsRune(value, 0):
		return &session.Error{Code: session.ErrUsage, Message: "the value of the param " + param.Name + " holds a NUL byte; nothing was changed"}
	case len(param.Choices) > 0 && !slices.Contains(param.Choices, value):
		shown := fmt.Sprintf("%q", value)
		if param.Secret {
			shown = "the given value"
		}
		return &session.Error{Code: session.ErrUsage, Message: fmt.Sprintf("the param %s is one of %s, not %s; nothing was changed", param.Name, strings.Join(param.Choices, ", "), shown)}
	case param.Secret:
		v.Secrets[param.Name] = value
	default:
		v.Recorded[param.Name] = value
	}
	return nil
}

// Complete asks for the missing secret params, and returns the required params that still
// have no value. ask returns an empty value if no person can be asked.
func (v Params) Complete(ctx context.Context, p *session.Plan, ask func(ctx context.Context, name, about string) (string, error)) (missing []session.Param, err error) {
	for _, param := range p.Params {
		_, recorded := v.Recorded[param.Name]
		_, secret := v.Secrets[param.Name]
		if recorded || secret {
			continue
		}
		value := ""
		if param.Secret {
			if value, err = ask(ctx, param.Name, param.Description); err != nil {
				return nil, err
			}
		}
		if value != "" {
			err = v.take(param, value)
		} else if param.Required {
			missing = append(missing, param)
		}
		if err != nil {
			return nil, err
		}
	}
	return missing, nil
}

func paramOf(p *session.Plan, name string) *session.Param {
	at := slices.IndexFunc(p.Params, func(param session.Param) bool { return param.Name == name })
	if at < 0 {
		return nil
	}
	return &p.Params[at]
}

func unknownParam(p *session.Plan, name string) error {
	e := &session.Error{Code: session.ErrUsage, Message: "the plan has no param " + name + "; nothing was changed", Next: session.Words("declare it under params in the plan")}
	var names []string
	for _, param := range p.Params {
		names = append(names, param.Name)
	}
	if len(names) > 0 {
		e.Next = session.Words("the params of the plan are " + session.Few(names, 20))
	}
	return e
}
