package terminal

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/acode-dev/acode/session"
)

// Error prints err for a person: the message with its code, further lines such as a
// caret, then the hint (FR-063). An empty hint is left out.
func Error(w io.Writer, err error, hint string) {
	first, rest, more := strings.Cut(CleanLines(err.Error()), "\n")
	_, _ = fmt.Fprintf(w, "acode: %s (%s)\n", first, Clean(string(session.CodeOf(err)))) // there is no other place to report to
	if more {
		_, _ = fmt.Fprintln(w, strings.TrimRight(rest, "\n")) // there is no other place to report to
	}
	if hint != "" {
		_, _ = fmt.Fprintf(w, "hint: %s\n", CleanLines(hint)) // there is no other place to report to
	}
}

// ErrorJSON writes err as the line of type "result" that ends a failed command. mask
// removes secrets from its texts.
func ErrorJSON(w io.Writer, err error, exit int, hint string, now time.Time, mask func(string) string) {
	f := newFailure(err, exit, hint)
	f.Message, f.Place, f.Next = mask(f.Message), mask(f.Place), mask(f.Next)
	l := line{V: jsonVersion, TS: stamp(now), Type: string(session.NoticeResult), resultJSON: f}
	_, _ = w.Write(encode(l)) // there is no other place to report to
}

func newFailure(err error, exit int, hint string) *resultJSON {
	out := &resultJSON{Code: session.CodeOf(err), Exit: exit, Message: err.Error(), Next: hint}
	var e *session.Error
	if errors.As(err, &e) {
		out.Place, out.Retryable = e.Place, e.Retryable
	}
	return out
}

// Fail shows an error that ended the command. With JSON it writes the result, unless a
// result has already ended the stream.
func (p *Printer) Fail(err error, exit int, hint string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release()
	p.live.steps = nil
	if !p.o.JSON {
		Error(p.o.Err, err, hint)
		return
	}
	if p.ended {
		return
	}
	p.ended = true
	l := p.newLine(session.NoticeResult)
	l.resultJSON = newFailure(err, exit, hint)
	if p.sess != nil {
		l.ShortID, l.State = p.sess.Short, p.sess.State
		l.Done, l.Left = p.sess.Done, p.sess.StepTotal-p.sess.Done
	}
	p.json.flush(p.o.Out)
	_, _ = p.o.Out.Write(encode(l)) // as in jsonLines
}
