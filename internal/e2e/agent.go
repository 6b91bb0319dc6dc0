package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// agent is a client that is tested.
type agent struct {
	name string
	// module is its module of npm, in the version that was tested. script completes the
	// installation; empty for none.
	module, version, script string
	// prefix stands before the names of acode's tools; shell and argument are the client's
	// own tool for commands.
	prefix, shell, argument string
	// start begins the conversation. resume continues it, by its id or as the newest one.
	start  func(s *site) (*exec.Cmd, error)
	resume func(s *site, byID bool) (*exec.Cmd, error)
	// launcher says that the first process only starts the client and waits for it.
	launcher bool
}

const prompt = "Carry out the script."

func agents() map[string]agent {
	return map[string]agent{
		"claude": {name: "claude", module: "@anthropic-ai/claude-code", version: "2.1.197", script: "install.cjs",
			prefix: "mcp__acode__", shell: "Bash", argument: "command", start: startClaude, resume: resumeClaude},
		"codex": {name: "codex", module: "@openai/codex", version: "0.171.0",
			prefix: "mcp__acode::", shell: "exec_command", argument: "cmd", start: startCodex, resume: resumeCodex, launcher: true},
	}
}

// claudeID is the id of the conversation. A site has one.
const claudeID = "6f0a1e52-0c55-4d8e-9a7e-3f2f6f7f5a10"

func startClaude(s *site) (*exec.Cmd, error) { return claude(s, "--session-id", claudeID, prompt) }

func resumeClaude(s *site, byID bool) (*exec.Cmd, error) {
	if byID {
		return claude(s, "--resume", claudeID, "Continue.")
	}
	return claude(s, "--continue", "Continue.")
}

func claude(s *site, args ...string) (*exec.Cmd, error) {
	flags := []string{"-p", "--strict-mcp-config"}
	if s.own {
		flags = append(flags, "--allowedTools=Bash")
	} else {
		line := s.acode()
		config, err := s.write("mcp.json", map[string]any{"mcpServers": map[string]any{"acode": map[string]any{"type": "stdio", "command": line[0], "args": line[1:]}}})
		if err != nil {
			return nil, err
		}
		flags = append(flags, "--mcp-config="+config, "--tools=", "--allowedTools=mcp__acode")
	}
	// Otherwise it asks the model before a server on a busy machine has named its tools.
	environ := s.environ("MCP_CONNECTION_NONBLOCKING=false", "MCP_TIMEOUT=60000", "ANTHROPIC_BASE_URL="+s.url, "ANTHROPIC_API_KEY=none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1")
	return s.command(filepath.Join(s.modules, ".bin", "claude"), environ, append(flags, args...)...), nil
}

func startCodex(s *site) (*exec.Cmd, error) { return codex(s, "exec", "--skip-git-repo-check", prompt) }

func resumeCodex(s *site, byID bool) (*exec.Cmd, error) {
	id := "--last"
	if byID {
		if id = codexID(s); id == "" {
			return nil, fmt.Errorf("codex did not say the id of its session")
		}
	}
	return codex(s, "exec", "resume", "--skip-git-repo-check", id, "Continue.")
}

// codexID returns the id that codex wrote when it started.
func codexID(s *site) string {
	_, rest, _ := strings.Cut(s.logged(), "session id: ")
	id, _, _ := strings.Cut(rest, "\n")
	return id
}

func codex(s *site, args ...string) (*exec.Cmd, error) {
	var config strings.Builder
	fmt.Fprintf(&config, "model = %q\nmodel_provider = %q\napproval_policy = %q\nsandbox_mode = %q\n", "script", "script", "never", "danger-full-access")
	fmt.Fprintf(&config, "[model_providers.script]\nname = %q\nbase_url = %q\nwire_api = %q\nenv_key = %q\n", "script", s.url+"/v1", "responses", "SCRIPT_KEY")
	if !s.own {
		line := s.acode()
		var quoted []string
		for _, a := range line[1:] {
			quoted = append(quoted, strconv.Quote(a))
		}
		fmt.Fprintf(&config, "[mcp_servers.acode]\ncommand = %q\nargs = [%s]\nenv_vars = [%q, %q]\nsupports_parallel_tool_calls = %t\n",
			line[0], strings.Join(quoted, ", "), "ACODE_HOME", "ACODE_KEY_KEYRING", s.parallel)
	}
	home := filepath.Join(s.home, ".codex")
	if err := os.MkdirAll(home, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(config.String()), 0o600); err != nil {
		return nil, err
	}
	return s.command(filepath.Join(s.modules, ".bin", "codex"), s.environ("SCRIPT_KEY=none", "CODEX_HOME="+home), args...), nil
}
