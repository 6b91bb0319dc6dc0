package mcp

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// closes is the time within which a killed process has closed all its pipes.
const closes = 100 * time.Millisecond

// reads reports whether a process still has the other end of the output. A client that
// was killed has closed it. One that ends the connection in order waits for the end of
// the server.
func (w *wire) reads() bool {
	f, ok := w.out.(*os.File)
	return ok && !hungUp(f, closes)
}

// gone reports whether the client has closed the input or the output. Unread messages may
// stand before the end of the input.
func (w *wire) gone() bool {
	for _, end := range []any{w.in, w.out} {
		if f, ok := end.(*os.File); ok && hungUp(f, 0) {
			return true
		}
	}
	return false
}

// hungUp reports whether the other end of f is closed, or is closed within a time.
func hungUp(f *os.File, within time.Duration) bool {
	fds := []unix.PollFd{{Fd: int32(f.Fd())}}
	for {
		n, err := unix.Poll(fds, int(within.Milliseconds()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return err != nil || n > 0 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) != 0
	}
}
