package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/subtree"
)

// maxFileBytes is far more than a configuration needs.
const maxFileBytes = 64 << 10

// projectFile lies in the workspace, so its content may come from a stranger.
const projectFile = ".agent/config.yml"

// ReadProject reads the project's file of the workspace dir and returns it with its path.
// data is nil if there is no file. ReadProject does not leave dir through a symbolic link
// and does not wait for a named pipe. It returns session.ErrConfig for a large file and
// for anything but a regular file.
func ReadProject(dir string) (data []byte, path string, err error) {
	path = filepath.Join(dir, filepath.FromSlash(projectFile))
	root, err := subtree.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, path, nil
	}
	if err != nil {
		return nil, path, &session.Error{Code: session.ErrConfig, Message: "the workspace cannot be opened", Place: dir, Cause: err,
			Next: session.Then("make the directory readable, or name another one, with", session.MoveWorkIn, "")}
	}
	defer func() { _ = root.Close() }() // The directory was only read.
	f, err := root.OpenFile(filepath.FromSlash(projectFile), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, path, nil
	}
	if err != nil {
		return nil, path, &session.Error{Code: session.ErrConfig, Message: "the project's configuration cannot be opened inside its workspace",
			Place: path, Cause: err, Next: session.Words(format().Path)}
	}
	defer func() { _ = f.Close() }() // The file was only read.
	data, err = format().ReadFile(f, path, true)
	return data, path, err
}

// ReadUser reads the user's file. It returns nil if the file does not exist, unless named
// says that the user named it.
func ReadUser(path string, named bool) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if !named && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) {
		return nil, nil
	}
	if err != nil {
		return nil, format().Unreadable(path, err)
	}
	defer func() { _ = f.Close() }() // The file was only read.
	return format().ReadFile(f, path, true)
}
