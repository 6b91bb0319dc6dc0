// Package subtree opens files below a directory and never outside it, even if symbolic
// links there lead outside or files are renamed meanwhile. It also says which paths lie
// below a directory.
//
// It uses os.Root, which relies on the kernel to refuse symbolic links when it opens a
// directory without following them. gVisor follows them (google/gvisor#14786), so
// os.Root leads outside there. The package refuses to open a directory on such a
// kernel.
package subtree

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// followsLinks reports whether this kernel opens a directory through a symbolic link
// although it was told not to follow one. The check uses /proc/self, which is a
// symbolic link on every Linux. On other systems it does not exist.
var followsLinks = sync.OnceValue(func() bool {
	fd, err := unix.Open("/proc/self", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	_ = unix.Close(fd) // nothing was read
	return true
})

var errFollows = errors.New("this kernel follows symbolic links although it is told not to, so a link could lead outside")

// Open opens dir, which the caller closes. A name that leads outside, through ".." or
// symbolic links, gives an *fs.PathError whose cause is not an error of the operating
// system.
func Open(dir string) (*os.Root, error) { return open(dir, followsLinks()) }

func open(dir string, follows bool) (*os.Root, error) {
	if follows {
		return nil, errFollows
	}
	return os.OpenRoot(dir)
}
