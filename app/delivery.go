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

// Delivery is the state of delivery to the server as the store records it, for one
// session or for all. The zero value means that no server is configured. Times are
// microseconds since 1970, 0 for never.
type Delivery struct {
	// Heartbeat has the worst state. Its PID, Command and BeatUS are those of the process
	// that delivers.
	session.Heartbeat
	// Backlog counts pending events. Its Sessions is 0 for one session.
	session.Backlog
	// Link is the state of the connection, if the connection fails and State is another
	// state.
	Link session.SyncState
	// Verified is the seq up to which the server recomputed the chain, for one session.
	Verified uint64
	// Acked is the last seq that the server acknowledged, for one session.
	Acked uint64
	// Delivers is true if a process delivers now.
	Delivers bool
	// Lanes are the lanes that need a person.
	Lanes []Lane
	Now   time.Time
}

// Lane is a session that is parked, fenced or forked, or that was continued under another
// id.
type Lane struct {
	Short string
	State session.SyncState
	// Seq is the parked event; 0 means none.
	Seq    uint64
	Reason string
}

// Delivery returns the state of delivery as the store records it: for one session, or for
// all if id is empty. It takes no lock, writes nothing and needs no network.
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
			if first, err := s.store.Events(ctx, id, lane.Acked, 1); err == nil && len(first) > 0 { // a damaged event has no known age
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
	case h.PID != holder.PID: // the heartbeat is of an earlier process
		v.PID, v.Command, v.BeatUS = holder.PID, strings.TrimPrefix(holder.Command, "acode "), holder.Since.UnixMicro()
	}
	return v, nil
}

// NoDelivery is the state of delivery before a store exists.
func (s *Setup) NoDelivery() Delivery {
	d := Delivery{Now: s.Now()}
	if s.Settings.Config.Sync.URL != "" {
		d.State = session.WorstSync(session.Heartbeat{}, 0)
	}
	return d
}

// drainer returns the process that delivers from this store, if there is one. That
// process may know a server that this environment does not name.
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

// The states of health, the best first.
const (
	// Healthy needs no one.
	Healthy Health = iota
	// Late means that an event has waited too long.
	Late
	// NeedsPerson means that delivery waits for a person.
	NeedsPerson
)

// Health judges a state of delivery.
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

// notForked returns ErrForked or ErrFenced if the server has another history of the
// session. The server would refuse all further events from here.
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

// forked returns the error for a lane in state, nil if the lane is neither forked nor
// fenced.
func forked(id session.ID, state session.SyncState, reason string) error {
	code := session.ErrForked
	switch state {
	case session.SyncForked:
	case session.SyncFenced:
		code = session.ErrFenced
	default:
		return nil
	}
	return &session.Error{Code: code, Message: reason + "; this copy is kept, and acode does nothing more with it",
		Next: session.Then("continue it there, or make a new session from this copy", session.MoveForkOff, string(id))}
}

// wentOn returns the error for a session that was continued under another id. It names
// that id.
func (s *Site) wentOn(ctx context.Context, lane session.Lane) error {
	as, _, err := s.store.ForkOf(ctx, lane.Session)
	if err != nil {
		return err
	}
	return &session.Error{Code: session.ErrForked, Message: lane.Reason + "; acode does nothing more under this id", Next: session.Do(session.MoveResume, as.Short)}
}

// LockDrainer takes the lock of the one process that delivers from this store. doing
// describes this process to others. ErrLocked names the holder.
func (s *Site) LockDrainer(doing string) (*lock.Lock, error) {
	self, err := lock.Self(doing, s.Now())
	if err != nil {
		return nil, err
	}
	return acquire(s.drainerLock(), self)
}

// HolderOf returns the holder of the lock from an ErrLocked.
func HolderOf(err error) error {
	var held *lock.HeldError
	if errors.As(err, &held) {
		return held
	}
	return err
}

// AskDrainer asks the process that delivers from this store to deliver at once. It sets
// the modification time of the lock file to now. If that does not move the time forward,
// it adds two seconds to the last request: a file system may keep no fractions of a
// second. Nothing else uses this time.
func (s *Site) AskDrainer() error {
	path, before, now := s.drainerLock(), s.DrainerAsked(), s.Now()
	if err := os.Chtimes(path, now, now); err != nil || s.DrainerAsked().After(before) {
		return err
	}
	later := before.Add(2 * time.Second)
	return os.Chtimes(path, later, later)
}

// DrainerAsked returns the time that AskDrainer set, which differs after each request.
func (s *Site) DrainerAsked() time.Time {
	info, err := os.Stat(s.drainerLock())
	if err != nil {
		return time.Time{} // no process delivers, so none was asked
	}
	return info.ModTime()
}

func (s *Setup) drainerLock() string { return filepath.Join(s.home(), "locks", "drainer") }
