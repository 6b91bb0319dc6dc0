package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/lock"
	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

func (a *app) statusCommand() *cobra.Command {
	var check bool
	var watch time.Duration
	cmd := &cobra.Command{
		Use: "status [ID]", Short: "Say where a session stands; changes nothing", Args: Following("watch", cobra.MaximumNArgs(1)), ValidArgsFunction: a.completeSession(anySession),
		Long: "Say where a session stands. Without ID, the one that is executed in this workspace, else\nthe most recent one here. Takes no lock, writes nothing, needs no network.",
	}
	run := a.reading(func(ctx context.Context, b *base, s *local.Store, args []string) error {
		switch ref := strings.Join(args, ""); {
		case check:
			return b.check(ctx, s, ref)
		case watch > 0:
			return b.watch(ctx, s, ref, watch)
		default:
			return b.status(ctx, s, ref, b.io.out)
		}
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		if check && len(args) == 0 && errors.Is(err, session.ErrUnknownID) { // there is no store yet, so nothing is pending
			err = a.checkNothing()
		}
		var said quietExit
		if check && err != nil && !errors.As(err, &said) { // a store that cannot be read is as unhealthy as can be
			_, hint := a.verdict(err)
			a.fail(err, unhealthy, hint)
			return quietExit(unhealthy)
		}
		return err
	}
	cmd.Flags().BoolVar(&check, "check", false, "exit 0 when delivery is healthy, 1 when it is late, 2 when it needs a person")
	cmd.Flags().DurationVar(&watch, "watch", 0, "say it again each time this long has passed")
	cmd.Flags().Lookup("watch").NoOptDefVal = "2s"
	cmd.MarkFlagsMutuallyExclusive("check", "watch")
	return cmd
}

func (b *base) status(ctx context.Context, s *local.Store, ref string, out io.Writer) error {
	id, err := b.subject(ctx, s, ref)
	if err != nil {
		return err
	}
	v, err := b.statusView(ctx, s, id)
	if err != nil {
		return err
	}
	if b.json {
		return terminal.StatusJSON(out, v)
	}
	return terminal.Status(out, v)
}

// check answers a monitoring system with its exit status: for the session that ref names, or
// for all when it is empty.
func (b *base) check(ctx context.Context, s *local.Store, ref string) error {
	var id session.ID
	var err error
	if ref != "" {
		if id, err = find(ctx, s, ref, false); err != nil {
			return err
		}
	}
	v, err := b.syncView(ctx, s, id)
	if err != nil {
		return err
	}
	return b.answerCheck(v)
}

// checkNothing is check before the first session.
func (a *app) checkNothing() error {
	b, err := a.boot(nil)
	if err != nil {
		return err
	}
	v := terminal.SyncView{Now: b.now()}
	if b.cfg.Config.Sync.URL != "" {
		v.State = session.WorstSync(session.Heartbeat{}, 0)
	}
	return b.answerCheck(v)
}

func (b *base) answerCheck(v terminal.SyncView) error {
	if b.json {
		_ = terminal.SyncStatusJSON(b.io.out, v) // what is lost is told at the end; the health stays what it is
	} else if !b.quiet {
		_ = terminal.SyncStatus(b.io.out, v) // as above
	}
	return quietExit(b.health(v))
}

// watch says where the session stands until it is interrupted.
func (b *base) watch(ctx context.Context, s *local.Store, ref string, every time.Duration) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	out := &outlet{to: b.io.out, done: ctx.Done()}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if err := b.status(ctx, s, ref, out); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if !b.json {
			fmt.Fprintln(out)
		}
	}
}

// reading wraps a command that only looks.
func (a *app) reading(f func(context.Context, *base, *local.Store, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		b, err := a.boot(nil)
		if err != nil {
			return err
		}
		s, err := b.openRead(cmd.Context())
		if err != nil {
			return err
		}
		defer s.Close()
		return f(cmd.Context(), b, s, args)
	}
}

// readingSession is reading, of the session that the arguments name.
func (a *app) readingSession(f func(context.Context, *base, *local.Store, session.ID) error) func(*cobra.Command, []string) error {
	return a.reading(func(ctx context.Context, b *base, s *local.Store, args []string) error {
		id, err := b.subject(ctx, s, strings.Join(args, ""))
		if err != nil {
			return err
		}
		return f(ctx, b, s, id)
	})
}

// subject is the session that a command without an id means.
func (b *base) subject(ctx context.Context, s *local.Store, ref string) (session.ID, error) {
	if ref != "" {
		return find(ctx, s, ref, false)
	}
	rows, err := b.rows(ctx, s, b.workspace)
	if err != nil {
		return "", err
	}
	if len(rows) == 0 {
		return "", &session.Error{Code: session.ErrUnknownID, Message: "there is no session in this workspace", Next: "acode session list --all"}
	}
	for _, r := range rows {
		if r.Running {
			return r.ID, nil
		}
	}
	return rows[0].ID, nil
}

// rows lists the sessions of one workspace, "" means all, with who executes them.
func (b *base) rows(ctx context.Context, s *local.Store, where string) ([]terminal.Row, error) {
	sums, err := s.Summaries(ctx, where)
	if err != nil {
		return nil, err
	}
	rows := make([]terminal.Row, len(sums))
	for i, sum := range sums {
		rows[i] = b.row(sum)
	}
	return rows, b.settle(ctx, s, where, rows)
}

// settle looks again at the rows of sessions that seem interrupted: one whose process ended between the look
// at the store and that at its lock has its end in the store now.
func (b *base) settle(ctx context.Context, s *local.Store, where string, rows []terminal.Row) error {
	if !slices.ContainsFunc(rows, func(r terminal.Row) bool { return r.Interrupted }) {
		return nil
	}
	now, err := s.Summaries(ctx, where)
	if err != nil {
		return err
	}
	later := make(map[session.ID]session.Summary, len(now))
	for _, sum := range now {
		later[sum.ID] = sum
	}
	for i, r := range rows {
		if sum, ok := later[r.ID]; ok && r.Interrupted && sum.LastSeq != r.LastSeq {
			rows[i] = b.row(sum)
		}
	}
	return nil
}

func (b *base) row(sum session.Summary) terminal.Row {
	r := terminal.Row{Summary: sum}
	if sum.State.Terminal() {
		return r
	}
	_, r.Running, _ = lock.Read(b.lockFile(sum.ID)) // an unreadable lock file is nobody's; resume says more
	r.Interrupted = !r.Running && underWay(sum.State)
	return r
}

// underWay reports whether a session in state s is executed, or was interrupted without a word.
func underWay(s session.State) bool { return s == session.Executing || s == session.Planning }

func (b *base) statusView(ctx context.Context, s *local.Store, id session.ID) (terminal.StatusView, error) {
	sess, p, next, err := b.outlook(ctx, s, id)
	if err != nil {
		return terminal.StatusView{}, err
	}
	v := terminal.StatusView{Row: b.row(summary(sess)), Detail: sess.Detail, At: stands(sess, p, next)}
	if v.Running {
		if h, held, err := lock.Read(b.lockFile(id)); err == nil && held { // it may have ended since
			v.Holder, v.Notes = holder(h), holderNotes(h)
		}
	}
	if v.Sync, err = b.syncView(ctx, s, id); err != nil {
		return v, err
	}
	v.Notes = slices.Concat(v.Notes, b.commandNotes(id), b.approvalNotes(sess, p))
	if sess.State.Terminal() {
		return v, nil
	}
	if !v.Running {
		interrupted, err := b.interruptedNotes(ctx, sess, p)
		if err != nil {
			return v, err
		}
		v.Notes = append(v.Notes, interrupted...)
	}
	asked, err := s.Requests(ctx, id)
	v.Notes = append(v.Notes, requestNotes(asked, v.Running)...)
	switch {
	case b.notForked(ctx, s, id) != nil: // a resume is refused; the state of delivery says what there is to do
	case !v.Running:
		v.Next = b.spelled(nextCommand(sess, p, next))
	case sess.State == session.AwaitingApproval && asksFirst(sess, next) && len(asked) == 0:
		v.Next = b.spelled("acode approve " + sess.Short) // takes the place of the answer at its terminal
	}
	return v, err
}

// requestNotes tells of what was asked of the process that executes a session, or did.
func requestNotes(asked []session.Request, running bool) []string {
	var notes []string
	for _, r := range asked {
		note := requestNote(r)
		switch {
		case running:
		case r.Kind == session.RequestCancel:
			note += "; the next resume cancels the session"
		default:
			note += "; the next resume takes that answer"
		}
		notes = append(notes, note)
	}
	return notes
}

func requestNote(r session.Request) string {
	note := r.By + " asked to " + string(r.Kind)
	if r.Kind != session.RequestCancel {
		note += " " + r.Step.String()
	}
	if r.Reason != "" {
		note += " (" + r.Reason + ")"
	}
	return note + ", and nobody has answered"
}

func holder(h lock.Holder) *terminal.Holder {
	return &terminal.Holder{PID: h.PID, Elsewhere: h.Elsewhere(), Host: h.Host, Since: h.Since, Command: h.Command}
}

// holderNotes tells of a holder that is alive, keeps everybody else waiting and does nothing.
func holderNotes(h lock.Holder) []string {
	if !h.Stopped() {
		return nil
	}
	return []string{fmt.Sprintf("the process that executes it is stopped, as by Ctrl-Z; fg in its terminal, or kill -CONT %d, lets it go on", h.PID)}
}

// commandNotes tells of commands that run without acode, and of records that cannot be read.
func (b *base) commandNotes(id session.ID) []string {
	records, unread := command.Records(b.commandDir(id))
	var notes []string
	for _, err := range unread {
		notes = append(notes, err.Error())
	}
	for _, r := range records {
		what := r.Key
		if k, err := session.ParseKey(r.Key); err == nil {
			what = k.Step.String()
		}
		halt := ""
		if r.Stopped != "" {
			halt = "; " + r.Stopped
		}
		switch r.State {
		case session.CommandRunning:
			notes = append(notes, fmt.Sprintf("a command is running: %s (%s)%s", what, pidOf(r), halt))
		case session.CommandUnattended:
			notes = append(notes, fmt.Sprintf("a command is running without its supervisor: %s (%s)%s", what, pidOf(r), halt))
		case session.CommandLingering:
			notes = append(notes, "a command is over, and what it started still runs: "+what)
		}
	}
	return notes
}

func pidOf(r session.CommandRecord) string {
	if r.PID == 0 {
		return "its pid is not known here"
	}
	return fmt.Sprintf("pid %d", r.PID)
}

// approvalNotes tells what is asked and how that was answered, until the next resume has made use of it.
func (b *base) approvalNotes(s *session.Session, p *session.Plan) []string {
	var notes []string
	if s.State.Terminal() {
		return nil
	}
	for _, t := range p.Tasks {
		for _, step := range t.Steps {
			id := session.StepID{Task: t.ID, Step: step.ID}
			st := s.Steps[id]
			if st == nil || st.Approval == nil || st.Status == session.StepDone {
				continue
			}
			switch a := st.Approval; {
			case a.Answer == "":
				notes = append(notes, fmt.Sprintf("%s asks: %s", id, b.redactor.String(step.Approve)))
			case a.Answer == "denied":
				notes = append(notes, fmt.Sprintf("%s was denied by %s; the next resume asks anew", id, a.By))
			case a.For == s.Epoch+1:
				notes = append(notes, fmt.Sprintf("%s was approved by %s; the next resume uses that once", id, a.By))
			}
		}
	}
	return notes
}

// nextCommand is what continues s, of which c is left.
func nextCommand(s *session.Session, p *session.Plan, c session.Continuation) string {
	next := "acode resume " + s.Short
	switch {
	case s.State == session.AwaitingApproval && asksFirst(s, c):
		return "acode approve " + s.Short + " && " + next
	case s.Reason == session.ReasonUncertain:
		if it, ok := c.First(); ok && it.Kind == session.KindRun && p.Tasks[it.Task-1].Steps[it.Step-1].Run.Capture != "" {
			return next + " --uncertain=<rerun|fail> or --capture " + it.ID.String() + "=VALUE"
		}
		return next + " --uncertain=<rerun|done|fail>"
	}
	return next
}

// asksFirst reports whether the first question that a resume of s meets has no answer yet; one behind it
// may be open as well.
func asksFirst(s *session.Session, c session.Continuation) bool {
	for _, it := range c.Items {
		if st := s.Steps[it.ID]; it.Action != session.ActionSkip && st != nil && st.Approval != nil {
			return st.Approval.Answer == ""
		}
	}
	return false
}

// asksStill reports whether a question of s has no answer yet.
func asksStill(s *session.Session) bool {
	for _, st := range s.Steps {
		if st.Approval != nil && st.Approval.Answer == "" && st.Status != session.StepDone {
			return true
		}
	}
	return false
}

func summary(s *session.Session) session.Summary {
	return session.Summary{
		ID: s.ID, Short: s.Short, State: s.State, Reason: s.Reason, Task: s.Task, Workspace: s.Workspace, Tasks: s.Tasks,
		Steps: s.StepTotal, Done: s.Done, Epoch: s.Epoch, LastSeq: s.LastSeq, CreatedUS: s.CreatedUS, UpdatedUS: s.LastUS,
	}
}

// position is where the session stands in its plan.
func (b *base) position(ctx context.Context, s *local.Store, id session.ID) (terminal.Position, error) {
	sess, p, next, err := b.outlook(ctx, s, id)
	if err != nil {
		return terminal.Position{}, err
	}
	return stands(sess, p, next), nil
}

// stands gives the place in p at which s stands.
func stands(s *session.Session, p *session.Plan, next session.Continuation) terminal.Position {
	it, ok := next.Stands(s)
	if !ok {
		return terminal.Position{}
	}
	return terminal.Position{Task: it.Task, Tasks: len(p.Tasks), Step: it.Step, Steps: len(p.Tasks[it.Task-1].Steps)}
}

// outlook plans what is left without looking at files or commands.
func (b *base) outlook(ctx context.Context, s *local.Store, id session.ID) (*session.Session, *session.Plan, session.Continuation, error) {
	sess, err := s.View(ctx, id)
	if err != nil {
		return nil, nil, session.Continuation{}, err
	}
	p, err := s.Plan(ctx, sess)
	if err != nil {
		return nil, nil, session.Continuation{}, err
	}
	b.learn(p)
	next, err := resume.Plan(p, sess, nil, resume.Choices{Redact: b.redactor.String})
	return sess, p, next, err
}
