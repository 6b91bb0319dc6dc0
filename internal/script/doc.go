// Package script is what tests of the command line share: the commands of their scripts,
// and the place in which a script runs. Nothing in a script depends on how fast the
// machine is: a step that must be in progress waits for a file (the program hold).
package script

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"
)

// hold is for commands of a plan: "hold NAME" says that it was reached by making
// $WORK/NAME.here and waits for $WORK/NAME, which the script makes with "let NAME". It
// ends with its script.
const hold = `#!/bin/sh
: >"$WORK/$1.here"
until [ -e "$WORK/$1" ] || [ ! -e "$WORK/$1.here" ]; do sleep 0.02; done
`

// Setup gives a script a workspace "ws" to work in, a home of its own, and a store
// outside of the workspace.
func Setup(env *testscript.Env) error {
	in := func(name string) string { return filepath.Join(env.WorkDir, name) }
	env.Setenv("HOME", in("home"))
	env.Setenv("ACODE_HOME", in("state"))
	env.Setenv("ACODE_KEY_KEYRING", "false")
	env.Setenv("XDG_CONFIG_HOME", in("config"))
	env.Setenv("LEDGER", in("ledger"))
	env.Setenv("PATH", in("bin")+string(filepath.ListSeparator)+env.Getenv("PATH"))
	env.Setenv("NO_COLOR", "1")
	// with the race detector each exit would take a second
	env.Setenv("GORACE", "atexit_sleep_ms=0")
	env.Values[scriptKey{}] = newScript(env.WorkDir)
	// a supervisor that a script stopped, and did not come to let go on, would stay for
	// ever
	env.Defer(func() {
		// it fails where there is none
		_ = exec.Command("pkill", "-CONT", "-f", "supervise .*"+env.WorkDir).Run()
	})
	env.Cd = in("ws")
	return errors.Join(
		os.MkdirAll(in("ws"), 0o755), os.MkdirAll(in("home"), 0o755), os.MkdirAll(in("bin"), 0o755),
		os.WriteFile(in("ledger"), nil, 0o644), os.WriteFile(in("bin/hold"), []byte(hold), 0o755),
	)
}

// Condition answers [root], as some states of files only root can make, and [namespaces]:
// whether unshare may make them, which takes more than root in some containers.
func Condition(cond string) (bool, error) {
	switch cond {
	case "root":
		return os.Getuid() == 0, nil
	case "namespaces":
		return exec.Command("unshare", "--mount", "--pid", "--fork", "--mount-proc", "true").Run() == nil, nil
	}
	return false, errors.New("unknown condition")
}
