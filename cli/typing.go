package cli

import (
	"context"
	"errors"
	"io"
	"os/user"

	"github.com/acode-dev/acode/session"
)

// typing reads the keys of a person for one question after the other. A read from a
// terminal cannot be interrupted. When a question is given up, the next question
// continues its read.
type typing struct {
	in io.Reader
	// got receives the result of the current read; nil when there is none.
	got chan stroke
}

// stroke is one typed byte, or the end of input.
type stroke struct {
	b   byte
	err error
}

// read waits for the next byte until ctx ends.
func (t *typing) read(ctx context.Context) (byte, error) {
	if t.got == nil {
		got := make(chan stroke, 1)
		go func() {
			var b [1]byte
			_, err := io.ReadFull(t.in, b[:])
			got <- stroke{b[0], err}
		}()
		t.got = got
	}
	select {
	case s := <-t.got:
		t.got = nil
		return s.b, s.err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// forget drops a line that was typed for an earlier question, so that it answers no
// other.
func (t *typing) forget(ctx context.Context) {
	if len(t.got) == 0 {
		return
	}
	for b, err := t.read(ctx); err == nil && b != '\n'; {
		b, err = t.read(ctx)
	}
}

// reply reads the answer to one question.
type reply struct {
	ctx context.Context
	t   *typing
}

// Read implements io.Reader. It reads one byte at a time.
func (r reply) Read(p []byte) (int, error) {
	b, err := r.t.read(r.ctx)
	if err != nil {
		return 0, err
	}
	p[0] = b
	return 1, nil
}

// asked puts a question that ctx may end. It returns none as the error at the end of
// input and for answers that the question does not accept.
func asked[T any](ctx context.Context, t *typing, none session.Code, question func(io.Reader) (T, error)) (answer T, err error) {
	t.forget(ctx)
	answer, err = question(reply{ctx, t})
	switch {
	case err == nil:
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, session.ErrUsage):
		err = none
	}
	return answer, err
}

// unlessEnded takes the end of input, which is Ctrl-D on a terminal, for no: it returns
// the zero value.
func unlessEnded[T any](answer T, err error) (T, error) {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		var no T
		return no, nil
	}
	return answer, err
}

func whoAmI() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "person"
}
