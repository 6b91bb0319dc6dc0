package terminal

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/acode-dev/acode/session"
)

// Error writes err for a person: message with code, then what to do, as its door says it; empty says
// nothing. Lines below the first one, as a caret, follow it (FR-063).
func Error(w io.Writer, err error, hint string) {
	e := envelope(err)
	first, rest, more := strings.Cut(CleanLines(e.Error()), "\n")
	_, _ = fmt.Fprintf(w, "acode: %s (%s)\n", first, Clean(string(e.Code))) // nowhere left to report to
	if more {
		_, _ = fmt.Fprintln(w, strings.TrimRight(rest, "\n")) // as above
	}
	if hint != "" {
		_, _ = fmt.Fprintf(w, "hint: %s\n", CleanLines(hint)) // as above
	}
}

// envelope finds the outermost session.Error, with what was wrapped around it, or makes one.
func envelope(err error) *session.Error {
	var e *session.Error
	if errors.As(err, &e) {
		out := *e
		out.Message, out.Place, out.Cause = err.Error(), "", nil
		return &out
	}
	return &session.Error{Code: session.CodeOf(err), Message: err.Error()}
}

// ErrorJSON writes err as the one line of type "result" that ends a command which failed.
func ErrorJSON(w io.Writer, err error, exit int, hint string, now time.Time) {
	_, _ = w.Write(encode(errorLine(line{V: jsonVersion, TS: stamp(now)}, err, exit, hint))) // nowhere left to report to
}

func errorLine(l line, err error, exit int, hint string) line {
	e := envelope(err)
	place := ""
	if inner := (*session.Error)(nil); errors.As(err, &inner) {
		place = inner.Place
	}
	l.Type = string(session.NoticeResult)
	l.resultJSON = &resultJSON{
		Code: e.Code, Exit: exit, Message: e.Message, Place: place,
		Next: hint, Retryable: e.Retryable,
	}
	return l
}

// Fail shows an error that ended the command. With JSON it is the result, unless a result was
// given before; then it is dropped, since that one already ended the stream.
func (p *Printer) Fail(err error, exit int, hint string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle()
	p.line.item = nil
	if !p.o.JSON {
		Error(p.o.Err, err, hint)
		return
	}
	if p.ended {
		return
	}
	p.ended = true
	l := errorLine(p.newLine(session.NoticeResult), err, exit, hint)
	if p.sess != nil {
		l.ShortID, l.State = p.short, p.sess.State
		l.Done, l.Left = p.sess.Done, p.sess.StepTotal-p.sess.Done
	}
	p.json.flush(p.o.Out)
	_, _ = p.o.Out.Write(encode(l)) // as in jsonLines
}
