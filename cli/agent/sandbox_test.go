package agent

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acode-dev/acode/internal/kernel"
)

// The commands of an agent run in a sandbox by default. Without one they reach the same
// things, and the history says so.
func TestCommandsAreConfined(t *testing.T) {
	p := newPlace(t)
	dir := filepath.Dir(p.ws)
	if err := os.WriteFile(filepath.Join(dir, "home", "secret"), []byte("of the person\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.environ = append(p.environ, "DEPLOY_TOKEN=hunter2hunter2")
	script := command(`cat ` + dir + `/home/secret && echo READ-HOME
ls ` + dir + `/state/acode.db && echo READ-STORE
echo x > ` + dir + `/planted && echo WRITTEN
test -n "$DEPLOY_TOKEN" && echo TOKEN
echo in > inside; echo "$HOME"; true`)
	tried := []string{"READ-HOME", "READ-STORE", "WRITTEN", "TOKEN"}
	planted := func() bool { _, err := os.Stat(filepath.Join(dir, "planted")); return err == nil }
	c := p.serve("--conversation", "one")
	text := c.want("done", "run_command", script).Structured.Text
	for _, breach := range tried {
		if strings.Contains(text, "\n"+breach) {
			t.Errorf("in the sandbox: %s\n%s", breach, text)
		}
	}
	if planted() {
		t.Error("the command wrote outside")
	}
	if p.read("inside") != "in\n" || !strings.Contains(text, filepath.Join(dir, "state", "sandbox")) {
		t.Errorf("the command could not work: %s", text)
	}
	if bytes.Contains(p.history(), []byte(`"sandbox":"`)) {
		t.Error("the history says that the sandbox was changed")
	}
	c.kill()
	c = p.serve("--conversation", "two", "--sandbox=off")
	text = c.want("done", "run_command", script).Structured.Text
	for _, act := range tried {
		if !strings.Contains(text, "\n"+act) {
			t.Errorf("without a sandbox: no %s\n%s", act, text)
		}
	}
	if !planted() {
		t.Error("without a sandbox: nothing was written outside")
	}
	if !bytes.Contains(p.history(), []byte(`"sandbox":"off"`)) {
		t.Errorf("the history lacks PowersGranted:\n%s", p.history())
	}
}

// On a kernel that refuses namespaces, the same things are out of reach.
func TestCommandsAreConfinedWithoutNamespaces(t *testing.T) {
	for _, refusing := range []string{kernel.NoNamespaces, kernel.NoMounts} {
		t.Run(refusing, func(t *testing.T) {
			p := newPlace(t)
			p.environ = append(p.environ, kernel.Variable+"="+refusing)
			dir := filepath.Dir(p.ws)
			c := p.serve()
			text := c.want("done", "run_command", command(`cat `+dir+`/state/acode.db >/dev/null && echo READ-STORE
echo x > `+dir+`/planted && echo WRITTEN
echo in > inside; true`)).Structured.Text
			_, err := os.Stat(filepath.Join(dir, "planted"))
			if strings.Contains(text, "\nREAD-STORE") || strings.Contains(text, "\nWRITTEN") || err == nil || p.read("inside") != "in\n" {
				t.Errorf("in the sandbox: %v\n%s", err, text)
			}
			if bytes.Contains(p.history(), []byte(`"sandbox":"`)) {
				t.Error("the history says that the sandbox was changed")
			}
			p.shows([]string{"doctor"}, "(filter, landlock", "not NOT REFUSED")
		})
	}
}

// On a kernel that refuses what every sandbox needs, commands are refused. A person can
// allow them without a sandbox, and the history says so.
func TestCommandsWithoutLandlock(t *testing.T) {
	for _, refusing := range []string{kernel.NoLandlock, kernel.LandlockOff, kernel.NoDomains} {
		t.Run(refusing, func(t *testing.T) {
			p := newPlace(t)
			p.environ = append(p.environ, kernel.Variable+"="+refusing)
			for _, args := range [][]string{{"mcp", "--tools", "--allow", "files,commands"}, {"mcp", "--allow-write"}, {"doctor"}} {
				cmd := p.command(args...)
				cmd.Stderr = nil
				out, err := cmd.CombinedOutput()
				if err == nil || cmd.ProcessState.ExitCode() != 3 || !bytes.Contains(out, []byte("cannot confine commands")) {
					t.Errorf("acode %v: got %v, want status 3\n%s", args, err, out)
				}
			}
			c := p.begin("mcp", "--tools", "--allow", "files")
			if err := c.Hello("tester", nil); err != nil {
				t.Fatal(err)
			}
			c.want("done", "write_file", map[string]any{"path": "a", "content": "x"})
			c.kill()
			c = p.serve("--new", "--sandbox=off")
			c.want("done", "run_command", command("echo in > inside"))
			if p.read("inside") != "in\n" || !bytes.Contains(p.history(), []byte(`"sandbox":"off"`)) {
				t.Errorf("without a sandbox: the history lacks PowersGranted:\n%s", p.history())
			}
		})
	}
}

// history returns the events of the newest session.
func (p place) history() []byte {
	p.t.Helper()
	out, err := p.command("history", "--json").Output()
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

// Unknown values of the flag are refused.
func TestFlagsOfTheSandbox(t *testing.T) {
	p := newPlace(t)
	for _, args := range [][]string{{"--sandbox=maybe"}, {"--allow", "files,everything"}} {
		cmd := p.command(append([]string{"mcp", "--tools"}, args...)...)
		cmd.Stderr = nil
		if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 2 {
			t.Errorf("acode mcp %v: got %v, want status 2", args, err)
		}
	}
}
