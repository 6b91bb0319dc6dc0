package arch_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acode-dev/acode/internal/arch"
)

const root = "../.."

// TestHouse applies the rules to the code.
func TestHouse(t *testing.T) {
	tree, err := arch.Load(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Files) < 20 {
		t.Fatalf("Load: got %d files, want the whole module", len(tree.Files))
	}
	for name, breaches := range map[string][]arch.Breach{
		"layout":         arch.Layout(tree, arch.Packages()),
		"imports":        arch.Imports(tree, arch.Packages(), arch.Modules()),
		"idle":           arch.Idle(tree, arch.Packages(), arch.Modules()),
		"clock":          arch.Clock(tree),
		"inits":          arch.Inits(tree),
		"variables":      arch.Variables(tree),
		"names":          arch.Names(tree),
		"docs":           arch.Docs(tree),
		"cited":          arch.Cited(tree),
		"letters":        arch.Letters(tree),
		"template_calls": arch.TemplateCalls(tree),
		"commands":       arch.Commands(tree, arch.Arguments()),
	} {
		report(t, name, breaches)
	}
}

func report(t *testing.T, name string, breaches []arch.Breach) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		for _, b := range breaches {
			t.Error(b)
		}
	})
}

// TestModule checks go.mod and the packages that the program links.
func TestModule(t *testing.T) {
	ours := read(t, filepath.Join(root, "go.mod"))
	report(t, "go_mod", arch.GoMod(ours))
	theirs := strings.TrimSpace(run(t, "list", "-m", "-f", "{{.GoMod}}", "modernc.org/sqlite"))
	report(t, "libc", arch.Libc(ours, read(t, theirs)))
	imports := map[string][]string{}
	for line := range strings.Lines(run(t, "list", "-e", "-deps", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./cmd/acode")) {
		words := strings.Fields(line)
		imports[words[0]] = words[1:]
	}
	if len(imports["github.com/spf13/cobra"]) == 0 || len(imports["modernc.org/sqlite"]) == 0 {
		t.Fatalf("go list -deps: got %d packages without cobra or sqlite, want those of the program", len(imports))
	}
	report(t, "templates", arch.Templates(imports, arch.TemplateUsers()))
	for _, slow := range []string{"net/http", arch.Module + "/outbox", arch.Module + "/remote"} {
		if _, linked := imports[slow]; linked {
			t.Errorf("cmd/acode links %s, which costs each start time and memory: leave it to acode-sync", slow)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}
