package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// tempName returns the name of the n-th temporary file of key.
func tempName(key string, n int) string {
	return fmt.Sprintf("%s%d.tmp", tempPrefix(key), n)
}

func tempPrefix(key string) string {
	sum := sha256.Sum256([]byte(key))
	return ".acode-" + hex.EncodeToString(sum[:])[:16] + "-"
}

var tempPattern = regexp.MustCompile(`^\.acode-[0-9a-f]{16}-[0-9]+\.tmp$`)

// temporary reports whether name is a temporary file of any key.
func temporary(name string) bool {
	_, base := split(name)
	return strings.HasSuffix(base, ".tmp") && tempPattern.MatchString(base)
}

// create makes a temporary file in d. It replaces a leftover of the same name, which no
// other program needs.
func (r *Root) create(d *folder, name string) (*os.File, error) {
	for again := false; ; again = true {
		if err := r.effect("create " + path.Join(d.name, name)); err != nil {
			return nil, err
		}
		fd := -1
		err := retry(func() (err error) {
			fd, err = unix.Openat(d.fd(), name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
			return err
		})
		if err == nil {
			return os.NewFile(uintptr(fd), path.Join(d.name, name)), nil
		}
		if again || !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if err := unix.Unlinkat(d.fd(), name, 0); err != nil {
			return nil, err
		}
	}
}

// makeFolders makes dir and the missing directories above it. It makes each one durable
// before it is used. It returns the directories that it made.
func (r *Root) makeFolders(dir string) (made []string, err error) {
	at := "."
	for _, part := range strings.Split(dir, "/") {
		parent := at
		at = path.Join(at, part)
		if _, err := r.root.Stat(at); err == nil {
			continue
		}
		if err := r.effect("mkdir " + at); err != nil {
			return made, err
		}
		if err := r.root.Mkdir(at, 0o755); err != nil {
			if errors.Is(err, fs.ErrExist) {
				continue
			}
			return made, err
		}
		made = append(made, at)
		if err := r.syncFolder(parent); err != nil {
			return made, err
		}
	}
	return made, nil
}

// Sweep removes temporary files of attempts that are over from dirs and makes that
// durable. Such files exist only after a power cut: btrfs may bring a file back when it
// replays its log, although its directory was synced after the removal. keys returns
// the keys of those attempts. It is called only if there is a temporary file.
func (r *Root) Sweep(dirs []string, keys func() []string) error {
	var errs []error
	for _, dir := range dirs {
		if err := r.sweepFolder(dir, keys); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, failure(dir, "removing old temporary files", err))
		}
	}
	return errors.Join(errs...)
}

func (r *Root) sweepFolder(dir string, keys func() []string) error {
	d, err := r.folder(dir)
	if err != nil {
		return err
	}
	defer d.close()
	names, err := d.f.Readdirnames(-1)
	names = slices.DeleteFunc(names, func(name string) bool {
		of := func(key string) bool { return strings.HasPrefix(name, tempPrefix(key)) }
		return !temporary(name) || !slices.ContainsFunc(keys(), of)
	})
	for _, name := range names {
		if err := r.unlink(d, name); err != nil {
			return err
		}
	}
	if err != nil || len(names) == 0 {
		return err
	}
	return r.sync(d)
}

func (r *Root) syncFolder(name string) error {
	d, err := r.folder(name)
	if err != nil {
		return err
	}
	defer d.close()
	return r.sync(d)
}

// writeTemp makes a durable temporary file and leaves it open.
func (r *Root) writeTemp(ctx context.Context, d *folder, name string, content io.Reader, mode uint32) (*os.File, error) {
	f, err := r.create(d, name)
	if err != nil {
		return nil, err
	}
	if err := r.fill(ctx, f, content, mode); err != nil {
		// the caller removes the file
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func (r *Root) fill(ctx context.Context, f *os.File, content io.Reader, mode uint32) error {
	if err := r.effect("write " + f.Name()); err != nil {
		return err
	}
	if _, err := io.Copy(f, &section{ctx: ctx, r: content}); err != nil {
		return err
	}
	if err := retry(func() error { return unix.Fchmod(int(f.Fd()), mode) }); err != nil {
		return err
	}
	if err := r.effect("fsync " + f.Name()); err != nil {
		return err
	}
	return f.Sync()
}
