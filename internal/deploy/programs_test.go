package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// commands returns the names of the programs of this repository.
func commands(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(root, "cmd"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	if len(out) < 3 {
		t.Fatalf("cmd: got %v, want three programs or more", out)
	}
	return out
}

// Each program is built, installed, removed, packaged and in the image.
func TestEachProgramIsInstalled(t *testing.T) {
	var release struct {
		Builds []struct{ Main, Binary string } `yaml:"builds"`
	}
	loose(t, &release, ".goreleaser.yaml")
	packaged := map[string]string{}
	for _, b := range release.Builds {
		packaged[b.Binary] = b.Main
	}
	makefile, dockerfile := read(t, "Makefile"), read(t, "Dockerfile")
	for _, name := range commands(t) {
		if got, want := packaged[name], "./cmd/"+name; got != want {
			t.Errorf(".goreleaser.yaml: %s is built from %q, want %q", name, got, want)
		}
		for place, want := range map[string]struct{ text, file string }{
			"build":     {"./cmd/" + name, makefile},
			"install":   {"bin/" + name, rule(t, makefile, "install")},
			"uninstall": {`"$(DESTDIR)$(PREFIX)/bin/` + name + `"`, rule(t, makefile, "uninstall")},
			"share":     {"bin/" + name + " reference --man", rule(t, makefile, "share")},
			"docs":      {"bin/" + name + " reference >docs/cli" + strings.TrimPrefix(name, "acode") + ".md", rule(t, makefile, "docs")},
			"image":     {"/src/bin/" + name, dockerfile},
		} {
			// acode is the beginning of the other names.
			if !regexp.MustCompile(regexp.QuoteMeta(want.text) + `(\s|$)`).MatchString(want.file) {
				t.Errorf("%s: %s is missing: no %q", place, name, want.text)
			}
		}
	}
}

// rule returns a rule of the Makefile with its commands.
func rule(t *testing.T, makefile, name string) string {
	t.Helper()
	_, rest, ok := strings.Cut(makefile, "\n"+name+":")
	if !ok {
		t.Fatalf("Makefile: there is no rule %s", name)
	}
	text, _, _ := strings.Cut(rest, "\n\n")
	return text
}
