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

// Output is standard output. It remembers that something could not be written, which the
// exit status tells in the end, whoever ignored it: what is printed of a session must not
// stop it.
type Output struct {
	file *os.File
	// JSON Lines are written: after one that was lost none follows, so that they never
	// look whole
	lines *bool

	mu sync.Mutex
	// the first one; nil: all was written
	lost *session.Error
}

// Write implements io.Writer. A pipe that nobody reads ends the process by its signal, as
// ever.
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

// outlets write, in one order, to readers that may have stopped, for example a pager. A
// Write waits for them only where mostKept is not written yet, and after done is closed
// no longer than lastWrite, so that a signal ends acode within a second. What it cannot
// keep it drops.
type outlets struct {
	done <-chan struct{}
	// JSON Lines are written: behind one that was dropped comes none, so that they never
	// look whole
	lines bool

	mu     sync.Mutex
	pieces []piece
	// of them
	bytes int
	// a goroutine writes them
	writes bool
	// closed when some are written; nil: no one waits for that
	moved chan struct{}
	// of the latest write
	err error
	// a piece was dropped
	cut bool
	// a reader was waited for in vain, and took nothing since
	stuck bool
	// the terminal is: it must be told to go to the beginning of a line
	raw bool
}

// piece is what was written to one of them.
type piece struct {
	to   io.Writer
	data []byte
}

const (
	// how long a write may take after a signal
	lastWrite = 250 * time.Millisecond
	// bytes that are kept for readers
	mostKept = 1 << 20
	// bytes that are kept for a reader that is behind
	isBehind = 64 << 10
	// bytes that are written at once, where there are as many
	onePiece = 32 << 10
)

var errUnread = errors.New("no reader takes it")

// outlet is the way to one of the readers.
type outlet struct {
	*outlets
	to io.Writer
}

// Write implements io.Writer. An error may be that of an earlier one.
func (o outlet) Write(p []byte) (int, error) {
	fits := o.wait(func() bool { return o.bytes <= mostKept })
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cut = o.cut || !fits && o.lines; o.cut || !fits {
		return 0, errUnread
	}
	data := bytes.Clone(p)
	if o.raw {
		data = bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n"))
	}
	o.pieces = append(o.pieces, piece{o.to, data})
	o.bytes += len(data)
	if !o.writes {
		o.writes = true
		go o.write()
	}
	return len(p), o.err
}

// write writes what is kept, until nothing is.
func (o *outlets) write() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.pieces) > 0 {
		next, n := o.pieces[0], 1
		for ; n < len(o.pieces) && o.pieces[n].to == next.to && len(next.data) < onePiece; n++ {
			next.data = append(next.data, o.pieces[n].data...)
		}
		o.mu.Unlock()
		_, err := next.to.Write(next.data)
		o.mu.Lock()
		o.pieces = o.pieces[n:]
		o.bytes -= len(next.data)
		if o.err, o.stuck = err, false; o.moved != nil {
			close(o.moved)
			o.moved = nil
		}
	}
	o.writes = false
}

// flush waits until all is written.
func (o *outlets) flush() { o.wait(func() bool { return len(o.pieces) == 0 }) }

// wait waits for ok, which something that was written may bring, and reports whether that
// came.
func (o *outlets) wait(ok func() bool) bool {
	done, limit := o.done, (<-chan time.Time)(nil)
	for {
		came, moved := o.look(ok)
		if came {
			return true
		}
		select {
		case <-moved:
		case <-done:
			t := time.NewTimer(lastWrite)
			defer t.Stop()
			done, limit = nil, t.C
		case <-limit:
			return false
		}
	}
}

// behind reports whether much is kept, and still is after the patience in which nothing
// was written.
func (o *outlets) behind(patience time.Duration) bool {
	o.within(patience, func() bool { return o.bytes <= isBehind || o.stuck })
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes > isBehind
}

// catchUp waits until all is written, but not for a reader that has stopped: a person sees
// the line of a step before the next one has an effect.
func (o *outlets) catchUp(patience time.Duration) {
	o.within(patience, func() bool { return len(o.pieces) == 0 || o.stuck })
}

// within waits for ok, at most for the patience in which nothing was written.
func (o *outlets) within(patience time.Duration, ok func() bool) {
	for {
		came, moved := o.look(ok)
		if came || patience == 0 {
			return
		}
		t := time.NewTimer(patience)
		select {
		case <-moved:
		case <-t.C:
			o.mu.Lock()
			o.stuck = true
			o.mu.Unlock()
		}
		t.Stop()
	}
}

// look gives what ok says, and what is closed when that may have changed.
func (o *outlets) look(ok func() bool) (came bool, moved <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.moved == nil {
		o.moved = make(chan struct{})
	}
	return ok(), o.moved
}

// setRaw says whether the terminal is raw.
func (o *outlets) setRaw(is bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.raw = is
}
