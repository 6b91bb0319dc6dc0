package sandbox

import (
	"encoding/json"
	"path/filepath"
	"syscall"
)

// The modes of a sandbox.
const (
	Namespaces = "namespaces"
	Filter     = "filter"
)

// Profile says what a confined command may do. Its paths are absolute.
type Profile struct {
	Mode string `json:"mode"`
	// Workspace, Home and Tmp are the directories that the command may write below. In the
	// mode Namespaces Tmp is also /tmp and /var/tmp.
	Workspace string `json:"workspace"`
	Home      string `json:"home"`
	Tmp       string `json:"tmp"`
	// Read lists further directories and files that the command may read and execute. A
	// path that does not exist is ignored.
	Read []string `json:"read"`
	// Network lets the command use the network of this machine.
	Network bool `json:"network,omitempty"`
	// ReadOnly lets the command write nowhere, except to devices such as /dev/null and, in
	// the mode Namespaces, to a temporary directory in memory that nothing else sees.
	ReadOnly bool `json:"read_only,omitempty"`
}

// TempDir returns the path of the temporary directory as the command sees it.
func (p Profile) TempDir() string {
	switch {
	case p.Mode == Namespaces && p.ReadOnly:
		return "/dev/shm"
	case p.Mode == Namespaces:
		return "/tmp"
	}
	return p.Tmp
}

// own returns the directories that the command may write below unless it only reads.
func (p Profile) own() []string { return []string{p.Workspace, p.Home, p.Tmp} }

// Stage is the first argument of this program when it is the first stage of a confined
// command. The other arguments are for Enter.
const Stage = "sandboxed"

// stage is what Enter gets as its first argument.
type stage struct {
	Profile
	// Dir is where the command runs; empty leaves it where it is.
	Dir string `json:"dir,omitempty"`
	// Report is a descriptor to which Enter writes why the command could not be started;
	// 0 means standard error.
	Report int `json:"report,omitempty"`
}

// Arguments returns the arguments of this program, after the name of the program, that
// start the program in file with argv inside the sandbox. dir is the path of the
// directory in which the stage is started. Enter writes to the descriptor report why the
// command could not be started; 0 means standard error.
func (p Profile) Arguments(dir string, report int, file string, argv []string) []string {
	b, err := json.Marshal(stage{p, dir, report})
	if err != nil {
		// strings always encode
		panic(err)
	}
	return append([]string{Stage, string(b), file}, argv...)
}

// StageAttributes returns the attributes with which a program must be started if argv
// starts a first stage; otherwise nil.
func StageAttributes(argv []string) *syscall.SysProcAttr {
	var s stage
	if len(argv) < 3 || argv[1] != Stage || json.Unmarshal([]byte(argv[2]), &s) != nil {
		return nil
	}
	return s.Attributes(syscall.SysProcAttr{})
}

// Within reports whether path is dir or lies below it. Both are absolute and clean.
func Within(path, dir string) bool {
	rest, err := filepath.Rel(dir, path)
	return err == nil && (rest == "." || filepath.IsLocal(rest))
}
