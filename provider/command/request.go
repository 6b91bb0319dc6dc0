package command

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/subtree"
)

// keyVariable carries the idempotency key into the command.
const keyVariable = "ACODE_IDEMPOTENCY_KEY"

// digest covers the parts of a request that stay the same across a resume. The
// environment, the epoch, the place of the workspace and the paths of the sandbox may
// differ.
func digest(req session.CommandRequest) string {
	b, err := json.Marshal(struct {
		Key, Dir string
		Argv     []string
		Sandbox  session.Confinement
	}{req.Key, req.Dir, req.Argv, req.Confinement()})
	if err != nil {
		// strings always encode
		panic(err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// checkRequest refuses requests that can never be started.
func checkRequest(req session.CommandRequest) error {
	refuse := func(why string) error {
		return &session.Error{Code: session.ErrCommand, Message: "the command cannot be started: " + why, Place: req.Key}
	}
	switch {
	case req.Key == "":
		return refuse("it has no idempotency key")
	case len(req.Argv) == 0 || req.Argv[0] == "":
		return refuse("it names no program")
	case !filepath.IsAbs(req.Workspace):
		return refuse("its workspace is no absolute path")
	case req.TTY && req.Split:
		return refuse("a terminal has one stream for both outputs")
	}
	for _, s := range slices.Concat(req.Argv, req.Env) {
		if strings.ContainsRune(s, 0) {
			return refuse("an argument or variable holds a zero byte")
		}
	}
	return nil
}

// environment returns the variables of the command. Each name occurs once, with its last
// value, because programs differ in which of two they take. It holds no name of acode's
// (keys, store, sockets) except the idempotency key. It says where the command is.
func environment(req session.CommandRequest) []string {
	last := make(map[string]int, len(req.Env))
	for i, v := range req.Env {
		last[nameOf(v)] = i
	}
	var env []string
	for i, v := range req.Env {
		name := nameOf(v)
		if last[name] == i && !strings.HasPrefix(name, "ACODE_") && name != "PWD" && name != "OLDPWD" {
			env = append(env, v)
		}
	}
	return append(env, "PWD="+filepath.Join(req.Workspace, req.Dir), keyVariable+"="+req.Key)
}

func nameOf(variable string) string {
	name, _, _ := strings.Cut(variable, "=")
	return name
}

// place is where a command runs. It holds open directories, so that a change of a path
// does not move it.
type place struct {
	workspace *os.File
	dir       *os.File
}

func (p place) close() {
	_ = p.workspace.Close()
	_ = p.dir.Close()
}

// openPlace opens the directory of req through a root that it cannot leave.
func openPlace(req session.CommandRequest) (place, error) {
	root, err := subtree.Open(req.Workspace)
	if err != nil {
		return place{}, &session.Error{Code: session.ErrEnvironment, Message: "the workspace cannot be opened; the command was not started", Place: req.Workspace, Cause: err}
	}
	defer func() { _ = root.Close() }()
	workspace, err := root.OpenFile(".", os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return place{}, &session.Error{Code: session.ErrEnvironment, Message: "the workspace cannot be opened; the command was not started", Place: req.Workspace, Cause: err}
	}
	dir, err := openDir(root, req.Dir)
	if err != nil {
		_ = workspace.Close()
		return place{}, err
	}
	return place{workspace, dir}, nil
}

func openDir(root *os.Root, dir string) (*os.File, error) {
	if dir == "" {
		dir = "."
	}
	f, err := root.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		e := &session.Error{Code: session.ErrCommand, Message: "the command's directory cannot be opened; the command was not started", Place: dir, Cause: err}
		if no := unix.Errno(0); !errors.As(err, &no) || no == unix.ELOOP {
			e.Code, e.Message = session.ErrEscape, "the command's directory leaves the workspace; the command was not started"
		} else if no == unix.EIO {
			e.Code = session.ErrEnvironment
		}
		return nil, e
	}
	return f, nil
}

// program returns the file to execute. It searches the PATH of the command, never that of
// this process. A name with a slash is taken from the command's directory.
func program(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	path := ""
	for _, v := range env {
		if p, ok := strings.CutPrefix(v, "PATH="); ok {
			path = p
		}
	}
	denied := false
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			// a relative entry would find files of the workspace
			continue
		}
		file := filepath.Join(dir, name)
		info, err := os.Stat(file)
		if err != nil || info.IsDir() {
			continue
		}
		if info.Mode().Perm()&0o111 != 0 {
			return file, nil
		}
		denied = true
	}
	if denied {
		return "", errors.New("found in PATH, but not executable")
	}
	return "", errors.New("not found in PATH")
}
