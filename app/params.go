package app

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/acode-dev/acode/session"
)

// Params are the values of a plan's params at the start of a session.
type Params struct {
	Recorded map[string]string
	Secrets  map[string]string // never recorded
}

// NewParams fills in for the params of p what given, the environment (secrets alone) and the defaults
// say. It returns ErrUsage for a name that p does not know and for a value that is none of the choices.
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

// take refuses a value that is none of the choices, or that no environment can hold.
func (v Params) take(param session.Param, value string) error {
	switch {
	case strings.ContainsRune(value, 0):
		return &session.Error{Code: session.ErrUsage, Message: "the value of the param " + param.Name + " holds a NUL byte; nothing was changed"}
	case len(param.Choices) > 0 && !slices.Contains(param.Choices, value):
		shown := fmt.Sprintf("%q", value)
		if param.Secret {
			shown = "what was given"
		}
		return &session.Error{Code: session.ErrUsage, Message: fmt.Sprintf("the param %s is one of %s, not %s; nothing was changed", param.Name, strings.Join(param.Choices, ", "), shown)}
	case param.Secret:
		v.Secrets[param.Name] = value
	default:
		v.Recorded[param.Name] = value
	}
	return nil
}

// Complete asks for the secret params that are missing, and gives the required ones that have no value
// then. ask gives an empty value where no person can be asked.
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
