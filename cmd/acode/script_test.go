package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the test binary be acode itself, supervisors included.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"acode": main,
	})
}

// TestScripts runs the command line as typed. Each script has a workspace "ws" to work in, a
// home of its own, and a store outside of the workspace.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("ACODE_HOME", filepath.Join(env.WorkDir, "state"))
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
			env.Setenv("LEDGER", filepath.Join(env.WorkDir, "ledger"))
			env.Cd = filepath.Join(env.WorkDir, "ws")
			return errors.Join(os.MkdirAll(env.Cd, 0o755), os.MkdirAll(filepath.Join(env.WorkDir, "home"), 0o755),
				os.WriteFile(filepath.Join(env.WorkDir, "ledger"), nil, 0o644))
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits,
			"lines": countLines,
		},
	})
}

// exits runs a command that must end with a status: exits 14 acode resume.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil && !errors.Is(err, context.Canceled) {
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("%v: exit status %d, want %d", args[1:], got, want)
	}
}

// countLines compares the number of lines in a file: lines 3 $LEDGER.
func countLines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: lines COUNT FILE")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	for _, b := range []byte(ts.ReadFile(args[1])) {
		if b == '\n' {
			got++
		}
	}
	if got != want {
		ts.Fatalf("%s has %d lines, want %d", args[1], got, want)
	}
}
