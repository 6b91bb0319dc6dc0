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
	// of a line that is told; a longer line is told in several pieces
	maxPiece = 64 << 10
	// of what a command wrote, told after its end however long that takes: its receipt
	// waits for it
	maxLate = 64 << 10
	// how long more than that is told
	lateTime = time.Second
)

// outputs tells what commands write, line by line. A command of which a value is captured
// must be left out: before the value is known, it cannot be masked.
type outputs struct {
	// of the commands of the session
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

// lines gives what tells lines of one output of it.
func (o *outputs) lines(it session.Item, stream session.Stream) *liveLines {
	it.Why = "" // it has begun
	l := &liveLines{now: o.now, tell: o.tell, item: &it, stream: stream}
	l.masked = o.masked(writerFunc(l.take))
	return l
}

// begin tells what the command of key writes, until end. It does nothing where that goes
// on already.
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

// end tells what the command of key has written by now, and then nothing of it any more.
// It gives how many lines were told of it.
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

// close ends all of them.
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

// watched runs commands and tells what they write.
type watched struct {
	*command.Runner
	out   *outputs
	items map[session.StepID]session.Item
}

// Run implements engine.Commands. Of a command that is over, all was told. What one
// writes is told until then, also while nobody waits for it.
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
	// bytes at the beginning that were written while no acode looked
	unwatched int64
	// bytes that were taken
	seen int64
	// of them, those that this look gives again
	skip int64
	// bytes that were taken after ctx, since lateFrom
	late int64
	// masked, of a line that is not complete
	rest []byte
	// lines
	told int
	// of them, those that were told before and are not told again
	known int

	// while it is told what runs; nil: nothing of it does
	ctx      context.Context
	lateFrom time.Time
	stop     context.CancelFunc
	ended    chan struct{}
}

// errLate ends the lines of a command that is over and wrote more than is told after its
// end.
var errLate = errors.New("what the command wrote last is not told")

// follow reads until ctx ends, then what is there. A command that is about to begin may
// look over for a moment, so only the look after its end is the last one. What cannot be
// read is not told: the receipt meets the same error and says so.
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
			_ = pause(ctx) // when it ends, one look is left
		case over:
			_ = l.close() // it fails as a line before did
			return
		case last || errors.Is(err, context.Cause(ctx)):
			return
		}
	}
}

// Write takes what the command wrote, from its beginning at each look.
func (l *liveLines) Write(p []byte) (int, error) {
	known := min(int64(len(p)), l.skip)
	l.skip -= known
	fresh := p[known:]
	if l.ctx != nil && l.ctx.Err() != nil {
		if l.late == 0 {
			l.lateFrom = l.now()
		}
		if l.late += int64(len(fresh)); l.late > maxLate && l.now().Sub(l.lateFrom) > lateTime {
			return int(known), errLate
		}
	}
	l.seen += int64(len(fresh))
	old := min(int64(len(fresh)), l.unwatched)
	if old > 0 {
		if _, err := l.masked.Write(fresh[:old]); err != nil {
			return 0, err
		}
		l.unwatched -= old
	}
	n, err := l.masked.Write(fresh[old:])
	return int(known+old) + n, err
}

// close tells the last line, where it has no end.
func (l *liveLines) close() error {
	err := l.masked.Close()
	if len(l.rest) > 0 {
		l.line(l.rest)
		l.rest = nil
	}
	return err
}

// take takes what is masked.
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

// count counts what is written to it.
type count struct{ n int64 }

func (c *count) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}
