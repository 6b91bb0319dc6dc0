// Package subtree opens what lies below a directory, and nothing else, whatever symbolic
// links lie there and whatever is renamed meanwhile.
//
// It is os.Root, and refuses to open one where the kernel breaks the promise that os.Root
// is built on: a directory that is to be opened without following symbolic links is none.
// gVisor follows them (google/gvisor#14786), and there os.Root leads outside.
package subtree

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// followsLinks reports whether this kernel opens a directory through a symbolic link that
// it was told not to follow. /proc/self is one on every Linux; elsewhere it does not
// exist.
var followsLinks = sync.OnceValue(func() bool {
	fd, err := unix.Open("/proc/self", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	_ = unix.Close(fd) // nothing was read
	return true
})

var errFollows = errors.New("this kernel follows symbolic links that it is told not to follow, so nothing keeps them from leading outside")

// Open opens dir, which the caller closes. A name that leads outside, through ".." or
// symbolic links, is then an *fs.PathError whose cause is no error of the operating
// system.
func Open(dir string) (*os.Root, error) { return open(dir, followsLinks()) }

func open(dir string, follows bool) (*os.Root, error) {
	if follows {
		return nil, errFollows
	}
	return os.OpenRoot(dir)
}
