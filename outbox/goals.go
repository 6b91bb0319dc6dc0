package outbox

import (
	"fmt"
	"slices"
	"time"

	"github.com/acode-dev/acode/session"
)

// over reports whether the server has another history of the session, or another
// executor.
func over(l session.Lane) bool {
	return l.State == session.SyncFenced || l.State == session.SyncForked
}

// stuck reports whether a lane waits for a person. A parked row below the mark was
// replaced by a stand-in and stops no event.
func stuck(l session.Lane) bool { return over(l) || l.Parked > l.Acked }

// goals are the events that a Drain has to deliver: the last seq of each lane when it
// began.
type goals struct {
	set   bool
	last  map[session.ID]uint64
	stuck []session.Lane
	// err is the trouble of the first lane that fails again and again.
	err error
}

// verdict returns why a drain that has no more to do did not deliver everything. It also
// returns an error if the store has delivered everything but is an older copy.
func (g *goals) verdict(older []session.Lane) error {
	stuck := slices.Concat(g.stuck, older)
	if len(stuck) == 0 {
		return Envelope(g.err)
	}
	l := stuck[0]
	e := &session.Error{Code: session.ErrParked, Place: string(l.Session), Next: session.Do(session.MoveSyncParked, "")}
	e.Message = fmt.Sprintf("some sessions wait for a person and are kept, the rest is delivered (sessions that wait: %d): %s", len(stuck), l.Reason)
	switch l.State {
	case session.SyncFenced:
		e.Code, e.Next = session.ErrFenced, session.Do(session.MoveForkOff, string(l.Session))
	case session.SyncForked:
		e.Code, e.Next = session.ErrForked, session.Do(session.MoveForkOff, string(l.Session))
	}
	return e
}

// Trouble returns why another process has not delivered the lanes in left, as far as its
// heartbeat and the lanes show it. The Codes are those of Drain. nil means that the
// process may still deliver them, or has not tried since then.
func (s *Syncer) Trouble(h session.Heartbeat, since time.Time, left []session.Lane) error {
	if h.Paused {
		return errPaused()
	}
	g := &goals{}
	for _, l := range left {
		if stuck(l) && !s.passable(l) {
			g.stuck = append(g.stuck, l)
		}
		if l.State == session.SyncRetrying && h.State == session.SyncRetrying {
			// the trouble may be the lane's own; the lane ends parked or delivered
			return nil
		}
	}
	switch {
	case len(g.stuck) > 0 && len(g.stuck) == len(left):
		return g.verdict(nil)
	case !h.State.Faulty() || h.AttemptUS < since.UnixMicro() || h.NextUS == 0: // the heartbeat is older, or the process is trying now
		return nil
	}
	return envelope(h.State, h.Reason)
}

// aim sets the goals when the lanes are read for the first time, and lists the lanes that
// a drain cannot deliver.
func (r *round) aim(changed []session.Lane) {
	g := r.goals
	if g == nil {
		return
	}
	if !g.set {
		g.set, g.last = true, map[session.ID]uint64{}
		for _, l := range changed {
			g.last[l.Session] = l.LastSeq
		}
	}
	g.stuck, g.err = nil, nil
	for _, l := range changed {
		if stuck(l) && !l.WentOn() && !r.s.passable(l) && l.Acked < g.last[l.Session] {
			g.stuck = append(g.stuck, l)
		}
	}
}

// passable reports whether a parked lane continues with a stand-in for its parked row: by
// the policy, or because a person gave that row up.
func (s *Syncer) passable(l session.Lane) bool {
	return l.Parked > l.Acked && !over(l) && (s.opts.OnParked == Continue || s.opts.Dropped[l.Session] == l.Parked) && !s.lane(l.Session).hopeless
}

// givesUp reports whether a drain no longer waits for a lane with trouble of its own.
func (r *round) givesUp(l session.Lane) bool {
	known := r.s.lanes[l.Session]
	if r.goals == nil || known == nil || known.troubles < maxAttempts {
		return false
	}
	if r.goals.err == nil {
		r.goals.err = known.trouble
	}
	return true
}
