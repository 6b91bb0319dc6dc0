package pgtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// account is the user that runs the servers; nil means the user that runs the tests.
type account struct {
	uid, gid int
}

// serverAccount finds an account without rights if root runs the tests, because
// PostgreSQL refuses to run as root.
func serverAccount() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"nobody", "postgres"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.Atoi(u.Uid)
		gid, errGID := strconv.Atoi(u.Gid)
		if errUID == nil && errGID == nil && uid > 0 {
			return &account{uid, gid}, nil
		}
	}
	return nil, fmt.Errorf("PostgreSQL refuses to run as root, and there is no user nobody or postgres")
}

// own gives all files below path to the account.
func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return filepath.WalkDir(path, func(p string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, a.uid, a.gid)
	})
}

// command prepares a program to run as the account in its own session, without the
// caller's settings. No signal to the tests' process group reaches it.
func (a *account) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = "/"
	cmd.Env = append(withoutPG(os.Environ()), "LC_ALL=C", "TZ=UTC")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if a != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return cmd
}

// withoutPG removes the variables that libpq reads.
func withoutPG(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		return strings.HasPrefix(v, "PG") || strings.HasPrefix(v, "ACODE_POSTGRES_URL=")
	})
}

// run runs a command to its end. An error includes its standard error.
func run(cmd *exec.Cmd) (string, error) {
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, strings.TrimSpace(said.String()))
	}
	return out.String(), nil
}

// binaries finds the folder of the server's programs once per process.
var binaries = sync.OnceValues(findBinaries)

func findBinaries() (string, error) {
	dirs := []string{os.Getenv("ACODE_PG_BIN")}
	if dirs[0] == "" {
		// The pattern is well formed.
		dirs, _ = filepath.Glob("/usr/lib/postgresql/*/bin")
		slices.SortFunc(dirs, func(a, b string) int { return version(b) - version(a) })
		dirs = append(dirs, filepath.SplitList(os.Getenv("PATH"))...)
	}
	for _, dir := range dirs {
		if isProgram(filepath.Join(dir, "initdb")) && isProgram(filepath.Join(dir, "postgres")) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("no PostgreSQL server in %q: run ./scripts/need postgres, or name its folder in ACODE_PG_BIN", dirs)
}

// version reads N in /usr/lib/postgresql/N/bin, or returns 0.
func version(dir string) int {
	// 0 sorts last.
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
	return n
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
