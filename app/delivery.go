package app

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/acode-dev/acode/lock"
	"github.com/acode-dev/acode/session"
)

// Delivery is how delivery to the server stands, as the store tells it: of one session,
// or of all. The zero value says that no server is configured. Times are microseconds
// since 1970, 0 for never.
type Delivery struct {
	// State is the worst; PID, Command and BeatUS are of the process that delivers
	session.Heartbeat
	// Sessions is 0 of one session
	session.Backlog
	// of the connection, where it is in trouble and State is another
	Link session.SyncState
	// seq up to where the server recomputed the chain; of one session
	Verified uint64
	// seq that the server acknowledged; of one session
	Acked uint64
	// a process delivers
	Delivers bool
	// that need a person
	Lanes []Lane
	Now   time.Time
}

// Lane is a session that is parked, fenced or forked, or that went on as another one.
type Lane struct {
	Short string
	State session.SyncState
	// of the event that is parked; 0: none is
	Seq    uint64
	Reason string
}

// Delivery is how delivery stands, as the store alone tells it: of one session, or of all
// when id is empty. It takes no lock, writes nothing and needs no network.
func (s *Site) Delivery(ctx context.Context, id session.ID) (Delivery, error) {
	holder, delivers := s.drainer()
	if s.Settings.Config.Sync.URL == "" && !delivers {
		return Delivery{}, nil
	}
	h, lanes, backlog, err := s.store.Sync(ctx)
	if err != nil {
		return Delivery{}, err
	}
	v := Delivery{Heartbeat: h, Backlog: backlog, Delivers: delivers, Now: s.Now()}
	if id != "" {
		lane, err := s.store.Lane(ctx, id)
		if err != nil {
			return v, err
		}
		v.Backlog, v.Acked, v.Verified = session.Backlog{}, lane.Acked, lane.Verified
		if !lane.WentOn() {
			v.Events = lane.Pending()
		}
		if v.Events > 0 {
			if first, err := s.store.Events(ctx, id, lane.Acked, 1); err == nil && len(first) > 0 { // a damaged one has no known age
				v.OldestUS = first[0].TimeUS
			}
		}
	}
	var states []session.SyncState
	for _, l := range lanes {
		if id != "" && l.Session != id {
			continue
		}
		if states = append(states, l.State); l.State != session.SyncParked && forked(id, l.State, "") == nil {
			continue
		}
		sess, err := s.store.View(ctx, l.Session)
		if err != nil {
			return v, err
		}
		v.Lanes = append(v.Lanes, Lane{Short: sess.Short, State: l.State, Seq: l.Parked, Reason: l.Reason})
	}
	v.State = session.WorstSync(h, v.Events, states...)
	if v.State != h.State {
		v.SinceUS = 0
		if h.State.Faulty() {
			v.Link = h.State
		} else {
			v.Reason = ""
		}
	}
	switch {
	case !delivers:
		v.NextUS = 0 // no process will try then
	case h.PID != holder.PID: // the heartbeat is of the one before
		v.PID, v.Command, v.BeatUS = holder.PID, strings.TrimPrefix(holder.Command, "acode "), holder.Since.UnixMicro()
	}
	return v, nil
}

// NoDelivery is how delivery stands before there is a store.
func (s *Setup) NoDelivery() Delivery {
	d := Delivery{Now: s.Now()}
	if s.Settings.Config.Sync.URL != "" {
		d.State = session.WorstSync(session.Heartbeat{}, 0)
	}
	return d
}

// drainer gives the process that delivers from this store, if there is one. It knows a
// server, also where this environment names none.
func (s *Setup) drainer() (lock.Holder, bool) {
	holder, held, err := lock.Read(s.drainerLock())
	return holder, err == nil && held
}

// Delivers reports whether a server is configured, or a process delivers from this store.
func (s *Setup) Delivers() bool {
	_, delivers := s.drainer()
	return delivers || s.Settings.Config.Sync.URL != ""
}

// Health says how urgent the state of delivery is.
type Health int

// The states of health, the better ones first.
const (
	// all is well, or will soon be
	Healthy Health = iota
	// something has waited for longer than it should
	Late
	// nothing is delivered before a person has done something
	NeedsPerson
)

// Health judges how delivery stands.
func (s *Setup) Health(d Delivery) Health {
	switch d.State {
	case session.SyncParked, session.SyncFenced, session.SyncForked, session.SyncOtherDatabase, session.SyncAuthFailed,
		session.SyncServerUnmigrated, session.SyncClientTooNew, session.SyncDiskFull:
		return NeedsPerson
	}
	if session.Late(d.OldestUS, s.Now(), s.Settings.Config.Sync.LateAfter) {
		return Late
	}
	return Healthy
}

// notForked returns ErrForked or ErrFenced for a session whose server has another
// history: to go on with it here would only lengthen what nobody will take.
func (s *Site) notForked(ctx context.Context, id session.ID) error {
	if s.Settings.Config.Sync.URL == "" {
		return nil
	}
	lane, err := s.store.Lane(ctx, id)
	if err != nil {
		return err
	}
	if lane.WentOn() {
		return s.wentOn(ctx, lane)
	}
	return forked(id, lane.State, lane.Reason)
}

// forked is the error for a session whose lane is in state, nil where that is none of
// these.
func forked(id session.ID, state session.SyncState, reason string) error {
	code := session.ErrForked
	switch state {
	case session.SyncForked:
	case session.SyncFenced:
		code = session.ErrFenced
	default:
		return nil
	}
	return &session.Error{Code: code, Message: reason + "; nothing more is done here, and all of it is kept",
		Next: session.Then("go on with it where it went on, or make a new session of what is here", session.MoveForkOff, string(id))}
}

// wentOn refuses a session that goes on as another one, and says as which.
func (s *Site) wentOn(ctx context.Context, lane session.Lane) error {
	as, _, err := s.store.ForkOf(ctx, lane.Session)
	if err != nil {
		return err
	}
	return &session.Error{Code: session.ErrForked, Message: lane.Reason + "; nothing more is done under this id", Next: session.Do(session.MoveResume, as.Short)}
}

// LockDrainer takes the lock of the one process that delivers from this store. doing is
// what others are told of this process. ErrLocked says who has it.
func (s *Site) LockDrainer(doing string) (*lock.Lock, error) {
	self, err := lock.Self(doing, s.Now())
	if err != nil {
		return nil, err
	}
	return acquire(s.drainerLock(), self)
}

// HolderOf gives who has the lock, of an ErrLocked.
func HolderOf(err error) error {
	var held *lock.HeldError
	if errors.As(err, &held) {
		return held
	}
	return err
}

// AskDrainer asks the process that delivers from this store to wait no longer. It leaves
// word in the time of the lock file, which nothing else depends on, and which only grows:
// a file system may keep no fraction of a second.
func (s *Site) AskDrainer() error {
	path, before, now := s.drainerLock(), s.DrainerAsked(), s.Now()
	if err := os.Chtimes(path, now, now); err != nil || s.DrainerAsked().After(before) {
		return err
	}
	later := before.Add(2 * time.Second)
	return os.Chtimes(path, later, later)
}

// DrainerAsked gives the word that AskDrainer left: another value after each request.
func (s *Site) DrainerAsked() time.Time {
	info, err := os.Stat(s.drainerLock())
	if err != nil {
		return time.Time{} // no process delivers, so none was asked
	}
	return info.ModTime()
}

func (s *Setup) drainerLock() string { return filepath.Join(s.home(), "locks", "drainer") }
