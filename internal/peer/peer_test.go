package peer_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/acode-dev/acode/cli"
	"github.com/acode-dev/acode/cli/agent"
)

// TestMain lets the test binary be acode's programs.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"acode":       func() { os.Exit(cli.Main(context.Background(), os.Args[1:])) },
		"acode-agent": func() { os.Exit(agent.Main(context.Background(), os.Args[1:])) },
	})
}

// place is a workspace, the programs of the peers and the Node that runs them.
type place struct {
	ws, bin, node string
	environ       []string
}

func newPlace(t *testing.T) place {
	t.Helper()
	install := exec.Command("../../scripts/mcp-peers")
	install.Stderr = os.Stderr
	out, err := install.Output()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil || len(lines) != 2 {
		t.Fatalf("install the peers: got %q, %v", out, err)
	}
	dir := t.TempDir()
	p := place{filepath.Join(dir, "ws"), lines[0], lines[1], append(os.Environ(), "HOME="+dir, "ACODE_HOME="+filepath.Join(dir, "state"),
		"XDG_CONFIG_HOME="+filepath.Join(dir, "config"), "ACODE_KEY_KEYRING=false", "GORACE=atexit_sleep_ms=0", "PATH="+filepath.Dir(lines[1])+":"+os.Getenv("PATH"))}
	if err := os.Mkdir(p.ws, 0o755); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p place) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.Dir, cmd.Stderr = p.environ, p.ws, os.Stderr
	return cmd
}

// servers are the command lines of both kinds of server.
func servers() map[string][]string {
	return map[string][]string{"tools": {"mcp", "--tools", "--allow", "files,commands"}, "control": {"mcp", "--allow-write"}}
}

// The conformance suite speaks HTTP only, so a bridge is between it and the servers. Its
// other scenarios call tools that only a server made for the suite has.
func TestConformance(t *testing.T) {
	p := newPlace(t)
	for kind, args := range servers() {
		for _, scenario := range []string{"server-initialize", "ping", "tools-list"} {
			t.Run(kind+"/"+scenario, func(t *testing.T) {
				url := newBridge(t, func() *exec.Cmd { return p.command("acode", args...) })
				suite := p.command(p.node, filepath.Join(p.bin, "conformance"), "server", "--url", url, "--scenario", scenario)
				suite.Stderr = nil
				out, err := suite.CombinedOutput()
				if err != nil || !strings.Contains(string(out), "Passed: 1/1, 0 failed, 0 warnings") {
					t.Errorf("got %v and\n%s", err, out)
				}
			})
		}
	}
}

// inspect makes one request with the inspector, and returns the JSON that it prints.
func (p place) inspect(t *testing.T, kind string, args ...string) map[string]any {
	t.Helper()
	line := append([]string{filepath.Join(p.bin, "mcp-inspector"), "--cli", "acode"}, servers()[kind]...)
	out, err := p.command(p.node, append(line, args...)...).Output()
	var answer map[string]any
	if err != nil || json.Unmarshal(out, &answer) != nil {
		t.Fatalf("the inspector %q: got %v and\n%s", args, err, out)
	}
	return answer
}

// The inspector lists and calls the tools of both servers.
func TestInspector(t *testing.T) {
	p := newPlace(t)
	for kind, want := range map[string]string{"tools": "run_command", "control": "RunTask"} {
		list, err := json.Marshal(p.inspect(t, kind, "--method", "tools/list"))
		if err != nil || !strings.Contains(string(list), `"name":"`+want+`"`) {
			t.Errorf("%s: tools/list: got %s", kind, list)
		}
	}
	call := func(kind, tool string, args ...string) map[string]any {
		t.Helper()
		line := []string{"--method", "tools/call", "--tool-name", tool}
		for _, a := range args {
			line = append(line, "--tool-arg", a)
		}
		answer := p.inspect(t, kind, line...)
		content, ok := answer["structuredContent"].(map[string]any)
		if !ok || answer["isError"] == true {
			t.Fatalf("%s: got %v", tool, answer)
		}
		return content
	}
	call("tools", "write_file", "path=notes.txt", "content=one")
	if got := call("tools", "read_file", "path=notes.txt"); got["text"] != "one" {
		t.Errorf("read_file: got %v", got)
	}
	plan := `{"version": 1, "task": "Try it", "tasks": [{"id": "one", "steps": [{"run": "echo line >> ledger"}]}]}`
	if err := os.WriteFile(filepath.Join(p.ws, "plan.json"), []byte(plan), 0o600); err != nil {
		t.Fatal(err)
	}
	id, _ := call("control", "RunTask", "file=plan.json", "request_id=one")["task_id"].(string)
	if got := call("control", "GetTask", "task_id="+id, "wait_s=30"); !strings.Contains(got["text"].(string), "State: COMPLETED") {
		t.Errorf("GetTask: got %v", got)
	}
	if got, err := os.ReadFile(filepath.Join(p.ws, "ledger")); err != nil || string(got) != "line\n" {
		t.Errorf("ledger: got %q, %v", got, err)
	}
}
