package install

import (
	"encoding/json"
	"fmt"
	"path/filepath"
)

// Place says where the configuration of a client is, and where acode is.
type Place struct {
	// Home is the home directory of the person.
	Home string
	// Getenv returns a variable of the environment.
	Getenv func(string) string
	// Program is the path of acode.
	Program string
	// Allow names the powers of the server, separated by commas.
	Allow string
	// Records is the directory for the records of additions.
	Records string
}

// Client is an agent that can use acode's tools.
type Client struct {
	// Name is the word that people type, Title the name of the program.
	Name, Title string
	// Unchecked says which of the client's own checks do not apply to acode's tools.
	Unchecked []string
	// Proposed explains the change.
	Proposed []string
	// Then says how to see that it works.
	Then string

	targets func(Place) []target
}

// target is a file of a client with its additions: entries of JSON, or tables of TOML.
type target struct {
	path    string
	entries []entry
	tables  []table
}

// Clients returns the clients that can be configured.
func Clients() []Client { return []Client{claude(), codex()} }

// serve is the command line of the server, without the program.
func (p Place) serve() []string { return []string{"mcp", "--tools", "--allow", p.Allow} }

func claude() Client {
	return Client{
		Name: "claude", Title: "Claude Code",
		Unchecked: []string{
			"permission rules for Bash, Read, Edit and Write, such as Bash(git *) or Read(.env): a rule for acode's tools names a tool, such as mcp__acode__run_command, and cannot look at a command or a path",
			"the mode that accepts edits, and the sandbox of Claude Code; acode runs commands in a sandbox of its own",
			"hooks that match Claude's own tools, and checkpoints: /rewind does not put back files that acode's tools changed",
		},
		Proposed: []string{
			"Claude's own Bash, Monitor, Edit, Write and NotebookEdit are switched off (permissions.deny), because a kill can repeat or lose what they do. EnterWorktree is off too: acode's tools would stay in the first directory. Read, Grep and Glob stay.",
			"Claude asks before each run_command, delete_file and move_file (permissions.ask). claude -p cannot ask, so there it refuses them. The tools that only read need no question. For the others Claude asks as usual.",
			"alwaysLoad keeps acode's tools in front of the model. Behind Claude's tool search it would seldom find them.",
			"The server is set up for you in all projects, not in one: nothing has to be committed or trusted again, and no one else needs acode.",
		},
		Then: "claude mcp list",
		targets: func(p Place) []target {
			dir, state := filepath.Join(p.Home, ".claude"), filepath.Join(p.Home, ".claude.json")
			if own := p.Getenv("CLAUDE_CONFIG_DIR"); own != "" {
				dir, state = own, filepath.Join(own, ".claude.json")
			}
			server := struct {
				Type    string   `json:"type"`
				Command string   `json:"command"`
				Args    []string `json:"args"`
				Always  bool     `json:"alwaysLoad"`
			}{"stdio", p.Program, p.serve(), true}
			var rules []entry
			rules = append(rules, elements("allow", "mcp__acode__", "read_file", "list_files", "search", "session_state", "operation_result", "command_output", "wait_command")...)
			rules = append(rules, elements("ask", "mcp__acode__", "run_command", "delete_file", "move_file")...)
			rules = append(rules, elements("deny", "", "Bash", "Monitor", "Edit", "Write", "NotebookEdit", "EnterWorktree")...)
			return []target{
				{path: state, entries: []entry{{Path: []string{"mcpServers", "acode"}, Value: encoded(server)}}},
				{path: filepath.Join(dir, "settings.json"), entries: rules},
			}
		},
	}
}

// elements are elements of a list of permissions.
func elements(list, prefix string, names ...string) (out []entry) {
	for _, name := range names {
		out = append(out, entry{Path: []string{"permissions", list}, Element: true, Value: encoded(prefix + name)})
	}
	return out
}

func encoded(v any) json.RawMessage {
	b, _ := json.Marshal(v) // these values have a text
	return b
}

func codex() Client {
	return Client{
		Name: "codex", Title: "Codex",
		Unchecked: []string{
			"the sandbox of Codex (sandbox_mode): the server and its commands run outside it; acode runs commands in a sandbox of its own",
			"the approval policy for commands and its rules, such as an allowed prefix: Codex judges acode's tools by their names alone",
			"the diff that Codex shows of a turn, which has only its own changes",
		},
		Proposed: []string{
			"Codex's own shell is switched off (features.shell_tool), because a kill can repeat or lose what it does. Codex has no switch for its apply_patch: sandbox_mode = \"read-only\" makes Codex ask before it, and acode's tools work all the same.",
			"Codex asks before each run_command, delete_file and move_file, and before the other tools that change something (\"writes\"), unless you allow them. codex exec cannot ask, so there it refuses them.",
			"omit_tools_from keeps acode's tools in front of the model. Behind Codex's tool search it would seldom find them.",
			"env_vars: Codex passes few variables on. Without these, the server would use another store than your shell.",
		},
		Then: "codex mcp list",
		targets: func(p Place) []target {
			dir := p.Getenv("CODEX_HOME")
			if dir == "" {
				dir = filepath.Join(p.Home, ".codex")
			}
			return []target{{path: filepath.Join(dir, "config.toml"), tables: []table{
				{Name: "mcp_servers.acode", Whole: true, Lines: []string{
					"command = " + quote(p.Program),
					"args = " + list(p.serve()),
					"env_vars = " + list([]string{"ACODE_HOME", "ACODE_CONFIG", "ACODE_POSTGRES_URL", "ACODE_CHECKPOINT_SECRET", "XDG_STATE_HOME", "XDG_CONFIG_HOME"}),
					`omit_tools_from = ["deferred", "code_mode"]`,
					`default_tools_approval_mode = "writes"`,
					`tools = { run_command = { approval_mode = "prompt" }, delete_file = { approval_mode = "prompt" }, move_file = { approval_mode = "prompt" } }`,
				}},
				{Name: "features", Lines: []string{"shell_tool = false"}},
			}}}
		},
	}
}

// list returns strings as an array of TOML.
func list(words []string) string {
	text := ""
	for i, w := range words {
		if i > 0 {
			text += ", "
		}
		text += quote(w)
	}
	return fmt.Sprintf("[%s]", text)
}
