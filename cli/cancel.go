package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
	"github.com/acode-dev/acode/workspace"
)

func (a *app) cancelCommand() *cobra.Command {
	var onlyCommand bool
	var reason string
	cmd := &cobra.Command{
		Use: "cancel [ID]", Short: "Cancel a session, or with --command only its running command", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeSession(openSession),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.writing(cmd.Context(), func(ctx context.Context, b *base, s *local.Store) error {
				id, err := b.subject(ctx, s, strings.Join(args, ""))
				if err != nil {
					return err
				}
				if onlyCommand {
					return b.cancelCommands(ctx, s, id)
				}
				return b.cancel(ctx, s, id, reason)
			})
		},
	}
	cmd.Flags().BoolVar(&onlyCommand, "command", false, "end the running command and leave the session paused")
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	return cmd
}

// cancelCommands ends the session's commands and leaves the session as it is.
func (b *base) cancelCommands(ctx context.Context, s *local.Store, id session.ID) error {
	sess, err := s.View(ctx, id)
	if err != nil {
		return err
	}
	if held, err := b.hold(id, b.commandLine()); err == nil {
		if err := errors.Join(b.fence(ctx, sess), held.Release()); err != nil {
			return err
		}
	} // else whoever executes it goes on, and starts what comes next
	got, err := b.endCommands(ctx, id)
	if err := errors.Join(append(got.unread, err)...); err != nil {
		return err
	}
	if len(got.beyond) > 0 {
		return &session.Error{Code: session.ErrCommand, Message: notEnded(got.beyond), Next: "end it as that user, or wait for it"}
	}
	then := "; the session can be resumed"
	if sess.State.Terminal() {
		then = "; the session is " + string(sess.State)
	}
	return b.tell(decisionJSON{SessionID: id, ShortID: sess.Short, Kind: "cancel_command", Recorded: true, Ended: got.ended}, endedText(got.ended)+then)
}

// fence keeps what a process asked for that no longer executes s from starting: the supervisor, slow or
// stopped, may have the request and no claim yet. What has begun is claimed when it returns. The caller has the
// lock of s, which nobody can have acquired since.
func (b *base) fence(ctx context.Context, s *session.Session) error {
	dir := b.commandDir(s.ID)
	if _, err := os.Stat(dir); err != nil {
		return nil // nobody was asked for a command
	}
	err := command.NewRunner(command.Config{Dir: dir, Epoch: s.Epoch + 1}).Announce(ctx)
	if errors.Is(err, session.ErrFenced) || errors.Is(err, session.ErrCorrupt) { // later ones are kept out too; who reads the records names damage
		return nil
	}
	return err
}

func endedText(n int) string { return terminal.Plural(n, "command") + " ended" }

// notEnded says of commands that their time is over and they are not.
func notEnded(beyond []string) string {
	return "what runs with another user's rights could not be ended: " + strings.Join(beyond, ", ")
}

// endings is what came of ending the commands of a session.
type endings struct {
	ended  int
	beyond []string // runs on, because it may not be signalled
	unread []error  // of these commands nobody can tell
}

// endCommands ends every command of the session that still runs.
func (b *base) endCommands(ctx context.Context, id session.ID) (got endings, err error) {
	records, unread := command.Records(b.commandDir(id))
	got.unread = unread
	asked := map[string]bool{}
	for _, r := range records {
		switch r.State {
		case session.CommandRunning, session.CommandUnattended, session.CommandLingering:
			if err := command.Cancel(ctx, b.commandDir(id), r.Key); err != nil {
				return got, err
			}
			b.log.Info("command ended on request", "event", "command_cancelled", "key", r.Key)
			asked[r.Key] = true
		}
	}
	if len(asked) == 0 {
		return got, nil
	}
	records, _ = command.Records(b.commandDir(id)) // what could not be read is known
	for _, r := range records {
		switch {
		case !asked[r.Key]:
		case !r.Cancelled || len(r.Left) == 0:
			got.ended++
		default:
			for _, l := range r.Left {
				got.beyond = append(got.beyond, b.redactor.String(l))
			}
		}
	}
	return got, nil
}

// passOver makes warnings of records that are only damaged: a session can be given up although nobody
// will know what one of its commands did. What runs, or may run, is still an error.
func passOver(unread []error) (warnings []string, err error) {
	for _, one := range unread {
		var e *session.Error
		if errors.As(one, &e) && e.Code == session.ErrCorrupt && !errors.Is(one, command.ErrHeld) {
			warnings = append(warnings, "damaged, and passed over: "+e.Place)
		} else {
			err = errors.Join(err, one)
		}
	}
	return warnings, err
}

// cancel ends a session for good: itself when nobody executes it, else by asking its holder.
func (b *base) cancel(ctx context.Context, s *local.Store, id session.ID, reason string) error {
	r := session.Request{Session: id, Kind: session.RequestCancel, Reason: reason, By: whoAmI() + " at " + b.now().UTC().Format("2006-01-02 15:04:05Z")}
	err := b.decide(ctx, s, r, b.cancelling(ctx, s, r))
	return errors.Join(err, b.forgetOver(ctx, s, id))
}

// cancelling ends what runs of a session and gives the event that cancels it.
func (b *base) cancelling(ctx context.Context, s *local.Store, r session.Request) decision {
	return func(sess *session.Session) (drafts []session.Draft, also sideEffects, err error) {
		if sess.State.Terminal() {
			return nil, also, &session.Error{Code: session.ErrTerminal, Message: fmt.Sprintf("the session is %s already; nothing was changed", sess.State)}
		}
		if err := b.fence(ctx, sess); err != nil {
			return nil, also, err
		}
		got, err := b.endCommands(ctx, r.Session)
		if err == nil {
			also.warnings, err = passOver(got.unread)
		}
		if err != nil {
			return nil, also, err
		}
		also.ended = got.ended
		if len(got.beyond) > 0 {
			also.warnings = append(also.warnings, notEnded(got.beyond))
		}
		b.sweepAfter(s, sess.State)
		also.warnings = append(also.warnings, b.halfway(ctx, s, sess)...)
		return []session.Draft{{Type: session.StateChanged, Actor: "user", Data: session.StateChangedData{From: sess.State, To: session.Cancelled, Reason: session.ReasonUser, Detail: r.Reason}}}, also, nil
	}
}

// forgetOver removes what a session that is over would have needed to go on: the raw outputs, of
// which no receipt will keep what secrets leave, and the temporary files of a step that a kill cut
// short.
func (b *base) forgetOver(ctx context.Context, s *local.Store, id session.ID) error {
	sess, err := s.View(ctx, id)
	if err != nil || !sess.State.Terminal() {
		return nil // whoever could not be looked at keeps them
	}
	for _, st := range sess.Steps {
		if st.Status != session.InProgress {
			continue
		}
		if err := b.tidyStep(ctx, s, sess, st.StartSeq); err != nil {
			b.log.Warn("temporary files stay", "event", "temporary_left", "session_id", sess.Short, "error", err.Error())
		}
	}
	return command.ForgetAll(b.commandDir(id))
}

// tidyStep removes the temporary files of the attempt that began with event seq from the workspace
// of s, if that is still where it was.
func (b *base) tidyStep(ctx context.Context, s *local.Store, sess *session.Session, seq uint64) error {
	return b.ofStep(ctx, s, sess, seq, func(root *workspace.Root, d session.StepStartedData) error {
		return root.Tidy(ctx, d.Key, d.Files)
	})
}

// ofStep does something with the workspace of sess and what the attempt that began with event seq does
// to files there; nothing where it does nothing to any.
func (b *base) ofStep(ctx context.Context, s *local.Store, sess *session.Session, seq uint64, do func(*workspace.Root, session.StepStartedData) error) error {
	begun, err := s.Events(ctx, sess.ID, seq-1, 1)
	if err != nil || len(begun) == 0 {
		return err
	}
	var d session.StepStartedData
	if err := begun[0].Decode(&d); err != nil || len(d.Files) == 0 {
		return err
	}
	root, err := workspace.Open(sess.Workspace, b.now)
	if err != nil {
		return err
	}
	defer root.Close()
	return do(root, d)
}

// halfway says which files a step has changed that was in progress: nobody puts them back.
func (b *base) halfway(ctx context.Context, s *local.Store, sess *session.Session) (warnings []string) {
	for id, st := range sess.Steps {
		if st.Status != session.InProgress {
			continue
		}
		var changed, not []string
		err := b.ofStep(ctx, s, sess, st.StartSeq, func(root *workspace.Root, d session.StepStartedData) (err error) {
			changed, not, err = root.Reached(ctx, d.Key, d.Files)
			return err
		})
		switch {
		case err != nil:
			warnings = append(warnings, fmt.Sprintf("%s was in progress, and what it changed cannot be seen: %v", id, err))
		case len(changed) > 0 && len(not) > 0:
			warnings = append(warnings, fmt.Sprintf("%s was half done, and stays so: it changed %s, and not %s", id, session.Few(changed, terminal.FewRows), session.Few(not, terminal.FewRows)))
		case len(changed) > 0:
			warnings = append(warnings, fmt.Sprintf("%s was done but not recorded, and stays so: it changed %s", id, session.Few(changed, terminal.FewRows)))
		}
	}
	return warnings
}
