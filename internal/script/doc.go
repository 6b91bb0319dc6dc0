// Package script holds the shared parts of the command line's script tests: the commands
// of the scripts, and the place in which a script runs. No script depends on the speed of
// the machine: a step that must be in progress waits for a file (the program hold).
package script

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"
)

// hold is a command for plans. "hold NAME" makes $WORK/NAME.here to report that it runs,
// and waits for $WORK/NAME, which the script makes with "let NAME". It ends with its
// script.
const hold = `#!/bin/sh
: >"$WORK/$1.here"
until [ -e "$WORK/$1" ] || [ ! -e "$WORK/$1.here" ]; do sleep 0.02; done
`

// Setup gives a script a workspace "ws", its own home, and a store outside of the
// workspace.
func Setup(env *testscript.Env) error {
	in := func(name string) string { return filepath.Join(env.WorkDir, name) }
	env.Setenv("HOME", in("home"))
	env.Setenv("ACODE_HOME", in("state"))
	env.Setenv("ACODE_KEY_KEYRING", "false")
	env.Setenv("XDG_CONFIG_HOME", in("config"))
	env.Setenv("LEDGER", in("ledger"))
	env.Setenv("PATH", in("bin")+string(filepath.ListSeparator)+env.Getenv("PATH"))
	env.Setenv("NO_COLOR", "1")
	// With the race detector each exit would take a second.
	env.Setenv("GORACE", "atexit_sleep_ms=0")
	env.Values[scriptKey{}] = newScript(env.WorkDir)
	// A supervisor that a script stopped and never continued would stay forever.
	env.Defer(func() {
		// pkill fails if there is no such process.
		_ = exec.Command("pkill", "-CONT", "-f", "supervise .*"+env.WorkDir).Run()
	})
	env.Cd = in("ws")
	return errors.Join(
		os.MkdirAll(in("ws"), 0o755), os.MkdirAll(in("home"), 0o755), os.MkdirAll(in("bin"), 0o755),
		os.WriteFile(in("ledger"), nil, 0o644), os.WriteFile(in("bin/hold"), []byte(hold), 0o755),
	)
}

// Condition answers [root] and [namespaces]. Only root can make some states of files.
// Some containers do not let root make namespaces, so [namespaces] tries unshare.
func Condition(cond string) (bool, error) {
	switch cond {
	case "root":
		return os.Getuid() == 0, nil
	case "namespaces":
		return exec.Command("unshare", "--mount", "--pid", "--fork", "--mount-proc", "true").Run() == nil, nil
	}
	return false, errors.New("unknown condition")
}
