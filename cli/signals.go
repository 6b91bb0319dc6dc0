package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/acode-dev/acode/app"
)

// twice is the time in which the same signal is one: timeout(1) sends it to its command,
// and at once to the group that its command is in, which takes a moment on a busy
// machine. Nobody presses a key so fast.
const twice = 100 * time.Millisecond

// signals ends the context at the first signal and closes again when somebody asks a
// second time. A hangup never counts as asking: a terminal that is closed sends several,
// and they may come beside a TERM. Whoever has them ignored, with nohup for one, gets
// none. After stop all is said, and what comes then changes nothing: the exit status is
// the one of the result.
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
				cancel(app.Interrupted{Signal: int(s.(syscall.Signal))}) // the first counts
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
