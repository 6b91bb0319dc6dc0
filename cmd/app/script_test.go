package app

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the test binary be acode itself, supervisors included.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"acode": func() { os.Exit(Main(context.Background(), os.Args[1:])) },
	})
}

// TestScripts runs the command line as typed. Each script has a workspace "ws" to work in, a
// home of its own, and a store outside of the workspace. Nothing in them depends on how fast
// the machine is: a step that must be in progress waits for a file (the program hold).
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:         filepath.Join("testdata", "script"),
		Setup:       setup,
		Cmds:        verbs(),
		Condition:   condition,
		TestWork:    os.Getenv("ACODE_TEST_KEEP") != "",
		WorkdirRoot: os.Getenv("ACODE_TEST_KEEP"),
	})
}

// hold is for commands of a plan: "hold NAME" says that it was reached by making $WORK/NAME.here
// and waits for $WORK/NAME, which the script makes with "let NAME". It ends with its script.
const hold = `#!/bin/sh
: >"$WORK/$1.here"
until [ -e "$WORK/$1" ] || [ ! -e "$WORK/$1.here" ]; do sleep 0.02; done
`

func setup(env *testscript.Env) error {
	in := func(name string) string { return filepath.Join(env.WorkDir, name) }
	env.Setenv("HOME", in("home"))
	env.Setenv("ACODE_HOME", in("state"))
	env.Setenv("ACODE_KEY_KEYRING", "false")
	env.Setenv("XDG_CONFIG_HOME", in("config"))
	env.Setenv("LEDGER", in("ledger"))
	env.Setenv("PATH", in("bin")+string(filepath.ListSeparator)+env.Getenv("PATH"))
	env.Setenv("NO_COLOR", "1")
	env.Setenv("GORACE", "atexit_sleep_ms=0") // with the race detector each exit would take a second
	env.Values[scriptKey{}] = newScript(env.WorkDir)
	env.Cd = in("ws")
	return errors.Join(
		os.MkdirAll(in("ws"), 0o755), os.MkdirAll(in("home"), 0o755), os.MkdirAll(in("bin"), 0o755),
		os.WriteFile(in("ledger"), nil, 0o644), os.WriteFile(in("bin/hold"), []byte(hold), 0o755),
	)
}

// condition answers [root]: some states of files only root can make.
func condition(cond string) (bool, error) {
	if cond == "root" {
		return os.Getuid() == 0, nil
	}
	return false, errors.New("unknown condition")
}
