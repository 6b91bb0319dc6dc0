package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/acode-dev/acode/config"
	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/policy"
	"github.com/acode-dev/acode/sandbox"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/subtree"
)

// SandboxMode returns how this system confines commands. It returns ErrConfig if it
// cannot.
func (s *Setup) SandboxMode() (string, error) {
	executable, err := s.stageProgram()
	if err != nil {
		return "", err
	}
	mode, err := sandbox.Mode(executable)
	if err != nil {
		return "", &session.Error{Code: session.ErrConfig, Message: "this system cannot confine commands, so none was started", Cause: err,
			Next: session.Words("to run commands with all your rights, set sandbox: off in the configuration")}
	}
	return mode, nil
}

// stageProgram returns the program that is the first stage of confined commands.
func (s *Setup) stageProgram() (string, error) {
	if s.Supervisor != "" {
		return s.Supervisor, nil
	}
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	return path, nil
}

// Diagnosis is what the sandbox enforces on this system.
type Diagnosis struct {
	V int `json:"v"`
	// Mode is namespaces or filter.
	Mode     string            `json:"mode"`
	Enforced string            `json:"enforced"`
	Findings []sandbox.Finding `json:"findings"`
	// OK says that everything that is promised was refused.
	OK bool `json:"ok"`
}

// Examine tries a sandbox without a network on this system. It returns ErrConfig if there
// can be none.
func (s *Setup) Examine() (d Diagnosis, err error) {
	d = Diagnosis{V: 1, OK: true}
	if d.Mode, err = s.SandboxMode(); err != nil {
		return d, err
	}
	trial := *s
	if trial.Workspace, err = os.MkdirTemp("", "acode-doctor-"); err != nil {
		return d, fmt.Errorf("make a workspace: %w", err)
	}
	box, err := trial.box(d.Mode, session.Confined)
	p := sandbox.Profile(box.Sandbox)
	// they held nothing
	defer func() { _, _ = os.RemoveAll(trial.Workspace), os.RemoveAll(filepath.Dir(p.Home)) }()
	if err != nil {
		return d, err
	}
	executable, err := s.stageProgram()
	if err != nil {
		return d, err
	}
	d.Enforced = p.Enforced()
	d.Findings, err = p.Examine(executable, subtree.Resolved(s.home()), config.UserDir(os.Getenv))
	for _, f := range d.Findings {
		d.OK = d.OK && (f.Refused || !f.Promised)
	}
	return d, err
}

// confines returns a function that makes the sandboxes of the session.
func (w *work) confines() func(session.Confinement) (engine.Box, error) {
	mode := sync.OnceValues(w.SandboxMode)
	return func(how session.Confinement) (engine.Box, error) {
		m, err := mode()
		if err != nil {
			return engine.Box{}, err
		}
		return w.box(m, how)
	}
}

// box returns a sandbox for commands in the workspace.
func (s *Setup) box(mode string, how session.Confinement) (engine.Box, error) {
	if subtree.Within(s.Workspace, subtree.Resolved(s.home())) {
		return engine.Box{}, &session.Error{Code: session.ErrConfig, Message: "the store lies inside the workspace, so commands cannot be kept from it; the command was not started", Place: s.home(),
			Next: session.Words("set ACODE_HOME to a directory outside " + s.Workspace)}
	}
	p, place := s.Profile(mode, how)
	for _, dir := range []string{p.Home, p.Tmp} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return engine.Box{}, &session.Error{Code: session.ErrStoreIO, Message: "the private directories of commands cannot be made; the command was not started", Place: dir, Cause: err}
		}
	}
	isThere := func(dir string) bool { _, err := os.Stat(dir); return err == nil }
	return engine.Box{Sandbox: session.Sandbox(p), Environ: place.Environ(os.Environ()), Own: place.Own(p, isThere)}, nil
}

// Profile returns what confined commands of the workspace may do.
func (s *Setup) Profile(mode string, how session.Confinement) (sandbox.Profile, sandbox.Place) {
	network := how == session.ConfinedOnline
	sum := sha256.Sum256([]byte(s.Workspace))
	state := subtree.Resolved(s.home())
	dir := filepath.Join(state, "sandbox", hex.EncodeToString(sum[:8]))
	place := sandbox.Place{Getenv: os.Getenv, Home: subtree.Resolved(config.UserDir(os.Getenv)), State: state, Network: network}
	return sandbox.Profile{
		Mode: mode, Workspace: s.Workspace, Home: filepath.Join(dir, "home"), Tmp: filepath.Join(dir, "tmp"), Read: place.Readable(), Network: network, ReadOnly: how == session.ConfinedReading,
	}, place
}

// confinement returns the confinement of the plan's own commands. The configuration at
// the start of the session holds for all of it.
func (w *work) confinement(ctx context.Context) session.Confinement {
	if w.fresh {
		return session.Confinement(w.Settings.Config.Sandbox)
	}
	var keys map[string]string
	if json.Unmarshal([]byte(w.beginning(ctx).Config), &keys) != nil || keys["sandbox"] == "" {
		return session.Confinement(w.Settings.Config.Sandbox)
	}
	return session.Confinement(keys["sandbox"])
}

// confinable refuses to continue a session that began in a sandbox on a system that has
// none.
func (w *work) confinable(ctx context.Context) error {
	if w.confinement(ctx) != session.Confined {
		return nil
	}
	_, err := w.SandboxMode()
	if e := (*session.Error)(nil); errors.As(err, &e) {
		e.Next = session.Words("the session began with sandbox: on and keeps it; resume it on a system that can confine commands, or cancel it and start again with sandbox: off")
	}
	return err
}

// agent returns the confinement of the commands of an agent.
func (s *Setup) agent() session.Confinement { return cmp.Or(s.Agent, session.Confined) }

// granted returns the event that this process gives an agent or a model more powers than
// the configuration does, if it gives any.
func (s *Setup) granted() []session.Draft {
	d := session.PowersGrantedData{By: "flag"}
	if how := s.agent(); how != session.Confined {
		d.Sandbox = how
	}
	for _, v := range s.Settings.Values {
		if class, ok := strings.CutPrefix(v.Key, "approvals."); ok && strings.HasPrefix(v.Origin, "flag ") && v.Value == string(policy.Allow) {
			d.Classes = append(d.Classes, class)
		}
	}
	if d.Sandbox == "" && d.Classes == nil {
		return nil
	}
	return []session.Draft{{Type: session.PowersGranted, Actor: "user", Data: d}}
}
