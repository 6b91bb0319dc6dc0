package sandbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acode-dev/acode/sandbox"
)

// projects are small projects with a command that tests each.
var projects = map[string]struct {
	files   map[string]string
	command string
}{
	"go": {map[string]string{
		"go.mod":      "module example.com/sum\n\ngo 1.25\n\nrequire github.com/google/go-cmp v0.7.0\n",
		"go.sum":      "github.com/google/go-cmp v0.7.0 h1:wk8382ETsv4JYUZwIsn6YpYiWiBsYLSJiTsyBybVuN8=\ngithub.com/google/go-cmp v0.7.0/go.mod h1:pXiqmnSA92OHEEa9HXL2W4E7lf9JzCmGVUdgjX3N/iU=\n",
		"sum.go":      "package sum\n\nfunc Sum(a, b int) int { return a + b }\n",
		"sum_test.go": "package sum\n\nimport (\n\t\"os\"\n\t\"testing\"\n\n\t\"github.com/google/go-cmp/cmp\"\n)\n\nfunc TestSum(t *testing.T) {\n\tif d := cmp.Diff(3, Sum(1, 2)); d != \"\" {\n\t\tt.Error(d)\n\t}\n\tif err := os.WriteFile(t.TempDir()+\"/x\", nil, 0o600); err != nil {\n\t\tt.Error(err)\n\t}\n}\n",
	}, "go test -count=1 ./..."},
	"npm": {map[string]string{
		"package.json": `{"name": "sum", "version": "1.0.0", "scripts": {"test": "node --test"}}`,
		"sum.js":       "module.exports = (a, b) => a + b;\n",
		"sum.test.js":  "const test = require('node:test');\nconst assert = require('node:assert');\ntest('sum', () => assert.strictEqual(require('./sum')(1, 2), 3));\n",
	}, "npm test"},
	"make": {map[string]string{
		"Makefile": "test: sum\n\t./sum 1 2 | grep -x 3\n\nsum: sum.o\n\t$(CC) -o $@ $^\n",
		"sum.c":    "#include <stdio.h>\n#include <stdlib.h>\nint main(int c, char **v) { printf(\"%d\\n\", atoi(v[1]) + atoi(v[2])); return c != 3; }\n",
	}, "make -j2"},
	"pytest": {map[string]string{
		"sum.py":      "def total(a, b):\n    return a + b\n",
		"test_sum.py": "from sum import total\n\ndef test_total(tmp_path):\n    (tmp_path / 'x').write_text('x')\n    assert total(1, 2) == 3\n",
	}, "pytest-3 -q"},
}

// The tests of real projects pass on each kernel, without a network.
func TestProjects(t *testing.T) {
	onKernels(t, func(t *testing.T, mode string) {
		base := t.TempDir()
		// compiling the standard library of Go takes long, so its cache stays for later runs
		cache, err := filepath.Abs("../.cache/sandbox")
		must(t, err)
		home, err := os.UserHomeDir()
		must(t, err)
		for name, project := range projects {
			place := sandbox.Place{Getenv: os.Getenv, Home: home, State: filepath.Join(base, "state")}
			p := sandbox.Profile{Mode: mode, Workspace: filepath.Join(base, name), Home: cache, Tmp: filepath.Join(base, "state", "tmp"), Read: place.Readable()}
			for _, dir := range []string{p.Workspace, p.Home, p.Tmp} {
				must(t, os.MkdirAll(dir, 0o700))
			}
			for file, content := range project.files {
				write(t, filepath.Join(p.Workspace, file), content)
			}
			exists := func(dir string) bool { _, err := os.Stat(dir); return err == nil }
			cmd := exec.Command(self(), p.Arguments(p.Workspace, 0, "/bin/sh", []string{"sh", "-e", "-c", project.command})...)
			cmd.Dir, cmd.Env = p.Workspace, slices.Concat(place.Environ(os.Environ()), place.Own(p, exists))
			cmd.SysProcAttr = p.Attributes(syscall.SysProcAttr{})
			begin := time.Now()
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", project.command, err, out)
			}
			t.Logf("%s took %s", project.command, time.Since(begin).Round(time.Millisecond))
		}
	})
}

// The list leaves out what contains the home directory or the state, and the variables
// that are not on it.
func TestPlace(t *testing.T) {
	environ := []string{"PATH=/home/u/bin:/home/u:/home/u/.nvm/versions/node/v1/bin:relative", "API_TOKEN=secret", "LC_ALL=C", "AWS_SECRET_ACCESS_KEY=secret", "GOPATH=/home/u/g",
		"LD_PRELOAD=/x", "SSH_AUTH_SOCK=/x", "https_proxy=http://u:secret@proxy", "HTTP_PROXY=http://proxy", "HOME=/home/u", "LANG=C"}
	getenv := func(name string) string {
		for _, kv := range environ {
			if value, ok := strings.CutPrefix(kv, name+"="); ok {
				return value
			}
		}
		return ""
	}
	p := sandbox.Place{Getenv: getenv, Home: "/home/u", State: "/opt/state/acode"}
	read := p.Readable()
	for path, want := range map[string]bool{"/usr": true, "/etc": true, "/opt": false, "/home/u/bin": true, "/home/u": false, "relative": false, "/home/u/.nvm/versions/node/v1/lib": true,
		"/home/u/g/pkg/mod": true, "/home/u/go/pkg/mod": false, "/home/u/.cargo": false, "/home/u/.cargo/bin": true, "/home/u/.cargo/credentials.toml": false, "/home/u/.ssh": false, "/home": false, "/": false} {
		if slices.Contains(read, path) != want {
			t.Errorf("Readable has %s: got %v, want %v", path, !want, want)
		}
	}
	if got := p.Environ(environ); !slices.Equal(got, []string{environ[0], "LC_ALL=C", "LANG=C"}) {
		t.Errorf("Environ: got %q", got)
	}
	p.Network = true
	if got := p.Environ(environ); !slices.Contains(got, "HTTP_PROXY=http://proxy") || slices.Contains(got, environ[7]) {
		t.Errorf("Environ with a network: got %q", got)
	}
	q := sandbox.Profile{Mode: sandbox.Filter, Home: "/private/home", Tmp: "/private/tmp"}
	if got := p.Own(q, func(dir string) bool { return dir == "/home/u/.rustup" || dir == "/home/u/g/pkg/mod" }); !slices.Equal(got, []string{"HOME=/private/home", "TMPDIR=/private/tmp", "RUSTUP_HOME=/home/u/.rustup"}) {
		t.Errorf("Own: got %q", got)
	}
}
