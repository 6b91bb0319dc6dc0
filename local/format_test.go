package local_test

import (
	"os"
	"strings"
	"testing"

	"github.com/acode-dev/acode/local"
)

// The worked example in the description of the format equals the program's results.
func TestFormatFixture(t *testing.T) {
	doc, err := os.ReadFile("../docs/format.md")
	if err != nil {
		t.Fatal(err)
	}
	fixture, err := local.Fixture()
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range fixture {
		if line := "\n" + name + ": " + value + "\n"; !strings.Contains(string(doc), line) {
			t.Errorf("docs/format.md lacks the line%s", line)
		}
	}
}
