package cli

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var updateReference = flag.Bool("update-reference", false, "write docs/cli.md")

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

// Each command has a manual page, which man renders without a warning. The other programs
// write the pages of their own commands.
func TestManual(t *testing.T) {
	dir := t.TempDir()
	if err := writeManual((&Invocation{}).root(), dir); err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(pages) < 20 {
		t.Fatalf("writeManual: got %d pages (%v), want one for each command", len(pages), err)
	}
	for _, name := range []string{"acode.1", "acode-run.1", "acode-session-list.1"} {
		if !slices.Contains(pages, filepath.Join(dir, name)) {
			t.Errorf("writeManual: there is no %s", name)
		}
	}
	if slices.Contains(pages, filepath.Join(dir, "acode-sync.1")) {
		t.Error("writeManual: got acode-sync.1, want acode-sync to write it")
	}
	for _, page := range pages {
		cmd := exec.CommandContext(t.Context(), "man", "--warnings=w", "-l", page)
		cmd.Env = append(os.Environ(), "MANPAGER=cat", "MANWIDTH=90", "LC_ALL=C.UTF-8")
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil || stderr.Len() > 0 || !strings.Contains(string(out), "SYNOPSIS") {
			t.Errorf("man -l %s: got %v, %s%s", filepath.Base(page), err, stderr.String(), out)
		}
	}
}

// A line of text that looks like markup is text.
func TestRoff(t *testing.T) {
	for line, want := range map[string]string{".SH x": `\&.SH x`, "'x'": `\&'x'`, `a\b -c`: `a\eb \-c`} {
		if got := roff(line); got != want {
			t.Errorf("roff(%q): got %q, want %q", line, got, want)
		}
	}
}
