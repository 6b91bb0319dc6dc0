package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/acode-dev/acode/app"
)

// twice is the time within which the same signal counts once. timeout(1) sends a signal
// to its command and to the process group of that command. On a busy machine the second
// one arrives a moment later. A person cannot press a key that fast.
const twice = 100 * time.Millisecond

// signals returns a context that ends at the first signal, and a channel that is closed
// at the second one.
//
// A hangup never counts as the second signal, because a terminal that closes sends
// several, perhaps beside a TERM. A hangup that the parent process ignores, as nohup
// does, stays ignored. Signals after stop change nothing: the result decides the exit
// status.
func (i *Invocation) signals(parent context.Context) (ctx context.Context, again <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	second := make(chan struct{})
	got := make(chan os.Signal, 4)
	signal.Notify(got, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(got, syscall.SIGHUP)
	}
	done := make(chan struct{})
	go func() {
		var last os.Signal
		var at time.Time
		for asked := 0; ; {
			select {
			case s := <-got:
				// Only the first call has an effect.
				cancel(app.Interrupted{Signal: int(s.(syscall.Signal))})
				if s == syscall.SIGHUP || s == last && i.Now().Sub(at) < twice {
					continue
				}
				last, at = s, i.Now()
				if asked++; asked == 2 {
					close(second)
				}
			case <-done:
				return
			}
		}
	}()
	return ctx, second, func() {
		close(done)
		cancel(nil)
	}
}
