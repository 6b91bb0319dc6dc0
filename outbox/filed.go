package outbox

import (
	"context"
	"fmt"

	"github.com/acode-dev/acode/session"
)

// Filed is how the fork of a session stands on the server.
type Filed struct {
	// as it is kept now; neither fenced nor forked: the server takes the session again
	Lane session.Lane
	// seq of the last event that the server has too
	Shared uint64
	// seq of the last event of the server's own history
	Theirs uint64
}

// File has the server file all that a fenced or forked lane has beyond what the server
// shares; any other lane is given back as it is. What was filed before is passed over,
// and to file it again changes nothing, so another process may drain meanwhile. A fault
// of the server is that of Drain; where the server does not take all of it, the Code is
// ErrFenced or ErrForked.
func (s *Syncer) File(ctx context.Context, l session.Lane) (Filed, error) {
	if err := s.connect(ctx); err != nil {
		return Filed{}, Envelope(err)
	}
	if l.Remote != "" && l.Remote != s.link.id {
		return Filed{}, Envelope(&otherDatabase{have: s.link.id, want: l.Remote})
	}
	for s.files(l) {
		now, err := s.judge(ctx, s.deliver(ctx, s.order(l, maxBytes/2)))
		if err == nil && over(now) && now.NextUS != 0 { // a drain would go on with other lanes meanwhile
			err = s.lane(l.Session).trouble
		}
		if err != nil {
			return Filed{}, Envelope(err)
		}
		l = now
	}
	f := s.lane(l.Session).filing
	if over(l) && (!f.known || f.after < l.LastSeq) {
		e := &session.Error{Code: session.ErrForked, Place: string(l.Session), Next: session.Do(session.MoveSyncStatus, ""),
			Message: fmt.Sprintf("the server did not file all of what is here, which is kept: %s", l.Reason)}
		if l.State == session.SyncFenced {
			e.Code = session.ErrFenced
		}
		return Filed{}, e
	}
	return Filed{Lane: l, Shared: f.share, Theirs: f.theirs}, nil
}
