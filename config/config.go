// Package config merges the layers of configuration and records the origin of each value.
// The layers are the defaults, the user's file, the project's file, the environment and
// the flags. Each layer overrides the one before.
//
//	F1  A project's file may come from a stranger. It can set only the resume keys,
//	    and a warning names each protection that it removes.
//	F2  Load does not guess. An unknown key, a wrong type or a wrong value is an
//	    error that names the place.
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
	Approvals Approvals
	Limits    Limits
	// Checkpoint says when acode writes further checkpoints.
	Checkpoint Checkpoint
	// Sandbox is on or off.
	Sandbox string
	// Models holds the models by name.
	Models map[string]Model
	// Model is the name of the model of prompts that name none; it may be empty.
	Model string

	// Notify is the absolute path of a program. acode runs it when a
	// session needs a person, fails or completes. It is empty if there is none.
	Notify string
	// MaxParallel is how many steps of a session may run at once, if neither run nor its
	// plan says so.
	MaxParallel int
}

// Resume configures how a session continues.
type Resume struct {
	// InProgressStrategy is rollback, retry or prompt (FR-027, FR-028).
	InProgressStrategy string
	// ValidateEnvironment compares the environment before a session continues.
	ValidateEnvironment bool
	// ChangedFilesAction is prompt, continue or abort.
	ChangedFilesAction string
	// ValidationTimeout limits this comparison; it is at least 1s.
	ValidationTimeout time.Duration
}

// Store configures where sessions are stored.
type Store struct {
	// Home is an absolute path.
	Home string
}

// Log configures the logs.
type Log struct {
	// Dir is absolute. The default lies in the store's directory.
	Dir string
	// Level is debug, info, warn or error.
	Level string
	// MaxBytes is the size at which acode begins the next file.
	MaxBytes int64
	// Keep is the number of full files that acode keeps.
	Keep int
}

// Lock configures the reaction to a lock that another process holds.
type Lock struct {
	// Wait limits the wait for the lock; 0 means no wait.
	Wait time.Duration
}

// Workspace configures the allowed workspaces.
type Workspace struct {
	// Allow lists absolute directories that acode accepts although it would refuse them
	// by default.
	Allow []string
	// Share lets several sessions execute in one workspace.
	Share bool
}

// Command limits the output of commands that acode keeps.
type Command struct {
	// MaxOutputBytes is the limit for standard output and standard error together.
	MaxOutputBytes int64
}

// Terminal configures the appearance of output.
type Terminal struct {
	// Color is auto, always or never.
	Color string
}

// Key configures where the store's key may be kept.
type Key struct {
	// Keyring uses the system's keyring if there is one.
	Keyring bool
}

// Approvals configures who may answer the questions of sessions.
type Approvals struct {
	// Elicitation lets an MCP server ask through its client.
	Elicitation bool
	// Write, Delete, Command, Network and Git are allow, ask or deny: what a model may do.
	Write, Delete, Command, Network, Git string
	// Plan is always or never: whether a person approves each plan of a model.
	Plan string
	// MaxDenied is how many calls of a model may be denied before the session pauses.
	MaxDenied int
}

// Limits are what the prompts of a session may use; 0 means no limit.
type Limits struct {
	// Turns counts the requests to models.
	Turns  int
	Tokens int64
	// Tasks counts those of a plan that a model makes.
	Tasks int
	// Cost is in millionths of the currency of the prices.
	Cost int64
	// Time limits one run or resume.
	Time time.Duration
}

// Checkpoint says when the calls of models make further checkpoints.
type Checkpoint struct {
	// EveryCalls is a number of calls; 0 means none.
	EveryCalls int
	// Before is none, a class of calls, or all.
	Before string
}

// Classes returns the classes of calls before which a checkpoint is written.
func (c Checkpoint) Classes() []string {
	switch c.Before {
	case none:
		return nil
	case "all":
		return []string{"delete", "network", "git"}
	}
	return []string{c.Before}
}

// Sync configures the delivery of sessions to a server.
type Sync struct {
	// URL includes the password. It is empty if sessions are not delivered (FR-048).
	URL string
	// AllowPlaintext accepts a server on another machine without TLS.
	AllowPlaintext bool
	// LateAfter is the age of the oldest pending event above which delivery is late.
	LateAfter time.Duration
	// OnParked is wait or continue.
	OnParked string
	// WholeOutputs delivers all that was kept of outputs, not only head and tail.
	WholeOutputs bool
	// Listen is the address of the syncer: host:port, or unix:/path.
	Listen string
}

// Value is one setting as text and its origin.
type Value struct {
	// Key is a path with dots.
	Key   string
	Value string
	// Origin is such as "default", "/path/config.yml:12", "environment ACODE_HOME" or
	// "flag --wait".
	Origin string
}

// Sources are the layers, read by the caller. Nil data means that the file does not
// exist.
type Sources struct {
	// UserFile and ProjectFile are names for places and origins.
	UserFile    string
	UserData    []byte
	ProjectFile string
	ProjectData []byte
	// A nil Getenv looks into Environ.
	Getenv func(string) string
	// Environ has the form of os.Environ. Without it no variable causes a warning.
	Environ []string
	// Flags holds the given flags by key path.
	Flags map[string]string
}

// Loaded is a configuration with the origin of each value.
type Loaded struct {
	Config Config
	// Values holds every key, in the order of the table.
	Values []Value
	// Warnings are lines for a person; the slice is not nil.
	Warnings []string

	// lasting holds the values that affect execution, without flags.
	lasting map[string]string
}

// setting is a value of one layer.
type setting struct {
	// text is the canonical form.
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

// Load merges the layers. Every error is a *session.Error with session.ErrConfig. A wrong
// flag has session.ErrUsage instead.
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

// Keys returns the values that affect the execution of a session, by key path. Resume
// compares them. Flags are not included, because they are valid for one call only.
func (l *Loaded) Keys() map[string]string {
	return maps.Clone(l.lasting)
}

type loader struct {
	keys []key
	// home is the user's directory, for ~/.
	home string
	set  map[string]setting
	// models by name, and their settings as text
	models      map[string]Model
	modelValues []Value
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

// finish fills the configuration. Without a value of its own, the directory of the logs
// lies in the store's directory.
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
	out.Config.Models = l.models
	out.Values = append(out.Values, l.modelValues...)
}

// loosened returns a warning for each protection that the project's file removes (F1).
func (l *loader) loosened() []string {
	var out []string
	for _, risky := range []struct{ path, text, effect string }{
		{"resume.validate_environment", "false", "acode does not look for changes made while the session was stopped"},
		{"resume.changed_files_action", "continue", "the session continues with changed files without a question"},
	} {
		if s := l.set[risky.path]; s.layer == layerProject && s.text == risky.text {
			out = append(out, fmt.Sprintf("%s: the project's file sets %s: %s, so %s",
				s.origin, strings.TrimPrefix(risky.path, "resume."), risky.text, risky.effect))
		}
	}
	return out
}
