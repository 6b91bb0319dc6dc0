package session

import (
	"maps"
	"slices"
	"strings"
)

// Param is a value that a plan asks for when a session starts.
type Param struct {
	Name string `json:"name"`
	// A nil Default means that there is none.
	Default  *string `json:"default,omitempty"`
	Required bool    `json:"required,omitempty"`
	// The value of a Secret is never recorded.
	Secret bool `json:"secret,omitempty"`
	// Choices lists the valid values. If it is empty, every value is valid.
	Choices     []string `json:"choices,omitempty"`
	Description string   `json:"description,omitempty"`
}

// Inputs are the values, besides its plan, with which a session began: those of params
// and of the variables that its commands read. A resume restores them. A nil *Inputs
// records nothing.
type Inputs struct {
	Params map[string]string `json:"params,omitempty"`
	// Env holds the recorded variables. A nil value means that the variable was not set.
	Env map[string]*string `json:"env,omitempty"`
	// Secrets says for each name without a recorded value whether it was set.
	Secrets map[string]bool `json:"secrets,omitempty"`
	// Others holds a keyed digest of every other variable.
	Others map[string]string `json:"others,omitempty"`
}

// Environment describes the variables and the secrets of a process to Record.
type Environment struct {
	Vars map[string]string
	// Secret reports whether the value of a variable with this name is a secret.
	Secret func(name string) bool
	Digest func(name, value string) string
	// Reads returns the variables that a command or its check reads before it sets them.
	Reads func(r *Run) []string
}

// Record returns the inputs of p. params holds the values of all params that have one and
// are not secret.
func Record(p *Plan, params map[string]string, e Environment) *Inputs {
	in := &Inputs{Params: maps.Clone(params), Env: map[string]*string{}, Secrets: map[string]bool{}, Others: map[string]string{}}
	names := p.reads(e.Reads, func(StepID) bool { return true })
	for _, name := range p.Inputs {
		names[name] = true
	}
	for _, param := range p.Params {
		names[param.Name] = true
		if param.Secret {
			_, in.Secrets[param.Name] = e.Vars[param.Name]
		}
	}
	for name := range names {
		_, given := params[name]
		_, secret := in.Secrets[name]
		switch value, set := e.Vars[name]; {
		case given || secret:
		case e.Secret(name):
			in.Secrets[name] = set
		case set:
			in.Env[name] = &value
		default:
			in.Env[name] = nil
		}
	}
	for name, value := range e.Vars {
		if !in.has(name) && !Unrecorded(name) {
			in.Others[name] = e.Digest(name, value)
		}
	}
	return in
}

// has reports whether in holds more of a variable than a digest.
func (in *Inputs) has(name string) bool {
	_, param := in.Params[name]
	_, env := in.Env[name]
	_, secret := in.Secrets[name]
	return param || env || secret
}

// reads returns the variables that the commands of the steps that want accepts read from
// the environment. It excludes captures that they can see, variables that the step sets
// by env, and variables that are never recorded.
func (p *Plan) reads(reads func(*Run) []string, want func(StepID) bool) map[string]bool {
	names := map[string]bool{}
	visible := NewVisibility(p)
	for i := range p.Tasks {
		for j := range p.Tasks[i].Steps {
			step := &p.Tasks[i].Steps[j]
			if step.Run == nil || !want(StepID{Task: p.Tasks[i].ID, Step: step.ID}) {
				continue
			}
			found := reads(step.Run)
			if len(found) == 0 {
				continue
			}
			captures := visible.At(i, j)
			for _, name := range found {
				_, captured := captures[name]
				_, given := step.Run.Env[name]
				if !captured && !given && !Unrecorded(name) {
					names[name] = true
				}
			}
		}
	}
	return names
}

// Environ returns present, an environment, with the recorded values and the available
// secrets in place of its own values.
func (in *Inputs) Environ(present []string, secrets map[string]string) []string {
	if in == nil {
		return slices.Clone(present)
	}
	var out []string
	for _, kv := range present {
		name, _, _ := strings.Cut(kv, "=")
		_, secret := secrets[name]
		_, param := in.Params[name]
		if _, env := in.Env[name]; !secret && !param && !env {
			out = append(out, kv)
		}
	}
	set := maps.Clone(secrets)
	if set == nil {
		set = map[string]string{}
	}
	for name, value := range in.Env {
		if value != nil {
			set[name] = *value
		}
	}
	maps.Copy(set, in.Params)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		out = append(out, name+"="+set[name])
	}
	return out
}

// Values returns the values of params and declared inputs for ${NAME} in contents and
// questions. A name without a value is empty. Captures are not included.
func (in *Inputs) Values(p *Plan, secrets map[string]string) map[string]string {
	if in == nil {
		return nil
	}
	out := map[string]string{}
	for _, name := range p.Declared() {
		if value, param := in.Params[name]; param {
			out[name] = value
		} else if value := in.Env[name]; value != nil {
			out[name] = *value
		} else {
			out[name] = secrets[name]
		}
	}
	return out
}

// Masked maps the names of secrets to the text that people see instead of their values.
func (in *Inputs) Masked() map[string]string {
	if in == nil {
		return nil
	}
	out := map[string]string{}
	for name := range in.Secrets {
		out[name] = "***"
	}
	return out
}

// Declared returns the names of p's params and inputs.
func (p *Plan) Declared() []string {
	names := slices.Clone(p.Inputs)
	for _, param := range p.Params {
		names = append(names, param.Name)
	}
	return names
}

// Differ returns the sorted names of variables that are missing now or have another
// value. It looks only at variables of which in has a digest.
func (in *Inputs) Differ(e Environment) []string {
	var names []string
	for name, digest := range in.Others {
		if value, set := e.Vars[name]; !set || e.Digest(name, value) != digest {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Missing returns the sorted names of secrets that were set at the start and are not
// available now. It includes only secrets that are declared, or that a command of an
// uncompleted step reads. have reports whether a secret is available.
func (in *Inputs) Missing(p *Plan, e Environment, have func(name string) bool, done func(StepID) bool) []string {
	var names []string
	for name, set := range in.Secrets {
		if set && !have(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	needed := p.reads(e.Reads, func(id StepID) bool { return !done(id) })
	declared := p.Declared()
	names = slices.DeleteFunc(names, func(name string) bool { return !needed[name] && !slices.Contains(declared, name) })
	slices.Sort(names)
	return names
}

// Renew returns Record of the present environment with the params of in. changed holds
// the sorted names of the variables whose recorded values differ.
func (in *Inputs) Renew(p *Plan, e Environment) (now *Inputs, changed []string) {
	now = Record(p, in.Params, e)
	for _, param := range p.Params {
		if param.Secret { // A secret param is not part of the environment, even if its value came from there.
			now.Secrets[param.Name] = in.Secrets[param.Name]
		}
	}
	for name, value := range now.Env {
		old, known := in.Env[name]
		if !known || (value == nil) != (old == nil) || value != nil && *value != *old {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	return now, changed
}

// Unrecorded reports whether the variable name is never recorded, because acode, the
// shell, the terminal or the login session sets it.
func Unrecorded(name string) bool {
	return slices.ContainsFunc(UnrecordedNames(), func(pattern string) bool {
		prefix, all := strings.CutSuffix(pattern, "*")
		return name == pattern || all && strings.HasPrefix(name, prefix)
	})
}

// UnrecordedNames returns the names of the variables that are never recorded. A name that
// ends with * stands for all names with that prefix.
func UnrecordedNames() []string {
	return strings.Fields(unrecorded)
}

const unrecorded = `ACODE_*
	_ BASH BASHOPTS BASHPID BASH_* COMP_* DIRSTACK EPOCHREALTIME EPOCHSECONDS EUID FUNCNAME GROUPS HIST* HOSTNAME HOSTTYPE IFS
	LINENO MACHTYPE OLDPWD OPTARG OPTERR OPTIND OSTYPE PIPESTATUS PPID PS0 PS1 PS2 PS3 PS4 PWD RANDOM REPLY SECONDS SHELLOPTS SHLVL SRANDOM UID
	ALACRITTY_* COLORFGBG COLORTERM COLUMNS GPG_TTY ITERM_* KITTY_* KONSOLE_* LINES STY TERM TERMCAP TERMINFO TERM_* TMUX TMUX_PANE TTY
	VTE_VERSION WEZTERM_* WINDOWID WT_*
	DBUS_SESSION_BUS_ADDRESS DESKTOP_SESSION DESKTOP_STARTUP_ID DISPLAY GDMSESSION GNOME_* INVOCATION_ID JOURNAL_STREAM KDE_* MAIL
	MANAGERPID NOTIFY_SOCKET SECURITYSESSIONID SESSION_MANAGER SSH_AGENT_PID SSH_ASKPASS SSH_AUTH_SOCK SSH_CLIENT SSH_CONNECTION SSH_TTY
	SUDO_COMMAND SUDO_GID SUDO_UID SUDO_USER SYSTEMD_EXEC_PID VSCODE_* WATCHDOG_PID WATCHDOG_USEC WAYLAND_DISPLAY WSL_INTEROP
	XAUTHORITY XDG_CURRENT_DESKTOP XDG_RUNTIME_DIR XDG_SEAT XDG_SESSION_* XDG_VTNR XPC_*`
