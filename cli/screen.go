package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/process"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

// screen is the app.Door of a terminal or a script: it shows a session while it is
// executed.
type screen struct {
	*Invocation
	app.NoPerson
	color string
	// fresh is set for run; resume leaves it unset.
	fresh bool
	typed *typing
	// follows is set when another process executes the session.
	follows bool
	// printer is nil until the session is known.
	printer *terminal.Printer
	// out is nil until the session is known.
	out *outlets
	// stop ends the handling of signals.
	stop func()
	// again is closed at the second signal.
	again <-chan struct{}
	// cooked sets the terminal back to its mode before Left.
	cooked func()
}

func (i *Invocation) screen(s *app.Site, fresh bool) *screen {
	return &screen{Invocation: i, color: s.Settings.Config.Terminal.Color, fresh: fresh, typed: &typing{in: i.in}, cooked: func() {}}
}

// door returns the screen, with a person when someone is at the terminal.
func (s *screen) door() app.Door {
	if s.interactive() {
		return person{s}
	}
	return s
}

// Begin implements app.Door.
func (s *screen) Begin(ctx context.Context, delivery app.Delivery) (context.Context, <-chan struct{}) {
	work, again, stop := s.signals(ctx)
	s.printer, s.stop, s.again = s.newPrinter(work.Done(), delivery), stop, again
	return work, again
}

// newPrinter returns the printer for a session. After done is closed the printer waits no
// longer for readers.
func (s *screen) newPrinter(done <-chan struct{}, delivery app.Delivery) *terminal.Printer {
	o := terminal.Detect(s.Out.file, s.getenv)
	o.Page = s.Page()
	s.out = &outlets{done: done, lines: s.JSON}
	o.Out, o.Err, o.Behind = outlet{s.out, s.Out}, outlet{s.out, s.Err}, s.out.behind
	o.Quiet, o.Verbose, o.Fresh, o.Follows, o.Exit, o.Sync = s.quiet, s.verbose, s.fresh, s.follows, exitOfResult, delivery
	o.Color = (o.Color || s.color == "always") && s.color != "never" && !s.noColor
	return terminal.New(o)
}

// Notice implements app.Door.
func (s *screen) Notice(n session.Notice) {
	if n.Kind == session.NoticeFailed && n.Hint.Do == session.MoveLogs && s.verbose > 0 && !s.JSON {
		// The lines were already shown.
		n.Detail = nil
	}
	switch {
	case n.Result != nil:
		s.cooked()
		r := *n.Result
		r.Next, n.Result = session.Words(s.Spell(r.Next)), &r
	case n.Hint.IsZero():
	case n.Kind != session.NoticeWarning:
		n.Detail = append(slices.Clone(n.Detail), s.Spell(n.Hint))
	case n.Text != "":
		n.Text += "; " + s.Spell(n.Hint)
	default:
		n.Text = s.Spell(n.Hint)
	}
	s.printer.Notice(n)
	switch n.Kind {
	case session.NoticeCompleted, session.NoticeFailed, session.NoticeUncertain:
		s.out.catchUp(lastWrite)
	}
}

// Watches implements app.Door.
func (s *screen) Watches() bool {
	return !s.quiet && (s.JSON || s.verbose > 0 || terminal.Detect(s.Out.file, s.getenv).Live)
}

// Waits implements app.Door.
func (s *screen) Waits(limit time.Duration, why error) {
	if !s.JSON && !s.quiet {
		fmt.Fprintf(s.Err, "Waiting for at most %s: %s\n", limit, terminal.Clean(why.Error()))
	}
}

// finish reports an error that kept the session from a result, and returns the error that
// ends the program.
func (s *screen) finish(ctx context.Context, out app.Outcome, err error) error {
	told := out.Result.Session != ""
	switch {
	case errors.Is(err, app.ErrDeclined):
		return quietExit(0)
	case s.printer != nil:
		s.cooked()
		defer s.stop()
	// The error is reported together with its session.
	case s.JSON && out.Session != nil && err != nil:
		s.printer = s.newPrinter(ctx.Done(), app.Delivery{})
		s.printer.Notice(session.Notice{Kind: session.NoticeSession, Session: out.Session, Text: out.Session.Task})
	default:
		return err
	}
	defer s.close()
	status := exitOfResult(out.Result)
	if !told {
		var hint string
		status, hint = s.verdict(err)
		s.printer.Fail(err, status, hint)
	}
	if status != 0 {
		return quietExit(status)
	}
	return err
}

// close ends the output. It returns when everything is written, or when a reader no
// longer takes it.
func (s *screen) close() {
	s.printer.Close()
	s.flush()
}

// flush waits until all output is written, before something else writes to the terminal.
func (s *screen) flush() {
	if s.out != nil {
		s.out.flush()
	}
}

// Confirm implements app.Person.
func (s *screen) Confirm(_ context.Context, found []app.Row, at func() (app.Position, error)) (int, error) {
	asks := !s.yes && s.interactive()
	if s.JSON || s.quiet && !asks {
		return 0, nil
	}
	position, err := at()
	if err != nil {
		return 0, err
	}
	err = s.Page().Found(found, []app.Position{position}, session.Do(session.MoveListHere, ""))
	if !asks {
		return 0, nil // finish reports lost output
	}
	if err != nil {
		return 0, err
	}
	if len(found) > 1 {
		number, err := unlessEnded(terminal.Pick(s.in, s.Err, "Resume which one?", min(len(found), terminal.FewRows)))
		return number - 1, err
	}
	yes, err := unlessEnded(terminal.Ask(s.in, s.Err, "Resume this session?", true))
	if !yes {
		return -1, err
	}
	return 0, err
}

// Secret implements app.Person.
func (s *screen) Secret(ctx context.Context, name, about string) (string, error) {
	s.flush()
	return s.Invocation.Secret(ctx, name, about)
}

// Cancel implements app.Person.
func (s *screen) Cancel(_ context.Context, request string) (bool, error) {
	if s.yes || !s.interactive() {
		return true, nil
	}
	s.flush()
	return unlessEnded(terminal.Ask(s.in, s.Err, request+". Cancel it now?", true))
}

// person is a screen with someone at the terminal who answers its questions.
type person struct{ *screen }

// choose returns the letter of the chosen option. Without an answer it returns none as
// the error.
func (p person) choose(ctx context.Context, none session.Code, options ...string) (string, error) {
	return asked(ctx, p.typed, none, func(in io.Reader) (string, error) { return p.printer.Choose(in, options) })
}

// Approve implements app.Person.
func (p person) Approve(ctx context.Context, _ session.Item, question string) (app.Answer, error) {
	yes, err := asked(ctx, p.typed, session.ErrApproval, func(in io.Reader) (bool, error) { return p.printer.Approve(in, question) })
	if err != nil {
		return app.Answer{}, err
	}
	return app.Answer{Granted: yes, By: whoAmI()}, nil
}

// permitted is the answer to a question about a call.
type permitted struct{ letter, words string }

// Permit implements app.Person.
func (p person) Permit(ctx context.Context, item session.Item, _, offer string) (app.Answer, error) {
	got, err := asked(ctx, p.typed, session.ErrApproval, func(in io.Reader) (permitted, error) {
		letter, words, err := p.printer.Permit(in, item.Kind == session.KindPrompt, offer)
		return permitted{letter, words}, err
	})
	if err != nil {
		return app.Answer{}, err
	}
	a := app.Answer{Granted: got.letter != "n", By: whoAmI(), Reason: got.words}
	switch got.letter {
	case "s":
		a.Scope = session.ScopeSession
	case "a":
		a.Scope = session.ScopeAlways
	}
	return a, nil
}

// Linger implements app.Person. The printer has already listed the processes that still
// run.
func (p person) Linger(ctx context.Context, _ session.Item, _ []string) (bool, error) {
	chosen, err := p.choose(ctx, session.ErrUncertain, "[W]ait until it ends", "[D]ecide now")
	return chosen == "w", err
}

// secondChance is how long a person has to press Ctrl-C again.
const secondChance = 3 * time.Second

// Left implements app.Person. Any other key also ends the wait, and so does a closed
// terminal. The terminal is raw meanwhile, because it then gives each key at once, Ctrl-C
// too. It returns nil in the background, where acode must not change the terminal.
func (p person) Left(ctx context.Context) <-chan struct{} {
	if !process.Foreground(p.in) {
		return nil
	}
	p.printer.Pauses()
	p.printer.Tell([]string{fmt.Sprintf("Ctrl-C within %d seconds ends the running commands; any other key leaves them running.", secondChance/time.Second)})
	p.flush()
	fd := int(p.in.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil
	}
	p.out.setRaw(true)
	ctx, cancel := context.WithTimeout(ctx, secondChance)
	over := make(chan struct{})
	go func() {
		defer close(over)
		key, err := p.typed.read(ctx)
		p.out.setRaw(false)
		_ = term.Restore(fd, before) // fails only for a terminal that is gone
		if err == nil && key == 3 {
			// As the key does on a terminal that is not raw.
			_ = syscall.Kill(os.Getpid(), syscall.SIGINT)
			<-p.again
		}
	}()
	p.cooked = func() {
		cancel()
		<-over
	}
	return over
}

// Uncertain implements app.Person.
func (p person) Uncertain(ctx context.Context, item session.Item, command []string, why string) (session.OnInterrupt, error) {
	p.printer.Notice(session.Notice{Kind: session.NoticeWarning, Item: &item, Text: "Nobody can know whether " + item.ID.String() + " (" + item.Label + ") happened: " + why, Detail: command})
	chosen, err := p.choose(ctx, session.ErrUncertain, "[R]erun it as a new attempt", "[D]one: it did happen", "[F]ail: it went wrong", "[L]ater: leave the session paused")
	switch chosen {
	case "r":
		return session.InterruptReruns, nil
	case "d":
		return session.InterruptDone, nil
	case "f":
		return session.InterruptFails, nil
	case "l":
		return "", session.ErrUncertain
	}
	return "", err
}

// Changed implements app.Person.
func (p person) Changed(ctx context.Context, from app.Origin, changed []session.ChangedFile, view func(session.ChangedFile) []string) (bool, error) {
	p.printer.TellChanged(changed)
	for {
		chosen, err := p.choose(ctx, session.ErrEnvironment, "[C]ontinue anyway", "[A]bort", "[N]ew run of the plan: abort, and say how", "[V]iew changes")
		switch {
		case err != nil || chosen == "c" || chosen == "a":
			return chosen == "c", err
		case chosen == "n":
			p.printer.Tell([]string{p.Spell(from.Again("For a new run of the plan"))})
			return false, nil
		}
		for _, c := range changed {
			p.printer.Tell(view(c))
		}
	}
}

// OtherModel implements app.Person.
func (p person) OtherModel(ctx context.Context, text string) (bool, error) {
	chosen, err := asked(ctx, p.typed, session.ErrEnvironment, func(in io.Reader) (string, error) {
		p.printer.Tell([]string{text})
		return p.printer.Choose(in, []string{"[C]ontinue with this model", "[A]bort"})
	})
	return chosen == "c", err
}

// Trust implements app.Person.
func (p person) Trust(ctx context.Context, t app.Trust) (app.Answer, error) {
	p.printer.Tell([]string{"", t.Names() + " of this workspace would tell the model how to work here. No one trusts it as it is."})
	for {
		chosen, err := p.choose(ctx, session.ErrApproval, "[Y]es, trust it", "[N]o: the model does not get it", "[S]how it")
		if err != nil || chosen != "s" {
			return app.Answer{Granted: chosen == "y", By: whoAmI()}, err
		}
		for _, f := range t.Files {
			p.printer.Tell(append([]string{"", f.Path + ":"}, strings.Split(strings.TrimSuffix(f.Text, "\n"), "\n")...))
		}
	}
}

// InProgress implements app.Person.
func (p person) InProgress(ctx context.Context, id session.StepID, _ []session.FileState) (app.Strategy, error) {
	p.printer.Tell([]string{"", "Step " + id.String() + " was in progress and its files hold something else; that content is kept."})
	chosen, err := p.choose(ctx, session.ErrEnvironment, "[B]ack: put the old content back, then do the step again", "[O]n top: do the step again on what is there")
	switch {
	case err != nil:
		return "", err
	case chosen == "o":
		return app.Retry, nil
	}
	return app.RollBack, nil
}
