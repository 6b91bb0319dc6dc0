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
	// newsEvery is how soon a commit of the session is seen.
	newsEvery = 200 * time.Millisecond

	// afterwards is for how long it goes on when the session's process has ended.
	afterwards = 10 * time.Second
)

// drainCommand is what a run or resume starts: it delivers while standard input stays
// open, and for a moment longer. Another drainer is left alone, and taken over from when
// it ends.
func (p *program) drainCommand() *cobra.Command {
	return &cobra.Command{Use: "drain", Hidden: true, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		// whoever reads the news may be gone
		signal.Ignore(syscall.SIGPIPE)
		running, end := context.WithCancel(cmd.Context())
		defer end()
		go func() {
			// its end is all that counts
			_, _ = io.Copy(io.Discard, os.Stdin)
			end()
		}()
		return p.drain(cmd.Context(), running)
	}}
}

// drain delivers until running ends, which the session does, then what is left, for a
// moment.
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
			// another process delivered all the time
			return nil
		}
		return err
	}
	defer func() { _ = release() }()
	var others sync.WaitGroup
	others.Go(func() { l.listen(running) })
	// it ends with its context
	_ = l.syncer.Run(running)
	others.Wait()
	last, cancel := context.WithTimeout(ctx, afterwards)
	defer cancel()
	if err := l.syncer.Drain(last); err != nil {
		return err
	}
	return l.syncer.Settle(last)
}

// lead waits until this process, which is called command, may drain.
func (l *link) lead(ctx context.Context, command string) (release func() error, err error) {
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

// listen wakes the syncer when somebody committed, and ends its wait when somebody asked.
func (l *link) listen(ctx context.Context) {
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

// teller writes how delivery stands for the process that executes.
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
	// nobody may be reading
	_, _ = t.out.Write(append(b, '\n'))
}
