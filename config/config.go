// Package config puts the layers of configuration together and knows the origin of each
// value: defaults, the user's file, the project's file, the environment, flags, each over
// the one before.
//
//	F1  A project's file is somebody else's: it can set the resume keys and nothing else,
//	    and what it loosens there is a warning.
//	F2  Nothing is guessed: an unknown key, a wrong type or a wrong value is an error that
//	    names the place.
//	F3  Equal sources give equal values.
package config

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/acode-dev/acode/session"
)

// Config is the configuration in effect.
type Config struct {
	Resume    Resume
	Store     Store
	Log       Log
	Lock      Lock
	Workspace Workspace
	Command   Command
	Terminal  Terminal
	Key       Key
	Sync      Sync
	// "off", the only value until there is an agent to confine
	Sandbox string

	// absolute; the program that is told how sessions come to rest; empty: none
	Notify string
	// steps of a session that may run at once, where neither run nor its plan says
	MaxParallel int
}

// Resume says how a session is gone on with.
type Resume struct {
	// rollback, retry or prompt (FR-027, FR-028)
	InProgressStrategy string
	// look for changes before going on
	ValidateEnvironment bool
	// prompt, continue or abort
	ChangedFilesAction string
	// for looking; at least 1s
	ValidationTimeout time.Duration
}

// Store says where sessions are kept.
type Store struct {
	// absolute
	Home string
}

// Log says what is logged and where.
type Log struct {
	// absolute; in the store's directory unless set
	Dir string
	// debug, info, warn or error
	Level string
	// of one file, after which the next is begun
	MaxBytes int64
	// how many full files are kept
	Keep int
}

// Lock says how a lock that somebody else holds is met.
type Lock struct {
	// 0 does not wait
	Wait time.Duration
}

// Workspace says which directories may be worked in.
type Workspace struct {
	// absolute; directories that are accepted though they would be refused
	Allow []string
	// let several sessions execute in one workspace
	Share bool
}

// Command bounds what commands leave behind.
type Command struct {
	// of standard output and standard error together
	MaxOutputBytes int64
}

// Terminal says how output looks.
type Terminal struct {
	// auto, always or never
	Color string
}

// Key says where the store's key may be kept.
type Key struct {
	// use the system's keyring when there is one
	Keyring bool
}

// Sync says where sessions are delivered to, and how.
type Sync struct {
	// with its password; empty: nowhere (FR-048)
	URL string
	// accept a server beyond this machine without TLS
	AllowPlaintext bool
	// delivery is late when the oldest pending event is older
	LateAfter time.Duration
	// wait or continue
	OnParked string
	// of commands are delivered, not only head and tail
	WholeOutputs bool
	// of the syncer: host:port, or unix:/path
	Listen string
}

// Value is one setting as text, with where it was set.
type Value struct {
	// path with dots
	Key   string
	Value string
	// "default", "/path/config.yml:12", "environment ACODE_HOME", "flag --wait"
	Origin string
}

// Sources are the layers, read by the caller. Nil data is a file that does not exist.
type Sources struct {
	// name for places and origins
	UserFile    string
	UserData    []byte
	ProjectFile string
	ProjectData []byte
	// nil looks into Environ
	Getenv func(string) string
	// in the form of os.Environ; without it no variable is warned about
	Environ []string
	// by key path; only those that were given
	Flags map[string]string
}

// Loaded is a configuration with the story of each value.
type Loaded struct {
	Config Config
	// every key, in the order of the table
	Values []Value
	// one line each, for a person; not nil
	Warnings []string

	// what decides execution, without flags
	lasting map[string]string
}

// setting is a value on its way into the configuration.
type setting struct {
	// canonical
	text   string
	value  any
	origin string
	layer  layer
}

type layer int

const (
	layerDefault layer = iota
	layerUser
	layerProject
	layerEnvironment
	layerFlag
)

// Load puts the layers together. Every error is a *session.Error with session.ErrConfig,
// save for a wrong flag, which has session.ErrUsage.
func Load(src Sources) (*Loaded, error) {
	env := environment(src.Environ)
	get := src.Getenv
	if get == nil {
		get = func(name string) string { return env[name] }
	}
	l := &loader{keys: keys(), home: UserDir(get), set: map[string]setting{}}
	if err := cmp.Or(l.defaults(get), l.file(layerUser, src.UserFile, src.UserData),
		l.file(layerProject, src.ProjectFile, src.ProjectData), l.environment(get)); err != nil {
		return nil, err
	}
	out := &Loaded{lasting: map[string]string{}, Warnings: []string{}}
	for _, k := range l.keys {
		if k.execution {
			out.lasting[k.path] = l.set[k.path].text
		}
	}
	if err := l.flags(src.Flags); err != nil {
		return nil, err
	}
	l.finish(out)
	out.Warnings = append(append(out.Warnings, l.loosened()...), unknownVariables(env, l.keys)...)
	return out, nil
}

// Keys returns the values that decide how a session is executed, by key path, so that a
// difference can be named. Flags are not among them: they answer for one call.
func (l *Loaded) Keys() map[string]string {
	return maps.Clone(l.lasting)
}

type loader struct {
	keys []key
	// the user's, for ~/
	home string
	set  map[string]setting
}

func (l *loader) key(path string) (key, bool) {
	i := slices.IndexFunc(l.keys, func(k key) bool { return k.path == path })
	if i < 0 {
		return key{}, false
	}
	return l.keys[i], true
}

func (l *loader) put(k key, v parsed, origin string, in layer) {
	l.set[k.path] = setting{text: v.text, value: v.value, origin: origin, layer: in}
}

func (l *loader) defaults(getenv func(string) string) error {
	for _, k := range l.keys {
		text := k.def
		if k.path == "store.home" {
			text = Home(getenv)
		}
		v, err := k.parse(text, l.home)
		if err != nil {
			return &session.Error{Code: session.ErrConfig, Message: "the default of " + k.path + " " + err.Error(),
				Place: "default", Next: session.Words("set HOME, XDG_STATE_HOME or ACODE_HOME to an absolute path")}
		}
		l.put(k, v, "default", layerDefault)
	}
	return nil
}

func (l *loader) flags(flags map[string]string) error {
	for path := range flags {
		if _, known := l.key(path); !known {
			return fmt.Errorf("load configuration: no key %q for a flag: %w", path, session.ErrInternal)
		}
	}
	for _, k := range l.keys {
		text, given := flags[k.path]
		if !given {
			continue
		}
		v, err := k.parse(text, l.home)
		if err != nil {
			return &session.Error{Code: session.ErrUsage, Message: k.flagName() + " " + err.Error(),
				Place: "flag " + k.flagName(), Next: session.Words("use " + k.wants())}
		}
		l.put(k, v, "flag "+k.flagName(), layerFlag)
	}
	return nil
}

// finish fills the configuration. The log's directory follows the store's unless it is
// set.
func (l *loader) finish(out *Loaded) {
	if s := l.set["log.dir"]; s.text == "" {
		dir := filepath.Join(l.set["store.home"].text, "log")
		l.set["log.dir"] = setting{text: dir, value: dir, origin: s.origin, layer: s.layer}
	}
	for _, k := range l.keys {
		s := l.set[k.path]
		k.set(&out.Config, s.value)
		out.Values = append(out.Values, Value{Key: k.path, Value: s.text, Origin: s.origin})
	}
}

// loosened lists what the project's file takes away from a person's protection (F1).
func (l *loader) loosened() []string {
	var out []string
	for _, risky := range []struct{ path, text, effect string }{
		{"resume.validate_environment", "false", "changes made while the session slept are not looked for"},
		{"resume.changed_files_action", "continue", "the session goes on over changed files without asking"},
	} {
		if s := l.set[risky.path]; s.layer == layerProject && s.text == risky.text {
			out = append(out, fmt.Sprintf("%s: the project's file sets %s: %s, so %s",
				s.origin, strings.TrimPrefix(risky.path, "resume."), risky.text, risky.effect))
		}
	}
	return out
}
