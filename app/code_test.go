package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/acode-dev/acode/session"
)

// A limit of the machine is neither a bug in acode nor a defect of the file that could
// not be opened.
func TestShortage(t *testing.T) {
	for limit, codes := range map[syscall.Errno][]session.Code{
		syscall.EMFILE: {session.ErrInternal, session.ErrPlan, session.ErrFileStep}, syscall.EAGAIN: {session.ErrInternal},
	} {
		for _, code := range codes {
			err := fmt.Errorf("wrapped: %w", &session.Error{Code: code, Message: "m", Next: session.Words("fix it"), Cause: &fs.PathError{Op: "open", Path: "f", Err: limit}})
			var got *session.Error
			if !errors.As(Shortage(err), &got) || got.Code != session.ErrInternal || !got.Retryable || got.Error() != err.Error() || !strings.Contains(got.Next.String(), "ulimit") {
				t.Errorf("Shortage(%v, %s): got %+v", limit, code, got)
			}
		}
	}
	for _, err := range []error{nil, &session.Error{Code: session.ErrLocked, Message: "m", Cause: syscall.EAGAIN}, errors.New("anything")} {
		if got := Shortage(err); got != err {
			t.Errorf("Shortage(%v): got %v", err, got)
		}
	}
}

// An error with a code but no hint would be reported as a bug in acode.
func TestCodes(t *testing.T) {
	for code, h := range hints() {
		if h.IsZero() {
			t.Errorf("%s: without a hint", code)
		}
	}
	for err, want := range map[error]session.Code{
		context.DeadlineExceeded: session.ErrTimeout, session.ErrLocked: session.ErrLocked, errors.New("other"): session.ErrInternal,
	} {
		if got := Hint(err); got != hints()[want] {
			t.Errorf("Hint(%v): got %v, want that of %s", err, got, want)
		}
	}
}
