package cli

import (
	"context"
	"os"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/session"
)

// Session takes the lock of a session, so that nobody executes it. ErrLocked says who does.
func (s *Site) Session(id session.ID, doing string) (release func() error, err error) {
	l, err := s.b.hold(id, doing)
	if err != nil {
		return nil, err
	}
	return l.Release, nil
}

// Fence keeps what was asked for in the name of s, which nobody executes, from starting.
func (s *Site) Fence(ctx context.Context, of *session.Session) error { return s.b.fence(ctx, of) }

// Command reads what became of a command of a session. It changes nothing.
func (s *Site) Command(ctx context.Context, id session.ID, key string) (session.CommandRecord, error) {
	return s.runner(id).Look(ctx, key)
}

// Adopt makes the result of a finished command of a session that of the same step of the one
// that goes on with it, to.
func (s *Site) Adopt(ctx context.Context, from, to session.ID, k session.Key, run *session.Run) error {
	key := k.String()
	k.Session = to
	return s.runner(to).Adopt(ctx, s.b.commandDir(from), key, session.CommandRequest{Key: k.String(), Argv: run.Command(), Dir: run.Dir})
}

// Forget removes the raw outputs of a session that is over.
func (s *Site) Forget(id session.ID) error { return command.ForgetAll(s.b.commandDir(id)) }

// Disown removes what Adopt kept for a session that was not made.
func (s *Site) Disown(id session.ID) error { return os.RemoveAll(s.b.commandDir(id)) }

// runner starts nothing: it only looks at records.
func (s *Site) runner(id session.ID) *command.Runner {
	return command.NewRunner(command.Config{Dir: s.b.commandDir(id), Session: id, Now: s.Now})
}

// wentOn refuses a session that goes on as another one, and says as which.
func wentOn(ctx context.Context, s *local.Store, lane session.Lane) error {
	as, _, err := s.ForkOf(ctx, lane.Session)
	if err != nil {
		return err
	}
	return &session.Error{Code: session.ErrForked, Message: lane.Reason + "; nothing more is done under this id", Next: "acode resume " + as.Short}
}
