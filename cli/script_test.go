package cli

import (
	"context"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/acode-dev/acode/internal/kernel"
	"github.com/acode-dev/acode/internal/script"
)

// TestMain lets the test binary be acode itself, supervisors included.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"acode": func() {
			if err := kernel.Become(); err != nil {
				panic(err)
			}
			os.Exit(Main(context.Background(), os.Args[1:]))
		},
		"late": late,
	})
}

// late ends like an acode that gets a signal just after it printed its result.
func late() {
	_, _, stop := newInvocation().signals(context.Background())
	stop()
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		_ = syscall.Kill(os.Getpid(), s) // does not fail
	}
	os.Exit(0)
}

// TestScripts runs the command line as typed.
func TestScripts(t *testing.T) {
	// Under nohup each acode would ignore it too.
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	testscript.Run(t, testscript.Params{
		Dir:         filepath.Join("testdata", "script"),
		Setup:       script.Setup,
		Cmds:        verbs(),
		Condition:   script.Condition,
		TestWork:    os.Getenv("ACODE_TEST_KEEP") != "",
		WorkdirRoot: os.Getenv("ACODE_TEST_KEEP"),
	})
}

// verbs are the verbs of every script, and some that write states which acode never
// writes.
func verbs() map[string]script.Verb {
	all := script.Verbs()
	maps.Copy(all, map[string]script.Verb{
		"claim":  script.Usage(3, "claim ID KEY COMMAND...", claim),
		"midway": script.Usage(1, "midway ID", midway),
		"stray":  script.Usage(1, "stray ID", stray),
	})
	return all
}
