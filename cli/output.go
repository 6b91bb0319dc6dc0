package cli

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/acode-dev/acode/session"
)

// Output is standard output. It remembers that something could not be written, which the exit
// status tells in the end, whoever ignored it: what is printed of a session must not stop it.
type Output struct {
	file  *os.File
	lines *bool // JSON Lines are written: after one that was lost none follows, so that they never look whole

	mu   sync.Mutex
	lost *session.Error // the first one; nil: all was written
}

// Write implements io.Writer. A pipe that nobody reads ends the process by its signal, as ever.
func (o *Output) Write(p []byte) (int, error) {
	if lost := o.Lost(); lost != nil && *o.lines {
		return 0, lost
	}
	n, err := o.file.Write(p)
	if err == nil {
		return n, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lost == nil {
		o.lost = unwritten(err)
	}
	return n, o.lost
}

// Lost says what could not be written; nil for nothing.
func (o *Output) Lost() *session.Error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lost
}

// unwritten says of an error from writing the output what it means.
func unwritten(err error) *session.Error {
	code := session.DiskCode(err, session.ErrStoreIO)
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		err = failed.Err // where it goes is not what it is called here
	}
	return &session.Error{Code: code, Message: "the output cannot be written", Cause: err, Next: session.Then("look where the output goes; what was done stands", session.MoveStatus, "")}
}

// outlet writes to a reader that may have stopped, for example a pager. A write waits for the reader,
// but after done is closed no longer than lastWrite. Text that comes while a write hangs is dropped, so
// that a signal ends acode within a second. It is for one writer at a time.
type outlet struct {
	to    io.Writer
	done  <-chan struct{}
	lines bool       // JSON Lines are written: behind one that was dropped comes none, so that they never look whole
	hangs chan error // of the write that was given up; nil: none was
	cut   bool       // a line was dropped
}

// lastWrite is how long a write may take after a signal.
const lastWrite = 250 * time.Millisecond

var errUnread = errors.New("no reader takes it")

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
