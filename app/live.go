package app

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
)

// maxPiece is how long a piece of a line is told; a longer line is told in several.
const maxPiece = 64 << 10

// watched tells what commands write while they run. A command of which a value is captured is left out: before the
// value is known, it cannot be masked.
type watched struct {
	*command.Runner
	dir    string
	items  map[session.StepID]session.Item
	masked func(io.Writer) *redact.Stream
	now    func() time.Time
	tell   func(session.Notice)
}

// Run implements engine.Commands. All that was written is told when it returns.
func (w *watched) Run(ctx context.Context, req session.CommandRequest) (session.CommandRecord, error) {
	key, err := session.ParseKey(req.Key)
	if err != nil || req.Split {
		return w.Runner.Run(ctx, req)
	}
	item := w.items[key.Step]
	item.Why = "" // it has begun
	l := &liveLines{now: w.now, tell: w.tell, item: &item}
	l.masked = w.masked(writerFunc(l.lines))
	before := &count{}
	if _, err := command.Follow(ctx, w.dir, req.Key, false, before); err == nil {
		l.unwatched = before.n
	}
	running, stop := context.WithCancel(ctx)
	told := make(chan struct{})
	go func() {
		defer close(told)
		l.follow(running, w.dir, req.Key)
	}()
	rec, err := w.Runner.Run(ctx, req)
	stop()
	<-told
	return rec, err
}

// liveLines tells the output of one command, line by line.
type liveLines struct {
	masked    *redact.Stream
	now       func() time.Time
	tell      func(session.Notice)
	item      *session.Item
	unwatched int64  // bytes at the beginning that were written while no acode looked
	seen      int64  // bytes that were taken
	skip      int64  // of them, those that this look gives again
	rest      []byte // masked, of a line that is not complete
}

// follow reads until ctx ends, then what is there. A command that is about to begin may look over for a moment, so only
// the look after its end is the last one. What cannot be read is not told: the receipt meets the same error and says so.
func (l *liveLines) follow(ctx context.Context, dir, key string) {
	for {
		last := ctx.Err() != nil
		l.skip = l.seen
		over, err := command.Follow(ctx, dir, key, true, l)
		if ctx.Err() == nil {
			_ = pause(ctx) // when it ends, one look is left
			continue
		}
		if over {
			_ = l.masked.Close()
			if len(l.rest) > 0 {
				l.line(l.rest)
			}
		}
		if last || over || errors.Is(err, context.Cause(ctx)) {
			return
		}
	}
}

// Write takes what the command wrote, from its beginning at each look.
func (l *liveLines) Write(p []byte) (int, error) {
	known := min(int64(len(p)), l.skip)
	l.skip -= known
	fresh := p[known:]
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

// lines takes what is masked.
func (l *liveLines) lines(p []byte) (int, error) {
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
	n := session.Notice{Kind: session.NoticeOutput, Item: l.item, Text: strings.ToValidUTF8(string(text), "�")}
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
