package cli

import (
	"bytes"
	"errors"
	"io"
	"time"
)

// outlet writes to somebody who may have stopped reading, a pager for one. It waits for them as
// every write does, but once done is closed no longer than lastWrite, and drops what comes while a
// write hangs: a signal ends acode within a second whoever reads. It is for one writer at a time.
type outlet struct {
	to    io.Writer
	done  <-chan struct{}
	lines bool       // JSON Lines are written: behind one that was dropped comes none, so that they never look whole
	hangs chan error // of the write that was given up; nil: none was
	cut   bool       // a line was dropped
}

// lastWrite is how long a write may take after a signal.
const lastWrite = 250 * time.Millisecond

var errUnread = errors.New("nobody reads it")

// Write implements io.Writer.
func (o *outlet) Write(p []byte) (int, error) {
	hung := o.hangs != nil && len(o.hangs) == 0
	o.cut = o.cut || hung && o.lines
	if hung || o.cut {
		return 0, errUnread
	}
	wrote, data := make(chan error, 1), bytes.Clone(p) // whoever gives a write up may use p again
	go func() {
		_, err := o.to.Write(data)
		wrote <- err
	}()
	o.hangs = nil
	select {
	case err := <-wrote:
		return len(p), err
	case <-o.done:
	}
	limit := time.NewTimer(lastWrite)
	defer limit.Stop()
	select {
	case err := <-wrote:
		return len(p), err
	case <-limit.C:
		o.hangs = wrote
		return 0, errUnread
	}
}
