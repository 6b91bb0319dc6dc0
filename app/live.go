package app

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
)

const (
	// maxPiece is the largest part of a line in one notice, in bytes. A longer line takes
	// several notices.
	maxPiece = 64 << 10
	// maxLate is how many bytes are always shown after the end of a command. Its receipt
	// waits for them.
	maxLate = 64 << 10
	// lateTime is how long more bytes than maxLate are shown.
	lateTime = time.Second
)

// outputs tells the output of commands, line by line. A command with a capture must be
// left out, because its value cannot be masked before it is known.
type outputs struct {
	// directory of the session's commands
	dir    string
	masked func(io.Writer) *redact.Stream
	now    func() time.Time
	tell   func(session.Notice)

	mu sync.Mutex
	// by key
	running map[string]*liveLines
}

func (s *Site) liveOutputs(id session.ID, tell func(session.Notice)) *outputs {
	return &outputs{dir: s.commandDir(id), masked: s.Redactor.Stream, now: s.Now, tell: tell, running: map[string]*liveLines{}}
}

// lines returns a liveLines for one output of it.
func (o *outputs) lines(it session.Item, stream session.Stream) *liveLines {
	it.Why = "" // the reason to start is no longer news
	l := &liveLines{now: o.now, tell: o.tell, item: &it, stream: stream}
	l.masked = o.masked(writerFunc(l.take))
	return l
}

// begin starts to tell the output of the command with key, until end is called. It does
// nothing if it was already called for key.
func (o *outputs) begin(it session.Item, key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.running[key] != nil {
		return
	}
	it.Status = session.InProgress
	l := o.lines(it, session.BothStreams)
	before := &count{}
	if _, err := command.Follow(context.Background(), o.dir, key, false, before, before); err == nil {
		l.unwatched = before.n
	}
	ctx, stop := context.WithCancel(context.Background())
	l.stop, l.ended = stop, make(chan struct{})
	o.running[key] = l
	go func() {
		defer close(l.ended)
		l.follow(ctx, o.dir, key)
	}()
}

// end tells the output that the command has written so far, then stops. It returns how
// many lines were told.
func (o *outputs) end(key string) (told int) {
	o.mu.Lock()
	l := o.running[key]
	delete(o.running, key)
	o.mu.Unlock()
	if l == nil {
		return 0
	}
	l.stop()
	<-l.ended
	return l.told
}

// close calls end for every command.
func (o *outputs) close() {
	o.mu.Lock()
	var keys []string
	for key := range o.running {
		keys = append(keys, key)
	}
	o.mu.Unlock()
	for _, key := range keys {
		o.end(key)
	}
}

// watched runs commands and tells their output.
type watched struct {
	*command.Runner
	out   *outputs
	items map[session.StepID]session.Item
}

// Run implements engine.Commands. When it returns a finished command, all output was
// told. The output of a running command is told even while no call waits for it.
func (w *watched) Run(ctx context.Context, req session.CommandRequest) (session.CommandRecord, error) {
	if key, err := session.ParseKey(req.Key); err == nil && !req.Split {
		w.out.begin(w.items[key.Step], req.Key)
	}
	rec, err := w.Runner.Run(ctx, req)
	return w.over(req.Key, rec, err)
}

// Wait implements engine.Commands, as Run.
func (w *watched) Wait(ctx context.Context, key string) (session.CommandRecord, error) {
	rec, err := w.Runner.Wait(ctx, key)
	return w.over(key, rec, err)
}

// Look implements engine.Commands, as Run.
func (w *watched) Look(ctx context.Context, key string) (session.CommandRecord, error) {
	rec, err := w.Runner.Look(ctx, key)
	return w.over(key, rec, err)
}

func (w *watched) over(key string, rec session.CommandRecord, err error) (session.CommandRecord, error) {
	if err == nil && rec.State == session.CommandFinished {
		w.out.end(key)
	}
	return rec, err
}

// liveLines tells one output of a command, line by line.
type liveLines struct {
	masked *redact.Stream
	now    func() time.Time
	tell   func(session.Notice)
	item   *session.Item
	stream session.Stream
	// how many bytes at the start were written before acode watched
	unwatched int64
	// bytes that were taken
	seen int64
	// how many of the taken bytes this look delivers again
	skip int64
	// bytes that were taken after the end of ctx, since lateFrom
	late int64
	// masked text of an incomplete line
	rest []byte
	// lines so far, also those not passed to tell
	told int
	// how many of the first lines were told before
	known int

	// ends when the command does; nil for a stored output
	ctx      context.Context
	lateFrom time.Time
	stop     context.CancelFunc
	ended    chan struct{}
}

// errLate stops the output of a command that ended and left more than is shown after its
// end.
var errLate = errors.New("the last output of the command is not shown")

// follow reads until ctx ends, then the rest. Only the look after the end counts as the
// last one, because a command that is about to begin may seem over. follow skips
// unreadable output: the receipt meets the same error and reports it.
func (l *liveLines) follow(ctx context.Context, dir, key string) {
	l.ctx = ctx
	for {
		last := ctx.Err() != nil
		l.skip = l.seen
		over, err := command.Follow(ctx, dir, key, true, l, l)
		switch {
		case errors.Is(err, errLate):
			l.tell(session.Notice{Kind: session.NoticeLagging, Item: l.item, Text: "the rest is not shown"})
			l.told = math.MaxInt
			return
		case ctx.Err() == nil && over && l.seen > 0:
			<-ctx.Done()
		case ctx.Err() == nil:
			_ = pause(ctx) // when ctx ends, one look is left
		case over:
			_ = l.close() // fails only if an earlier line failed
			return
		case last || errors.Is(err, context.Cause(ctx)):
			return
		}
	}
}

// Write implements io.Writer, as ReadFrom.
func (l *liveLines) Write(p []byte) (int, error) {
	n, err := l.ReadFrom(bytes.NewReader(p))
	return int(n), err
}

// ReadFrom implements io.ReaderFrom. It takes the output from its start at each look. r
// may be redact.Gapped.
func (l *liveLines) ReadFrom(r io.Reader) (int64, error) {
	known, err := io.CopyN(io.Discard, r, l.skip)
	l.skip -= known
	if errors.Is(err, io.EOF) {
		return known, nil
	} else if err != nil {
		return known, err
	}
	n, err := l.masked.ReadFrom(&fresh{Reader: r, lines: l, known: known})
	return known + n, err
}

// fresh is the part of an output that no earlier look took.
type fresh struct {
	io.Reader
	lines *liveLines
	// known is the number of bytes before it.
	known int64
	// passed is the number of bytes of the latest Read that were written before acode
	// watched.
	passed int64
}

// Read implements io.Reader. One Read does not mix bytes that were written before acode
// watched with later bytes, because only lines of later bytes have a time.
func (f *fresh) Read(p []byte) (int, error) {
	l := f.lines
	l.unwatched -= f.passed
	if f.passed = 0; l.unwatched > 0 {
		p = p[:min(int64(len(p)), l.unwatched)]
	}
	n, err := f.Reader.Read(p)
	if l.unwatched > 0 {
		f.passed = int64(n)
	}
	if l.ctx != nil && l.ctx.Err() != nil && n > 0 {
		if l.late == 0 {
			l.lateFrom = l.now()
		}
		if l.late += int64(n); l.late > maxLate && l.now().Sub(l.lateFrom) > lateTime {
			return 0, errLate
		}
	}
	l.seen += int64(n)
	return n, err
}

// Gaps implements redact.Gapped.
func (f *fresh) Gaps() []redact.Gap {
	g, ok := f.Reader.(redact.Gapped)
	if !ok {
		return nil
	}
	var later []redact.Gap
	for _, gap := range g.Gaps() {
		if gap.At -= f.known; gap.At >= 0 {
			later = append(later, gap)
		}
	}
	return later
}

// close tells the last line if it has no newline.
func (l *liveLines) close() error {
	err := l.masked.Close()
	if len(l.rest) > 0 {
		l.line(l.rest)
		l.rest = nil
	}
	return err
}

// take takes masked text.
func (l *liveLines) take(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		end := bytes.IndexByte(l.rest, '\n')
		switch {
		case end >= 0:
			l.line(l.rest[:end])
			l.rest = l.rest[end+1:]
		case len(l.rest) > maxPiece:
			l.line(l.rest)
			l.rest = nil
		default:
			return len(p), nil
		}
	}
}

func (l *liveLines) line(text []byte) {
	if l.told++; l.told <= l.known {
		return
	}
	n := session.Notice{Kind: session.NoticeOutput, Item: l.item, Stream: l.stream, Text: strings.ToValidUTF8(string(text), "�")}
	if l.unwatched == 0 {
		n.TimeUS = l.now().UnixMicro()
	}
	l.tell(n)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// count counts the bytes that are written to it.
type count struct{ n int64 }

func (c *count) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}
