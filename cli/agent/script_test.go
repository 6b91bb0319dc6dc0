package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/acode-dev/acode/internal/script"
)

// TestScripts runs the command line as typed.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			repository, err := filepath.Abs("../..")
			if err != nil {
				return err
			}
			env.Setenv("REPOSITORY", repository)
			return script.Setup(env)
		},
		Cmds:        script.Verbs(),
		Condition:   script.Condition,
		TestWork:    os.Getenv("ACODE_TEST_KEEP") != "",
		WorkdirRoot: os.Getenv("ACODE_TEST_KEEP"),
	})
}
