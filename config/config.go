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
	Sandbox   string // "off", the only value until there is an agent to confine

	Notify      string // absolute; the program that is told how sessions come to rest; empty: none
	MaxParallel int    // steps of a session that may run at once, where neither run nor its plan says
}

// Resume says how a session is gone on with.
type Resume struct {
	InProgressStrategy  string        // rollback, retry or prompt (FR-027, FR-028)
	ValidateEnvironment bool          // look for changes before going on
	ChangedFilesAction  string        // prompt, continue or abort
	ValidationTimeout   time.Duration // for looking; at least 1s
}

// Store says where sessions are kept.
type Store struct {
	Home string // absolute
}

// Log says what is logged and where.
type Log struct {
	Dir      string // absolute; in the store's directory unless set
	Level    string // debug, info, warn or error
	MaxBytes int64  // of one file, after which the next is begun
	Keep     int    // how many full files are kept
}

// Lock says how a lock that somebody else holds is met.
type Lock struct {
	Wait time.Duration // 0 does not wait
}

// Workspace says which directories may be worked in.
type Workspace struct {
	Allow []string // absolute; directories that are accepted though they would be refused
	Share bool     // let several sessions execute in one workspace
}

// Command bounds what commands leave behind.
type Command struct {
	MaxOutputBytes int64 // of standard output and standard error together
}

// Terminal says how output looks.
type Terminal struct {
	Color string // auto, always or never
}

// Key says where the store's key may be kept.
type Key struct {
	Keyring bool // use the system's keyring when there is one
}

// Sync says where sessions are delivered to, and how.
type Sync struct {
	URL            string        // with its password; empty: nowhere (FR-048)
	AllowPlaintext bool          // accept a server beyond this machine without TLS
	LateAfter      time.Duration // delivery is late when the oldest pending event is older
	OnParked       string        // wait or continue
	Listen         string        // of the syncer: host:port, or unix:/path
}

// Value is one setting as text, with where it was set.
type Value struct {
	Key    string // path with dots
	Value  string
	Origin string // "default", "/path/config.yml:12", "environment ACODE_HOME", "flag --wait"
}

// Sources are the layers, read by the caller. Nil data is a file that does not exist.
type Sources struct {
	UserFile    string // name for places and origins
	UserData    []byte
	ProjectFile string
	ProjectData []byte
	Getenv      func(string) string // nil looks into Environ
	Environ     []string            // in the form of os.Environ; without it no variable is warned about
	Flags       map[string]string   // by key path; only those that were given
}

// Loaded is a configuration with the story of each value.
type Loaded struct {
	Config   Config
	Values   []Value  // every key, in the order of the table
	Warnings []string // one line each, for a person; not nil

	lasting map[string]string // what decides execution, without flags
}

// setting is a value on its way into the configuration.
type setting struct {
	text   string // canonical
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
	home string // the user's, for ~/
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
