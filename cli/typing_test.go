package cli

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

// Keys typed for a question that is over answer no other question, least of all an
// approval.
func TestLateAnswerIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, keyboard := io.Pipe()
		typed := &typing{in: in}
		approve := func(ctx context.Context) (bool, error) {
			return asked(ctx, typed, session.ErrApproval, func(in io.Reader) (bool, error) { return terminal.Approve(in, io.Discard, "Go on?") })
		}
		over := errors.New("answered from elsewhere")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			synctest.Wait()
			cancel(over)
		}()
		if _, err := approve(ctx); !errors.Is(err, over) {
			t.Fatalf("asked: got %v, want %v", err, over)
		}
		go func() { _, _ = io.WriteString(keyboard, "yes\n") }() // the reader reports the failure
		synctest.Wait()
		go func() { _, _ = io.WriteString(keyboard, "no\n") }() // the reader reports the failure
		if yes, err := approve(t.Context()); yes || err != nil {
			t.Errorf("asked: got %t, %v, want the answer that was typed for this question", yes, err)
		}
	})
}
