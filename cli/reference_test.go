package cli

import (
	"flag"
	"os"
	"testing"
)

var updateReference = flag.Bool("update-reference", false, "write docs/cli.md anew")

// docs/cli.md is generated from the program; `make docs` writes it.
func TestCLIReferenceIsTrue(t *testing.T) {
	const path = "../docs/cli.md"
	want := reference((&Invocation{}).root())
	if *updateReference {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s is not what the program says (%v); run: make docs", path, err)
	}
}
