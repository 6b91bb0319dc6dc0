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

// Output is standard output. A session must not stop because its output cannot be
// written, so callers may ignore the error of Write. Output keeps the first error, and
// the exit status reports it at the end.
type Output struct {
	file *os.File
	// lines points to whether JSON Lines are written. After a lost line Write writes
	// nothing, so that incomplete output never looks complete.
	lines *bool

	mu sync.Mutex
	// lost is the first error; nil when everything was written.
	lost *session.Error
}

// Write implements io.Writer. Writing to a pipe without a reader ends the process with
// SIGPIPE.
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

// Lost returns the first error of Write; nil for none.
func (o *Output) Lost() *session.Error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lost
}

// unwritten returns the error for output that cannot be written because of err.
func unwritten(err error) *session.Error {
	code := session.DiskCode(err, session.ErrStoreIO)
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		// The path is only the name of standard output, not where it goes.
		err = failed.Err
	}
	return &session.Error{Code: code, Message: "the output cannot be written", Cause: err, Next: session.Then("no work was lost; check where the output goes, then", session.MoveStatus, "")}
}

// outlets write in one order to readers that may have stopped, for example a pager.
//
// A Write waits for readers only while more than mostKept bytes are unwritten. After done
// is closed it waits at most lastWrite, so that a signal ends acode within a second.
// Bytes that it cannot keep are dropped.
type outlets struct {
	done <-chan struct{}
	// lines is set for JSON Lines. After a dropped line nothing follows, so that
	// incomplete output never looks complete.
	lines bool

	mu     sync.Mutex
	pieces []piece
	// bytes is the size of the pieces.
	bytes int
	// writes is set while a goroutine writes pieces.
	writes bool
	// moved is closed when some pieces are written; nil when no one waits for that.
	moved chan struct{}
	// err is the error of the latest write.
	err error
	// cut is set after a JSON Line was dropped.
	cut bool
	// stuck is set after within waited and no write ended. The next write clears it.
	stuck bool
	// raw is set while the terminal is raw: each line then needs a carriage return.
	raw bool
}

// piece holds bytes for one reader.
type piece struct {
	to   io.Writer
	data []byte
}

const (
	// lastWrite is how long a write may take after a signal.
	lastWrite = 250 * time.Millisecond
	// mostKept is how many unwritten bytes are kept before Write waits.
	mostKept = 1 << 20
	// isBehind is how many unwritten bytes a reader may leave before it counts as behind.
	isBehind = 64 << 10
	// onePiece is the size up to which pieces for one reader are written together.
	onePiece = 32 << 10
)

var errUnread = errors.New("no reader takes it")

// outlet writes to one of the readers.
type outlet struct {
	*outlets
	to io.Writer
}

// Write implements io.Writer. The error may come from an earlier Write.
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

// write writes pieces until none is left.
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

// flush waits until all pieces are written.
func (o *outlets) flush() { o.wait(func() bool { return len(o.pieces) == 0 }) }

// wait waits until ok returns true after some write, and reports whether it did. After
// done is closed it waits at most lastWrite.
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

// behind reports whether more than isBehind bytes are unwritten. It waits until there are
// fewer, or until no write has ended for as long as patience.
func (o *outlets) behind(patience time.Duration) bool {
	o.within(patience, func() bool { return o.bytes <= isBehind || o.stuck })
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes > isBehind
}

// catchUp waits until all pieces are written, so that a person sees the line of a step
// before the next step has an effect. It does not wait for a reader that has stopped.
func (o *outlets) catchUp(patience time.Duration) {
	o.within(patience, func() bool { return len(o.pieces) == 0 || o.stuck })
}

// within waits until ok returns true. It sets stuck when no write has ended for as long
// as patience; ok must then return true. With no patience it does not wait.
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

// look returns ok() and a channel that is closed when its result may have changed.
func (o *outlets) look(ok func() bool) (came bool, moved <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.moved == nil {
		o.moved = make(chan struct{})
	}
	return ok(), o.moved
}

// setRaw records whether the terminal is raw.
func (o *outlets) setRaw(is bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.raw = is
}
