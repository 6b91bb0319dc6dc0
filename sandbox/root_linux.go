package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// tree is a copy of mounts that is not attached yet, and its place in the private root.
type tree struct {
	fd     int
	target string
	dir    bool
}

// devices are the devices of a private root.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// enterRoot makes a private root of mounts and leaves the old one. Afterwards only the
// files of the profile exist.
func (s stage) enterRoot() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("separate the mounts: %w", err)
	}
	var here unix.Stat_t
	if err := unix.Stat(".", &here); err != nil {
		return fmt.Errorf("find the directory of the command: %w", err)
	}
	trees, err := s.trees()
	if err != nil {
		return err
	}
	// hidden below the new root from now on; the trees are open
	if err := unix.Mount("tmpfs", s.Tmp, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return fmt.Errorf("make a private root: %w", err)
	}
	if err := unix.Chdir(s.Tmp); err != nil {
		return fmt.Errorf("make a private root: %w", err)
	}
	if err := s.links(); err != nil {
		return fmt.Errorf("link system directories: %w", err)
	}
	shields, err := attachAll(trees)
	if err != nil {
		return err
	}
	if err := makeDevices(); err != nil {
		return fmt.Errorf("make /dev: %w", err)
	}
	if s.ReadOnly {
		// every place to mount on exists now
		if err := unix.MountSetattr(unix.AT_FDCWD, ".", unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return fmt.Errorf("protect the mounts: %w", err)
		}
		if err := unix.MountSetattr(unix.AT_FDCWD, "dev/shm", 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return fmt.Errorf("make a temporary directory: %w", err)
		}
	}
	for _, at := range append(shields, ".") {
		if err := unix.MountSetattr(unix.AT_FDCWD, at, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return fmt.Errorf("protect the private root: %w", err)
		}
	}
	if err := pivot(); err != nil {
		return fmt.Errorf("enter the private root: %w", err)
	}
	return s.enterDir(here)
}

// trees copies the mounts of the profile, parents first.
func (s stage) trees() ([]tree, error) {
	var out []tree
	add := func(source, target string, writable bool) error {
		t, err := copyTree(source, target, writable)
		if errors.Is(err, fs.ErrNotExist) && !writable {
			return nil
		}
		if err != nil {
			return fmt.Errorf("copy the mounts of %s: %w", source, err)
		}
		out = append(out, t)
		return nil
	}
	for _, path := range slices.Concat(s.Read, []string{"/proc", "/sys"}, devices) {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			if err := add(real, real, false); err != nil {
				return nil, err
			}
		}
	}
	for _, at := range []string{"/tmp", "/var/tmp"} {
		if err := add(s.Tmp, at, true); err != nil {
			return nil, err
		}
	}
	for _, path := range s.own() {
		if err := add(path, path, true); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(out, func(a, b tree) int { return cmp.Compare(len(a.target), len(b.target)) })
	return out, nil
}

// copyTree copies the mounts from source on.
func copyTree(source, target string, writable bool) (t tree, err error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return t, err
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID}
	if !writable {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return t, err
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	return tree{fd, target, st.Mode&unix.S_IFMT == unix.S_IFDIR}, err
}

// attachAll attaches trees below the working directory. A tree that lies deeper in /tmp
// gets parents of its own, shields. Otherwise a command could write beside it, into the
// private temporary directory, and take that for the directory of the same name outside.
func attachAll(trees []tree) (shields []string, err error) {
	var done []string
	for _, t := range trees {
		top := topOfTemp(t.target)
		covered := slices.ContainsFunc(done, func(at string) bool { return len(at) >= len(top) && Within(t.target, at) })
		if top != "" && top != t.target && !covered {
			if err := os.MkdirAll("."+top, 0o755); err != nil {
				return nil, fmt.Errorf("make %s: %w", top, err)
			}
			if err := unix.Mount("tmpfs", "."+top, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
				return nil, fmt.Errorf("cover %s: %w", top, err)
			}
			shields, done = append(shields, "."+top), append(done, top)
		}
		if err := t.attach(); err != nil {
			return nil, fmt.Errorf("attach %s: %w", t.target, err)
		}
		done = append(done, t.target)
	}
	return shields, nil
}

// topOfTemp returns the first directory below a temporary directory on the way to path;
// empty if path lies elsewhere.
func topOfTemp(path string) string {
	for _, dir := range []string{"/tmp/", "/var/tmp/"} {
		if rest, ok := strings.CutPrefix(path, dir); ok {
			first, _, _ := strings.Cut(rest, "/")
			return dir + first
		}
	}
	return ""
}

// attach attaches t below the working directory.
func (t tree) attach() error {
	at := "." + t.target
	if err := makePlace(at, t.dir); err != nil {
		return err
	}
	if err := unix.MoveMount(t.fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return err
	}
	return unix.Close(t.fd)
}

// makePlace makes a directory or a file to mount on, unless it exists.
func makePlace(at string, dir bool) error {
	if _, err := os.Lstat(at); err == nil {
		return nil
	}
	if dir {
		return os.MkdirAll(at, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	return os.WriteFile(at, nil, 0o644)
}

// links makes the symbolic links of the profile, such as /bin.
func (s stage) links() error {
	for _, path := range s.Read {
		real, err := filepath.EvalSymlinks(path)
		if err != nil || real == path {
			continue
		}
		at := "." + path
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(real, at); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// makeDevices completes /dev with terminals of its own and shared memory.
func makeDevices() error {
	for _, dir := range []string{"dev/pts", "dev/shm"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	for name, to := range map[string]string{"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(to, "dev/"+name); err != nil {
			return err
		}
	}
	if err := unix.Mount("devpts", "dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"); err != nil {
		return err
	}
	return unix.Mount("tmpfs", "dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777")
}

// pivot makes the working directory the root and gives up the old root.
func pivot() error {
	// the old root lies on top of the new one, and is detached
	if err := unix.PivotRoot(".", "."); err != nil {
		return err
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	return unix.Chdir("/")
}

// enterDir goes to the directory of the command, which was here before.
func (s stage) enterDir(here unix.Stat_t) error {
	if s.Dir == "" {
		return nil
	}
	if err := unix.Chdir(s.Dir); err != nil {
		return fmt.Errorf("enter the directory of the command: %w", err)
	}
	var now unix.Stat_t
	if err := unix.Stat(".", &now); err != nil || now.Dev != here.Dev || now.Ino != here.Ino {
		return errors.New("the directory of the command was moved")
	}
	return nil
}
