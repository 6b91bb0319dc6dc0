package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/acode-dev/acode/session"
)

const databaseName = "acode.db"

// maxPath is the longest path of a database that SQLite opens. SQLite's own limit is 512
// bytes, and it reserves room for the name of a journal.
const maxPath = 512 - len("-journal")

// checkHome returns an error for a home or database that belongs to another user, is open
// to others, or lies on a file system with unreliable locks. It checks before acode
// changes anything.
func checkHome(home string) error {
	if !filepath.IsAbs(home) {
		return &session.Error{Code: session.ErrConfig, Message: fmt.Sprintf("the store's directory %q is not absolute", home), Next: session.Words("name an absolute directory")}
	}
	if len(filepath.Join(home, databaseName)) > maxPath {
		return &session.Error{Code: session.ErrConfig, Place: home, Message: "the path of the store is too long for its database; nothing was changed", Next: session.Words("name your own store with ACODE_HOME")}
	}
	if err := checkNetwork(home); err != nil {
		return err
	}
	for _, path := range []string{home, filepath.Join(home, databaseName), filepath.Join(home, databaseName+"-wal")} {
		if err := checkOwner(path, path == home); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return storeError("look at store", err)
		}
	}
	return nil
}

// checkOwner returns an error for a path that other users own or can access. It also
// returns an error if path is not a directory when dir is set, or not a regular file
// otherwise.
func checkOwner(path string, dir bool) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	refuse := func(why string) error {
		return &session.Error{Code: session.ErrStoreMode, Place: path, Message: why + "; nothing was changed", Next: session.Words("allow access only to your user (directory 0700, files 0600), or name another store")}
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return refuse(fmt.Sprintf("the store belongs to user %d", st.Uid))
	}
	mode := info.Mode()
	kind, fits := "regular file", mode.IsRegular()
	if dir {
		kind, fits = "directory", mode.IsDir()
	}
	switch {
	case mode.Type() == fs.ModeSymlink:
		return &session.Error{Code: session.ErrStoreMode, Place: path, Next: session.Words("name the directory that it points to"),
			Message: "the store is a symbolic link, which could be changed to point elsewhere; nothing was changed"}
	case !fits:
		return &session.Error{Code: session.ErrStoreMode, Place: path, Next: session.Words("put it back, or name another store"),
			Message: "the path is not a " + kind + "; nothing was changed"}
	}
	if perm := mode.Perm(); perm&0o077 != 0 {
		return refuse(fmt.Sprintf("the store is open to others (mode %04o)", perm))
	}
	return nil
}

// checkNetwork checks the nearest existing directory at or above path.
func checkNetwork(path string) error {
	for {
		name, remote, err := networkFS(path)
		if errors.Is(err, fs.ErrNotExist) && filepath.Dir(path) != path {
			path = filepath.Dir(path)
			continue
		}
		if errors.Is(err, syscall.ENOTDIR) {
			return &session.Error{Code: session.ErrConfig, Place: path, Message: "the path of the store leads through a file that is not a directory; nothing was changed", Next: session.Words("name your own store with ACODE_HOME")}
		}
		if err != nil {
			return storeError("look at file system", &fs.PathError{Op: "statfs", Path: path, Err: err})
		}
		if remote {
			return &session.Error{Code: session.ErrStoreNet, Place: path, Message: fmt.Sprintf("the store is on a network file system (%s), whose locks and syncs cannot be trusted; nothing was changed", name), Next: session.Words("name a store on a local disk")}
		}
		return nil
	}
}
