package sandbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acode-dev/acode/internal/kernel"
	"github.com/acode-dev/acode/sandbox"
)

// modeVariable tells a test that onKernels has started it, and the mode that must be
// chosen.
const modeVariable = "SANDBOXTEST_MODE"

// onKernels runs the calling test in a process of its own on each kernel that can confine
// commands, and once as an ordinary user. There test gets the mode that acode chooses.
func onKernels(t *testing.T, test func(t *testing.T, mode string)) {
	if want := os.Getenv(modeVariable); want != "" {
		mode, err := sandbox.Mode(self())
		if err != nil || mode != want {
			t.Fatalf("Mode: got %q, %v, want %q", mode, err, want)
		}
		test(t, mode)
		return
	}
	for _, k := range []struct{ kernel, mode string }{{"", sandbox.Namespaces}, {kernel.NoNamespaces, sandbox.Filter}, {kernel.NoMounts, sandbox.Filter}} {
		t.Run(strings.TrimPrefix(k.kernel+"/"+k.mode, "/"), func(t *testing.T) {
			again(t, exec.Command(self()), kernel.Variable+"="+k.kernel, modeVariable+"="+k.mode)
		})
	}
	if os.Geteuid() == 0 {
		t.Run("ordinary_user", asOrdinary)
	}
}

// again runs the test that has the subtest t in another process.
func again(t *testing.T, cmd *exec.Cmd, environ ...string) {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	cmd.Args = append(cmd.Args, "-test.run=^"+name+"$", "-test.v")
	cmd.Env = append(os.Environ(), append(environ, "GORACE=atexit_sleep_ms=0")...)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "\n--- PASS: "+name) {
		t.Errorf("%s there: %v", name, err)
	}
	t.Logf("\n%s", out)
}

// asOrdinary runs the test that has the subtest t as an ordinary user.
func asOrdinary(t *testing.T) {
	cmd, environ := ordinary(t)
	again(t, cmd, append(environ, modeVariable+"="+sandbox.Namespaces)...)
}

// uid is that of no account, and not the one to which an escape gives a file away.
const uid = 54321

// ordinary returns this program as an ordinary user would start it, with a home that has
// the caches of the tests, and its environment.
func ordinary(t *testing.T) (cmd *exec.Cmd, environ []string) {
	t.Helper()
	// short, because the path of a socket must be
	dir, err := os.MkdirTemp("", "acode-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	program, home := filepath.Join(dir, "bin", "test"), filepath.Join(dir, "home")
	for _, name := range []string{"bin", "home", "tmp", "sandbox"} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	copied(t, self(), program, 0o755)
	id, err := exec.LookPath("id")
	must(t, err)
	copied(t, id, filepath.Join(dir, "bin", "id"), 0o755)
	must(t, os.MkdirAll("../.cache/sandbox", 0o700))
	must(t, os.CopyFS(filepath.Join(dir, ".cache", "sandbox"), os.DirFS("../.cache/sandbox")))
	modules, err := exec.Command("go", "env", "GOMODCACHE").Output()
	must(t, err)
	for _, name := range []string{"github.com/google/go-cmp@v0.7.0", "cache/download/github.com/google/go-cmp"} {
		must(t, os.CopyFS(filepath.Join(home, "go/pkg/mod", name), os.DirFS(filepath.Join(strings.TrimSpace(string(modules)), name))))
	}
	must(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, uid, uid)
	}))
	// its escape is a program of root
	must(t, os.Lchown(filepath.Join(dir, "bin", "id"), 0, 0))
	must(t, os.Chmod(filepath.Join(dir, "bin", "id"), os.ModeSetuid|0o755))
	cmd = exec.Command(program)
	cmd.Dir = filepath.Join(dir, "sandbox")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	return cmd, []string{"HOME=" + home, "TMPDIR=" + filepath.Join(dir, "tmp"), "GOMODCACHE=", "GOPATH="}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func copied(t *testing.T, from, to string, mode os.FileMode) {
	t.Helper()
	content, err := os.ReadFile(from)
	must(t, err)
	must(t, os.WriteFile(to, content, mode))
}

// The mode follows from the kernel. A kernel that lets acode build no sandbox has none.
// The trial leaves no files.
func TestMode(t *testing.T) {
	for _, test := range []struct{ kernel, want string }{
		{"", sandbox.Namespaces + " <nil>"},
		{kernel.NoNamespaces, sandbox.Filter + " <nil>"},
		{kernel.NoMounts, sandbox.Filter + " <nil>"},
		{kernel.NoLandlock, " the kernel lacks Landlock"},
		{kernel.LandlockOff, " the kernel lacks Landlock"},
		{kernel.NoDomains, sandbox.Filter + " acode: the command could not be started: the sandbox cannot be built: enter the Landlock domain"},
		{kernel.NoFilters, sandbox.Filter + " acode: the command could not be started: the sandbox cannot be built: install the filter"},
	} {
		t.Run("kernel_"+test.kernel, func(t *testing.T) {
			tmp := t.TempDir()
			cmd := exec.Command(self(), "mode")
			cmd.Env = append(os.Environ(), kernel.Variable+"="+test.kernel, "TMPDIR="+tmp, "GORACE=atexit_sleep_ms=0")
			if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), test.want) {
				t.Errorf("Mode: got %q, %v, want %q", out, err, test.want)
			}
			if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
				t.Errorf("it leaves %v, %v", left, err)
			}
		})
	}
}

// A command is not started without the sandbox that its mode promises.
func TestNoSandboxNoCommand(t *testing.T) {
	for _, test := range []struct{ kernel, mode string }{
		{kernel.NoNamespaces, sandbox.Namespaces}, {kernel.NoMounts, sandbox.Namespaces}, {kernel.NoLandlock, sandbox.Namespaces}, {kernel.NoLandlock, sandbox.Filter},
		{kernel.LandlockOff, sandbox.Filter}, {kernel.NoDomains, sandbox.Namespaces}, {kernel.NoDomains, sandbox.Filter}, {kernel.NoFilters, sandbox.Namespaces}, {kernel.NoFilters, sandbox.Filter},
	} {
		t.Run(test.kernel+"/"+test.mode, func(t *testing.T) {
			b := newBox(t, test.mode)
			made := filepath.Join(b.Workspace, "made")
			cmd := exec.Command(self(), append([]string{"command"}, b.command(self(), "act", "create", made).Args[1:]...)...)
			cmd.Env, cmd.Dir = append(os.Environ(), kernel.Variable+"="+test.kernel, "GORACE=atexit_sleep_ms=0"), b.Workspace
			out, err := cmd.CombinedOutput()
			if _, there := os.Lstat(made); err == nil || there == nil {
				t.Errorf("the command was started: %v\n%s", err, out)
			}
			if !strings.Contains(string(out), "started") && !strings.Contains(string(out), "not permitted") {
				t.Errorf("it says %q", out)
			}
		})
	}
}

// A program that is not acode is not taken for a first stage.
func TestModeOfAnotherProgram(t *testing.T) {
	if mode, err := sandbox.Mode("/bin/echo"); err == nil {
		t.Errorf("Mode: got %q, want an error", mode)
	}
}
