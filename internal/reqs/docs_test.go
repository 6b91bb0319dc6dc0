package reqs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages returns every page of the documents by its path from the root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(names) < 5 {
		t.Fatalf("docs: got %d pages, %v, want 5 or more", len(names), err)
	}
	out := map[string]string{}
	for _, name := range append(names, filepath.Join(root, "README.md")) {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			t.Fatal(err)
		}
		out[rel] = string(data)
	}
	return out
}

var (
	quoted = regexp.MustCompile("`([^`\n]+)`")
	link   = regexp.MustCompile(`\]\(([^)]+)\)`)
	inTree = regexp.MustCompile(`^[a-z][\w.-]*(/[\w.-]+)*/?$`)
	target = regexp.MustCompile(`^make ([a-z][\w-]*)$`)
)

// missing lists the paths that a page quotes or links to and that do not exist. A quoted
// text counts as a path if it has a slash and begins with a folder of the root.
func missing(page, text string) []string {
	var out []string
	there := func(path string) bool { _, err := os.Stat(filepath.Join(root, path)); return err == nil }
	for _, m := range quoted.FindAllStringSubmatch(text, -1) {
		first, _, deep := strings.Cut(m[1], "/")
		if deep && inTree.MatchString(m[1]) && there(first) && !there(m[1]) {
			out = append(out, m[1])
		}
		if t := target.FindStringSubmatch(m[1]); t != nil && contains(filepath.Join(root, "Makefile"), `(?m)^`+t[1]+`:`) != nil {
			out = append(out, m[1])
		}
	}
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		path, _, _ := strings.Cut(m[1], "#")
		if !strings.Contains(path, "://") && path != "" && !there(filepath.Join(filepath.Dir(page), path)) {
			out = append(out, m[1])
		}
	}
	return out
}

// Every file, folder and target that a page names exists. requirements.md is left out,
// because it names tests.
func TestPagesNameWhatIsThere(t *testing.T) {
	all := pages(t)
	delete(all, "docs/requirements.md")
	for page, text := range all {
		for _, name := range missing(page, text) {
			t.Errorf("%s: there is no %s", page, name)
		}
	}
	planted := "`local/open.go` `local/nosuch.go` `nosuch/a` `make demo` `make nosuch` `docs/` [a](guide.md) [b](nosuch.md#x) [c](https://nosuch)"
	if got := missing("docs/x.md", planted); !slices.Equal(got, []string{"local/nosuch.go", "make nosuch", "nosuch.md#x"}) {
		t.Errorf("missing: got %q of the planted names", got)
	}
}

// The pages name only commands and flags of the generated references. format.md is left
// out, because parts of its keys look like commands.
func TestPagesNameCommandsThatAre(t *testing.T) {
	all := pages(t)
	// This command is hidden.
	reference := all["docs/cli.md"] + all["docs/cli-sync.md"] + all["docs/cli-agent.md"] + "\n## acode supervise\n"
	delete(all, "docs/format.md")
	seen := 0
	for page, text := range all {
		for _, line := range commandLines(text) {
			seen++
			if wrong := unknown(reference, line); wrong != "" {
				t.Errorf("%s: %q: there is no %s", page, line, wrong)
			}
		}
	}
	if seen < 50 {
		t.Errorf("%d commands seen, want 50 or more", seen)
	}
	for line, want := range map[string]string{
		"acode resume --wait ID": "", "acode sync now": "", "acode sync parked list|show": "", "acode schema plan": "", "acode admin device add laptop": "",
		"acode resum": "acode resum", "acode sync soon": "acode sync soon", "acode sync parked": "", "acode resume --hurry": "--hurry",
	} {
		if got := unknown(reference, line); got != want {
			t.Errorf("unknown(%q): got %q, want %q", line, got, want)
		}
	}
}

// commandLines returns the quoted texts and the lines of blocks that begin with acode.
func commandLines(text string) []string {
	var out []string
	for _, m := range quoted.FindAllStringSubmatch(text, -1) {
		if strings.HasPrefix(m[1], "acode ") {
			out = append(out, m[1])
		}
	}
	for line := range strings.Lines(text) {
		if line, ok := strings.CutPrefix(line, "    "); ok {
			line = strings.TrimPrefix(line, "$ ")
			if line, _, _ = strings.Cut(strings.TrimSpace(line), "#"); strings.HasPrefix(line, "acode ") {
				out = append(out, strings.TrimSpace(line))
			}
		}
	}
	return out
}

// unknown returns the first command or flag of line that reference does not have, or "".
func unknown(reference, line string) string {
	has := func(pattern string) bool { return regexp.MustCompile(`(?m)^` + pattern).MatchString(reference) }
	path := "acode"
	for _, word := range strings.Fields(line)[1:] {
		takesArgument := has(path + ` (\[?[A-Z]|\S+\|)`)
		if takesArgument || !regexp.MustCompile(`^[a-z][a-z-]*$`).MatchString(word) {
			break
		}
		if path += " " + word; !has(`## ` + path + `( |$)`) {
			return path
		}
	}
	for _, flag := range regexp.MustCompile(`--[a-z-]+`).FindAllString(line, -1) {
		if !strings.Contains(reference, flag) {
			return flag
		}
	}
	return ""
}
