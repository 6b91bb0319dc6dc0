package cli

import (
	"context"
	"errors"
	"io"
	"os/user"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

// prompter asks the person at the terminal, when there is one.
type prompter struct {
	printer *terminal.Printer
	in      *typing
	asks    bool
	view    func(session.ChangedFile) []string
}

// typing is what a person types, read for one question after the other. A read from a terminal
// cannot be interrupted: the one that a question gave up is what the next question goes on with.
type typing struct {
	in  io.Reader
	got chan stroke // of the read that is under way; nil: none is
}

// stroke is one byte that was typed, or the end of input.
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

// forget drops a line that was typed for a question which is over: it answers no other.
func (t *typing) forget(ctx context.Context) {
	if len(t.got) == 0 {
		return
	}
	for b, err := t.read(ctx); err == nil && b != '\n'; {
		b, err = t.read(ctx)
	}
}

// reply reads what is typed for one question.
type reply struct {
	ctx context.Context
	t   *typing
}

// Read implements io.Reader, a byte at a time.
func (r reply) Read(p []byte) (int, error) {
	b, err := r.t.read(r.ctx)
	if err != nil {
		return 0, err
	}
	p[0] = b
	return 1, nil
}

// asked puts a question that ctx may end.
func asked[T any](ctx context.Context, t *typing, question func(io.Reader) (T, error)) (T, error) {
	t.forget(ctx)
	return question(reply{ctx, t})
}

// Approve implements engine.Person.
func (p *prompter) Approve(ctx context.Context, _ session.Item, question string) (engine.Answer, error) {
	if !p.asks {
		return engine.Answer{}, session.ErrApproval
	}
	yes, err := asked(ctx, p.in, func(in io.Reader) (bool, error) { return p.printer.Approve(in, question) })
	if err != nil {
		return engine.Answer{}, nobody(ctx, err, session.ErrApproval)
	}
	return engine.Answer{Granted: yes, By: whoAmI()}, nil
}

// Linger implements engine.Person. The printer has listed what is left.
func (p *prompter) Linger(ctx context.Context, _ session.Item, _ []string) (bool, error) {
	if !p.asks {
		return false, session.ErrUncertain
	}
	r, err := asked(ctx, p.in, func(in io.Reader) (rune, error) {
		return p.printer.Choose(in, []string{"[W]ait until it ends", "[D]ecide now"}, "Choice: ")
	})
	if err != nil {
		return false, nobody(ctx, err, session.ErrUncertain)
	}
	return r == 'w', nil
}

// Uncertain implements engine.Person.
func (p *prompter) Uncertain(ctx context.Context, item session.Item, why string) (session.OnInterrupt, error) {
	if !p.asks {
		return "", session.ErrUncertain
	}
	p.printer.Notice(session.Notice{Kind: session.NoticeWarning, Item: &item, Text: "Nobody can know whether " + item.ID.String() + " (" + item.Label + ") happened: " + why})
	r, err := asked(ctx, p.in, func(in io.Reader) (rune, error) {
		return p.printer.Choose(in, []string{"[R]erun it as a new attempt", "[D]one: it did happen", "[F]ail: it went wrong", "[L]ater: leave the session paused"}, "Choice: ")
	})
	if err != nil {
		return "", nobody(ctx, err, session.ErrUncertain)
	}
	switch r {
	case 'r':
		return session.InterruptReruns, nil
	case 'd':
		return session.InterruptDone, nil
	case 'f':
		return session.InterruptFails, nil
	}
	return "", session.ErrUncertain
}

// Changed implements resume.Person.
func (p *prompter) Changed(ctx context.Context, changed []session.ChangedFile) (bool, error) {
	if !p.asks {
		return false, session.ErrEnvironment
	}
	p.printer.TellChanged(changed)
	for {
		r, err := asked(ctx, p.in, func(in io.Reader) (rune, error) {
			return p.printer.Choose(in, []string{"[C]ontinue anyway", "[A]bort and start fresh", "[V]iew changes"}, "Choice: ")
		})
		if err != nil {
			return false, nobody(ctx, err, session.ErrEnvironment)
		}
		switch r {
		case 'c':
			return true, nil
		case 'a':
			return false, nil
		}
		for _, c := range changed {
			p.printer.Tell(p.view(c))
		}
	}
}

// InProgress implements resume.Person.
func (p *prompter) InProgress(ctx context.Context, id session.StepID, _ []session.FileState) (resume.Strategy, error) {
	if !p.asks {
		return "", nil
	}
	p.printer.Tell([]string{"", "Step " + id.String() + " was in progress and its files hold something else; that content is kept."})
	r, err := asked(ctx, p.in, func(in io.Reader) (rune, error) {
		return p.printer.Choose(in, []string{"[B]ack: put the old content back, then do the step again", "[O]n top: do the step again on what is there"}, "Choice: ")
	})
	if err != nil {
		return "", nobody(ctx, err, session.ErrEnvironment)
	}
	if r == 'o' {
		return resume.StrategyRetry, nil
	}
	return resume.StrategyRollBack, nil
}

// nobody turns the end of input, and answers that were none, into what they mean: there is nobody to
// ask.
func nobody(ctx context.Context, err error, code session.Code) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, session.ErrUsage) {
		return code
	}
	return err
}

// unlessEnded takes the end of input, which is Ctrl-D on a terminal, for a no.
func unlessEnded(yes bool, err error) (bool, error) {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return false, nil
	}
	return yes, err
}

func whoAmI() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "person"
}
