package cli

import (
	"errors"
	"io/fs"
	"os"
	"sync"

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
