package syncer

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/session"
)

const (
	// newsEvery is how often the process looks for new commits of the session.
	newsEvery = 200 * time.Millisecond

	// afterwards is how long delivery continues after the process of the session ended.
	afterwards = 10 * time.Second
)

// drainCommand is the command that run and resume start in the background. It delivers
// while standard input is open, and a short time longer. While another process delivers
// it waits, and takes over when that process ends.
func (p *program) drainCommand() *cobra.Command {
	return &cobra.Command{Use: "drain", Hidden: true, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		// The process that reads the news may be gone.
		signal.Ignore(syscall.SIGPIPE)
		running, end := context.WithCancel(cmd.Context())
		defer end()
		go func() {
			// Only the end of standard input matters.
			_, _ = io.Copy(io.Discard, os.Stdin)
			end()
		}()
		return p.drain(cmd.Context(), running)
	}}
}

// drain delivers until running ends together with the session. Then it delivers the rest,
// for at most the time of afterwards.
func (p *program) drain(ctx, running context.Context) error {
	news := &teller{out: p.Out}
	l, err := p.open(ctx, "run", outbox.Options{OnState: news.state, OnLane: news.lane})
	if err != nil {
		news.tell(app.DrainNews{State: session.SyncRetrying, Reason: err.Error()})
		return err
	}
	defer l.close()
	news.pending = func() uint64 { return l.syncer.Snapshot().Backlog.Events }
	release, err := l.lead(running, "acode sync drain")
	if err != nil {
		if ctx.Err() == nil && running.Err() != nil {
			// Another process delivered all the time.
			return nil
		}
		return err
	}
	defer func() { _ = release() }()
	var others sync.WaitGroup
	others.Go(func() { l.listen(running) })
	// Run fails only with its context.
	_ = l.syncer.Run(running)
	others.Wait()
	last, cancel := context.WithTimeout(ctx, afterwards)
	defer cancel()
	if err := l.syncer.Drain(last); err != nil {
		return err
	}
	return l.syncer.Settle(last)
}

// lead waits until this process may deliver, and takes the lock as command.
func (l *endpoints) lead(ctx context.Context, command string) (release func() error, err error) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		lock, err := l.LockDrainer(command)
		if err == nil {
			return lock.Release, nil
		}
		if !errors.Is(err, session.ErrLocked) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// listen wakes the syncer after a commit by any process. It ends the wait before the next
// attempt when a process asks for one.
func (l *endpoints) listen(ctx context.Context) {
	asked := l.DrainerAsked()
	tick := time.NewTicker(newsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if news, err := l.outbox.News(ctx); err == nil && news {
				l.syncer.Wake()
			}
			if now := l.DrainerAsked(); now != asked {
				asked = now
				l.syncer.Kick()
			}
		}
	}
}

// teller writes the state of delivery for the process that executes the session.
type teller struct {
	mu      sync.Mutex
	out     io.Writer
	pending func() uint64
}

func (t *teller) state(h session.Heartbeat) {
	var pending uint64
	if t.pending != nil {
		pending = t.pending()
	}
	t.tell(app.DrainNews{State: h.State, Reason: h.Reason, Pending: pending})
}

func (t *teller) lane(l session.Lane) {
	t.tell(app.DrainNews{Session: l.Session, State: l.State, Reason: l.Reason})
}

func (t *teller) tell(n app.DrainNews) {
	b, err := json.Marshal(n)
	if err != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	// There may be no reader any more.
	_, _ = t.out.Write(append(b, '\n'))
}
