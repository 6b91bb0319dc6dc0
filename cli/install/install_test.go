package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// place is an empty home directory.
func place(t *testing.T) Place {
	t.Helper()
	dir := t.TempDir()
	return Place{Home: dir, Getenv: func(string) string { return "" }, Program: "/usr/bin/acode", Allow: "files,commands", Records: filepath.Join(dir, "state")}
}

// tree returns the files below a directory with their modes.
func tree(t interface{ Fatal(...any) }, dir string) map[string]string {
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		out[name] = fmt.Sprintf("%v %s", info.Mode(), data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func write(t interface{ Fatal(...any) }, path, text string) {
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o640)); err != nil {
		t.Fatal(err)
	}
}

func carryOut(plan func(Client, Place) (Plan, error), c Client, p Place) error {
	planned, err := plan(c, p)
	if err != nil {
		return err
	}
	return planned.Write()
}

// files names the configuration files of each client, relative to the home directory.
func files() map[string]string {
	return map[string]string{"state": ".claude.json", "settings": ".claude/settings.json", "toml": ".codex/config.toml"}
}

func of(file string) Client {
	if file == "toml" {
		return codex()
	}
	return claude()
}

// configurations are files that people have. Each is named after its file of files.
func configurations() map[string]string {
	claude := `{
  "numStartups": 12,
  "mcpServers": {
    "other": {
      "type": "stdio",
      "command": "npx",
      "args": ["-y", "a, \"b\" }"],
      "env": {}
    }
  },
  "projects": {"/home/you/shop": {"allowedTools": []}}
}`
	codex := "# my settings\nmodel = \"gpt-5.5\" # fast\napproval_policy = \"on-request\"\n\n" +
		"[mcp_servers.docs]\ncommand = \"docs\" # [mcp_servers.acode]\n\n# keep\n[features]\n# mine\nweb = true\n\n[tui]\nnotes = \"\"\"\n[features]\n\"\"\"\n# the end\n"
	return map[string]string{
		"state":                  claude,
		"state/final_newline":    claude + "\n",
		"state/crlf":             strings.ReplaceAll(claude, "\n", "\r\n"),
		"state/tabs":             strings.ReplaceAll(claude, "  ", "\t"),
		"state/byte_order_mark":  "\ufeff" + claude,
		"state/compact":          `{"a":1,"mcpServers":{"x":{"command":"y"}}}`,
		"state/empty_object":     "{}",
		"state/empty_servers":    "{\n  \"mcpServers\": { }\n}\n",
		"state/odd_space":        " \n{ \"a\" :1 ,\n\t\"mcpServers\"\n:\n{\n\n}}\n\n",
		"state/empty":            "",
		"state/blank":            " \n\n",
		"state/twice":            `{"mcpServers":{"acode":1},"mcpServers":{}}`,
		"settings/others":        `{"permissions":{"deny":["Bash"],"ask":[],"defaultMode":"plan"},"hooks":{}}` + "\n",
		"settings/lines":         "{\n    \"permissions\": {\n        \"allow\": [\n            \"Bash(git *)\"\n        ],\n        \"deny\": [ \"WebFetch\", \"Write\" ]\n    }\n}\n",
		"settings/all":           `{"permissions":{"deny":["Bash","Monitor","Edit","Write","NotebookEdit","EnterWorktree"]}}`,
		"toml":                   codex,
		"toml/no_final_newline":  strings.TrimSuffix(codex, "\n"),
		"toml/crlf":              strings.ReplaceAll(codex, "\n", "\r\n"),
		"toml/empty":             "",
		"toml/blank":             "\n\n",
		"toml/comment":           "# nothing",
		"toml/blank_end":         "a = 1\n\n\n",
		"toml/features_last":     "a = 1\n[ \"features\" ] # x",
		"toml/shell_off":         "[features]\nshell_tool=false\n",
		"toml/servers_table":     "[mcp_servers]\n[mcp_servers.x]\ncommand = 'x'\n",
		"toml/array_of_tables":   "[[hooks]]\na = [\n  1,\n]\n",
		"toml/features_in_array": "[x]\na = [\n  [\"features\"],\n]\n",
	}
}

// After install and uninstall each file has the same bytes and mode.
func TestSameBytesAfterUninstall(t *testing.T) {
	for name, text := range configurations() {
		t.Run(name, func(t *testing.T) {
			p := place(t)
			file, _, _ := strings.Cut(name, "/")
			path := filepath.Join(p.Home, files()[file])
			write(t, path, text)
			before := tree(t, p.Home)
			if err := carryOut(Add, of(file), p); err != nil {
				t.Fatal(err)
			}
			installed(t, of(file), p)
			if err := carryOut(Remove, of(file), p); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, tree(t, p.Home)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// installed checks that a second install finds everything, and that the files say it.
func installed(t *testing.T, c Client, p Place) {
	t.Helper()
	again, err := Add(c, p)
	if err != nil || len(again.Changes) > 0 {
		t.Errorf("Add again: got %d changes, %v, want none", len(again.Changes), err)
	}
	for _, target := range c.targets(p) {
		data, err := os.ReadFile(target.path)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"/usr/bin/acode", `"mcp"`}
		if strings.HasSuffix(target.path, "settings.json") {
			want = []string{`"mcp__acode__run_command"`, `"Bash"`, `"Edit"`, `"Write"`}
		}
		for _, text := range want {
			if !strings.Contains(string(data), text) {
				t.Errorf("%s lacks %s:\n%s", target.path, text, data)
			}
		}
	}
}

// In an empty home install makes the files, and uninstall leaves nothing.
func TestEmptyHome(t *testing.T) {
	for _, c := range Clients() {
		p := place(t)
		if err := carryOut(Add, c, p); err != nil {
			t.Fatal(err)
		}
		installed(t, c, p)
		for name, content := range tree(t, p.Home) {
			if !strings.HasPrefix(content, "-rw------- ") {
				t.Errorf("%s: got %s, want a file for its owner alone", name, content)
			}
		}
		if err := carryOut(Remove, c, p); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(p.Home)
		if err != nil || len(entries) > 1 { // the directory of the record
			t.Errorf("%s: got %v, %v, want an empty home", c.Name, entries, err)
		}
	}
}

// Without Write nothing changes.
func TestPlanChangesNothing(t *testing.T) {
	p := place(t)
	write(t, filepath.Join(p.Home, ".claude.json"), "{}")
	before := tree(t, p.Home)
	for _, c := range Clients() {
		plan, err := Add(c, p)
		if err != nil || len(plan.Changes) == 0 || plan.Changes[0].Diff() == "" {
			t.Fatalf("Add: got %+v, %v, want a diff", plan, err)
		}
	}
	if diff := cmp.Diff(before, tree(t, p.Home)); diff != "" {
		t.Error(diff)
	}
}

// A file that the edit cannot change safely is refused, and stays.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"state/comment":          {"{\n  // mine\n  \"a\": 1\n}", "line 2 is not JSON"},
		"state/trailing_comma":   {`{"a":1,}`, "line 1 is not JSON"},
		"state/half":             {`{"a":`, "line 1 is not JSON"},
		"state/array":            {`[]`, "does not hold an object"},
		"state/null":             {`null`, "does not hold an object"},
		"state/servers_array":    {`{"mcpServers":[]}`, "mcpServers holds a value of another type"},
		"state/foreign":          {`{"mcpServers":{"acode":{"command":"mine"}}}`, "has an entry mcpServers.acode already"},
		"settings/rules":         {`{"permissions":{"deny":"Bash"}}`, "permissions.deny holds a value of another type"},
		"toml/invalid":           {"a = \n", "line 1 is not TOML"},
		"toml/foreign":           {"[mcp_servers.acode]\ncommand = \"mine\"\n", "has a table mcp_servers.acode already"},
		"toml/foreign_dotted":    {"mcp_servers.\"acode\".command = \"mine\"\n", "has a table mcp_servers.acode already"},
		"toml/inline_servers":    {"mcp_servers = { x = { command = 'x' } }\n", "leaves no place"},
		"toml/inline_features":   {"features = { x = true }\n", "leaves no place"},
		"toml/shell_wanted":      {"[features]\nshell_tool = true\n", "features.shell_tool has another value already"},
		"toml/features_in_text":  {"[features]\nb = '''\n[features]\nshell_tool = false\n'''\n", "leaves no place"},
		"toml/servers_no_table":  {"mcp_servers = 1\n", "leaves no place"},
		"toml/features_no_table": {"features = 1\n", "leaves no place"},
	} {
		t.Run(name, func(t *testing.T) {
			p := place(t)
			file, _, _ := strings.Cut(name, "/")
			write(t, filepath.Join(p.Home, files()[file]), c.text)
			before := tree(t, p.Home)
			err := carryOut(Add, of(file), p)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Add: got %v, want %q", err, c.want)
			}
			if diff := cmp.Diff(before, tree(t, p.Home)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Uninstall removes its own entries from files that others have changed since, and
// nothing else.
func TestUninstallAfterChanges(t *testing.T) {
	for name, c := range map[string]struct{ before, old, with, want string }{
		"state/rewritten": {`{"a":1}`, "", `{"mcpServers":{"acode":{"command":"changed"},"x":{}},"a":2}`, `{"mcpServers":{"x":{}},"a":2}`},
		"state/gone":      {`{"a":1}`, "", `{"a":3}`, `{"a":3}`},
		"state/key_after": {"{\n  \"mcpServers\": {}\n}\n", "\n}\n", ",\n  \"z\": 1\n}\n", "{\n  \"mcpServers\": {},\n  \"z\": 1\n}\n"},
		"settings/more":   {`{}`, `"Bash",`, `"Bash", "WebFetch",`, "{\n  \"permissions\": {\n    \"deny\": [\n      \"WebFetch\"\n    ]\n  }\n}"},
		"toml/tools":      {"a = 1", "shell_tool = false\n", "shell_tool = false\nx = true\n\n[mcp_servers.acode.y]\nz = 1\n# end\n", "a = 1\n\n[features]\nx = true\n# end\n"},
		"toml/after":      {"a = 1", "shell_tool = false\n", "shell_tool = false\n\n# mine\n[b]\nc = 1\n", "a = 1\n\n# mine\n[b]\nc = 1\n"},
		"toml/gone":       {"a = 1\n", "", "a = 1\n", "a = 1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			p := place(t)
			file, _, _ := strings.Cut(name, "/")
			path := filepath.Join(p.Home, files()[file])
			write(t, path, c.before)
			if err := carryOut(Add, of(file), p); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text := c.with
			if c.old != "" {
				text = strings.Replace(string(data), c.old, c.with, 1)
			}
			if text == string(data) {
				t.Fatalf("no %q in %q", c.old, data)
			}
			write(t, path, text)
			if err := carryOut(Remove, of(file), p); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != c.want {
				t.Errorf("Remove: got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

// Without a record uninstall changes nothing.
func TestUninstallWithoutRecord(t *testing.T) {
	p := place(t)
	write(t, filepath.Join(p.Home, ".claude.json"), `{"mcpServers":{"acode":{}}}`)
	before := tree(t, p.Home)
	if err := carryOut(Remove, claude(), p); err == nil || !strings.Contains(err.Error(), "no record") {
		t.Errorf("Remove: got %v, want an error", err)
	}
	if diff := cmp.Diff(before, tree(t, p.Home)); diff != "" {
		t.Error(diff)
	}
}

// Variables of the clients move their files.
func TestOtherDirectories(t *testing.T) {
	p := place(t)
	other := t.TempDir()
	p.Getenv = func(name string) string {
		return map[string]string{"CLAUDE_CONFIG_DIR": other, "CODEX_HOME": other}[name]
	}
	for _, c := range Clients() {
		if err := carryOut(Add, c, p); err != nil {
			t.Fatal(err)
		}
	}
	got := tree(t, other)
	for _, name := range []string{".claude.json", "settings.json", "config.toml"} {
		if got[name] == "" {
			t.Errorf("there is no %s", name)
		}
	}
}

// For any JSON object, with any spaces, and any TOML, install and uninstall give the same
// bytes.
func TestSameBytesProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		space := rapid.SampledFrom([]string{"", "", " ", "\n", "\r\n", "\n  ", "\t"})
		gap := func() string { return space.Draw(t, "space") }
		var value func(depth int) string
		object := func(depth int, keys []string) string {
			text, comma := "{"+gap(), ""
			for _, key := range keys {
				text += comma + fmt.Sprintf("%s%q%s:%s%s%s", gap(), key, gap(), gap(), value(depth), gap())
				comma = ","
			}
			return text + "}"
		}
		words := []string{"mcpServers", "permissions", "allow", "ask", "deny", "x", "acodé", "q\"}"}
		value = func(depth int) string {
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				return rapid.SampledFrom([]string{"1e3", "true", "null", `"a\\\"]},{"`, "-0.5"}).Draw(t, "scalar")
			case 1:
				return "[" + gap() + `"Bash"` + gap() + "," + gap() + `"y"` + gap() + "]"
			case 2:
				return "[" + gap() + "]"
			default:
				if depth == 0 {
					return "{" + gap() + "}"
				}
				return object(depth-1, rapid.SliceOfNDistinct(rapid.SampledFrom(words), 0, 4, rapid.ID).Draw(t, "keys"))
			}
		}
		text := gap() + object(2, rapid.SliceOfNDistinct(rapid.SampledFrom(words), 0, 5, rapid.ID).Draw(t, "keys")) + gap()
		line := rapid.SampledFrom([]string{"", "# c", "[features]", "[x]", "[[y]]", "a = 1", "b = '''['''", "shell_tool = false", "[mcp_servers.z]", "  [ \"features\" ]  # d", "mcp_servers.z.y = {}", "[features.u]"})
		end := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "end")
		toml := strings.Join(rapid.SliceOfN(line, 0, 8).Draw(t, "lines"), end)
		for i, target := range append(claude().targets(Place{Getenv: os.Getenv}), codex().targets(Place{Getenv: os.Getenv})...) {
			before := text
			if i == 2 {
				before = toml
			}
			var a added
			after, err := a.fill(before, target)
			if err != nil {
				continue // it is refused
			}
			if back, err := a.strip(after); err != nil || back != before {
				t.Fatalf("got %q, %v, want %q; with the additions: %q", back, err, before, after)
			}
		}
	})
}
