package arch_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/acode-dev/acode/internal/arch"
)

// TestProse prints the counts of every folder; run it with -v.
func TestProse(t *testing.T) {
	tree, err := arch.Load(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%-22s %7s %6s %6s %9s %6s %6s %6s", "folder", "words", "vague", "what", "trailing", "wide", "long", "old")
	for _, p := range arch.ReadProse(tree) {
		t.Logf("%-22s %7d %6.1f %6.1f %7.0f %% %6d %6d %6d", p.Dir, p.Words, per(p.Vague, p.Words, 1000), per(p.What, p.Words, 1000), per(p.Trailing, p.Lines, 100), p.Wide, p.Long, p.Old)
		for _, b := range p.Breaches() {
			t.Error(b)
		}
	}
}

func per(n, of, scale int) float64 { return float64(n*scale) / float64(max(1, of)) }

// TestDocuments checks README, docs and CHANGELOG.
func TestDocuments(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(names) < 5 {
		t.Fatalf("docs: got %d documents, %v", len(names), err)
	}
	for _, name := range append(names, filepath.Join(root, "README.md"), filepath.Join(root, "CHANGELOG.md")) {
		for _, b := range arch.Documents(filepath.Base(name), read(t, name)) {
			t.Error(b)
		}
	}
}

const long = "This sentence has one word more than the thirty-five that a reader can keep in mind at once, because it goes on and on until nobody remembers how it began or why it was ever begun at all."

// Each rule of prose finds a planted breach, and finds none in plain text.
func TestProsePlanted(t *testing.T) {
	vague := "// Run waits for nobody. " + "It waits for somebody. "
	for name, c := range map[string]struct{ source, want string }{
		"plain":    {"package p\n\n// Run waits.\nfunc Run() {}\n", ""},
		"vague":    {"package p\n\n" + vague + "\nfunc Run() {}\n", `"nobody", "somebody"`},
		"what":     {"package p\n\n// What is this? It is what it is.\nfunc Run() {}\n", `"what"`},
		"wide":     {"package p\n\n// Run " + strings.Repeat("waits ", 15) + "\nfunc Run() {}\n", "90 columns"},
		"trailing": {"package p\n\ntype t struct {\n\ta int // one\n\tb int // two\n}\n", "comment behind code"},
		"sentence": {"package p\n\n// " + strings.NewReplacer(" that ", "\n// that ", " because", "\n// because", " how ", "\n// how ").Replace(long) + "\nfunc Run() {}\n", "at most 35 words"},
		"comment":  {"package p\n\n// Run begins anew.\nfunc Run() {}\n", `"anew"`},
		"message":  {"package p\n\nconst m = \"the file shall be there\"\n", `"shall"`},
		"code":     {"package p\n\n// Run waits:\n//\n//\t" + long + "\nfunc Run() {}\n", "90 columns"},
	} {
		t.Run(name, func(t *testing.T) {
			tree, err := arch.Parse(map[string]string{"p/p.go": c.source})
			if err != nil {
				t.Fatal(err)
			}
			findsPlanted(t, arch.ReadProse(tree)[0].Breaches(), c.want)
		})
	}
	for name, c := range map[string]struct{ text, want string }{
		"plain":    {"# Title\n\nOne sentence. Another one.\n", ""},
		"sentence": {"- A list.\n- " + long + "\n", "at most 35 words"},
		"two":      {"- A list. " + long[:80] + ". " + long[80:] + "\n", ""},
		"fence":    {"```\n" + long + "\n```\n", ""},
		"code":     {"Type:\n\n    " + long + "\n", ""},
		"table":    {"| a | " + long + " |\n", ""},
		"archaic":  {"The file shall be there.\n", `"shall"`},
	} {
		t.Run("document_"+name, func(t *testing.T) { findsPlanted(t, arch.Documents("d.md", c.text), c.want) })
	}
}

// findsPlanted expects one kind of breach, or none.
func findsPlanted(t *testing.T, got []arch.Breach, want string) {
	t.Helper()
	if want == "" && len(got) > 0 || want != "" && (len(got) == 0 || !strings.Contains(got[0].Message, want)) {
		t.Errorf("got %v, want %q", got, want)
	}
}
