package outbox

import (
	"context"
	"fmt"

	"github.com/acode-dev/acode/session"
)

// Filed is the state of a session's fork on the server.
type Filed struct {
	// Lane is the lane as it is kept now. If it is neither fenced nor forked, the server
	// takes the session again.
	Lane session.Lane
	// Shared is the seq of the last event that the server has too.
	Shared uint64
	// Theirs is the seq of the last event of the server's own history.
	Theirs uint64
}

// File has the server file all events of a fenced or forked lane after the shared ones.
// It returns any other lane as it is. To file events again changes nothing, so another
// process may drain meanwhile. A fault of the server has the Code that Drain returns. If
// the server does not take all events, the Code is ErrFenced or ErrForked.
func (s *Syncer) File(ctx context.Context, l session.Lane) (Filed, error) {
	if err := s.connect(ctx); err != nil {
		return Filed{}, Envelope(err)
	}
	if l.Remote != "" && l.Remote != s.conn.id {
		return Filed{}, Envelope(&otherDatabase{have: s.conn.id, want: l.Remote})
	}
	for s.files(l) {
		now, err := s.judge(ctx, s.deliver(ctx, s.order(l, maxBytes/2)))
		// a drain would continue with other lanes meanwhile
		if err == nil && over(now) && now.NextUS != 0 {
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
			Message: fmt.Sprintf("the server did not file all events of this store, which are kept here: %s", l.Reason)}
		if l.State == session.SyncFenced {
			e.Code = session.ErrFenced
		}
		return Filed{}, e
	}
	return Filed{Lane: l, Shared: f.share, Theirs: f.theirs}, nil
}
