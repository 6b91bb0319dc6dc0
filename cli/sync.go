package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/lock"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

// syncView is how delivery stands, as the store alone tells it: of one session, or of all when
// id is empty. It takes no lock, writes nothing and needs no network.
func (b *base) syncView(ctx context.Context, s *local.Store, id session.ID) (terminal.SyncView, error) {
	holder, delivers := b.drainer()
	if b.cfg.Config.Sync.URL == "" && !delivers {
		return terminal.SyncView{}, nil
	}
	h, lanes, backlog, err := s.Sync(ctx)
	if err != nil {
		return terminal.SyncView{}, err
	}
	v := terminal.SyncView{
		Reason: h.Reason, SinceUS: h.SinceUS, LastUS: h.LastUS, AttemptUS: h.AttemptUS, NextUS: h.NextUS,
		Pending: backlog.Events, Sessions: backlog.Sessions, OldestUS: backlog.OldestUS, Server: h.Address, Identity: h.Remote, Paused: h.Paused, Now: b.now(),
	}
	if id != "" {
		lane, err := s.Lane(ctx, id)
		if err != nil {
			return v, err
		}
		v.Pending, v.Sessions, v.Acked, v.Verified = lane.Pending(), 0, lane.Acked, lane.Verified
		if lane.WentOn() {
			v.Pending = 0
		}
		v.OldestUS = 0
		if v.Pending > 0 {
			if first, err := s.Events(ctx, id, lane.Acked, 1); err == nil && len(first) > 0 { // a damaged one has no known age
				v.OldestUS = first[0].TimeUS
			}
		}
		lanes = slices.DeleteFunc(lanes, func(l session.Lane) bool { return l.Session != id })
	}
	if v.Lanes, err = b.troubled(ctx, s, lanes); err != nil {
		return v, err
	}
	states := make([]session.SyncState, len(lanes))
	for i, l := range lanes {
		states[i] = l.State
	}
	v.State = session.WorstSync(h, v.Pending, states...)
	if v.State != h.State {
		v.SinceUS = 0
		if h.State.Faulty() {
			v.Link = h.State
		} else {
			v.Reason = ""
		}
	}
	if delivers {
		v.Drainer = &terminal.Drainer{PID: holder.PID, Command: h.Command, BeatUS: h.BeatUS}
		if h.PID != holder.PID { // the heartbeat is of the one before
			v.Drainer.Command, v.Drainer.BeatUS = strings.TrimPrefix(holder.Command, "acode "), holder.Since.UnixMicro()
		}
	} else {
		v.NextUS = 0 // nobody will try then
	}
	return v, nil
}

// drainer gives the process that delivers from this store, if there is one. It knows a server, also
// where this environment names none.
func (b *base) drainer() (lock.Holder, bool) {
	holder, held, err := lock.Read(drainerLock(b.home()))
	return holder, err == nil && held
}

// troubled names the lanes that need a person.
func (b *base) troubled(ctx context.Context, s *local.Store, lanes []session.Lane) ([]terminal.LaneView, error) {
	var out []terminal.LaneView
	for _, l := range lanes {
		if l.State != session.SyncParked && l.State != session.SyncFenced && l.State != session.SyncForked {
			continue
		}
		sess, err := s.View(ctx, l.Session)
		if err != nil {
			return out, err
		}
		out = append(out, terminal.LaneView{Short: sess.Short, State: l.State, Seq: l.Parked, Reason: l.Reason})
	}
	return out, nil
}

// unhealthy is the exit status of status --check when a person is needed.
const unhealthy = 2

// health is the exit status of status --check: 0 when all is well or will soon be, 1 when
// delivery is late, 2 when it needs a person.
func (b *base) health(v terminal.SyncView) int {
	switch v.State {
	case session.SyncParked, session.SyncFenced, session.SyncForked, session.SyncOtherDatabase, session.SyncAuthFailed,
		session.SyncServerUnmigrated, session.SyncClientTooNew, session.SyncDiskFull:
		return unhealthy
	}
	if session.Late(v.OldestUS, b.now(), b.cfg.Config.Sync.LateAfter) {
		return 1
	}
	return 0
}

// notForked returns ErrForked or ErrFenced for a session whose server has another history: to
// go on with it here would only lengthen what nobody will take.
func (b *base) notForked(ctx context.Context, s *local.Store, id session.ID) error {
	if b.cfg.Config.Sync.URL == "" {
		return nil
	}
	lane, err := s.Lane(ctx, id)
	if err != nil {
		return err
	}
	if lane.WentOn() {
		return wentOn(ctx, s, lane)
	}
	return forked(id, lane.State, lane.Reason)
}

// forked is the error for a session whose lane is in state, nil where that is none of these.
func forked(id session.ID, state session.SyncState, reason string) error {
	e := &session.Error{Code: session.ErrForked, Message: reason + "; nothing more is done here, and all of it is kept",
		Next: "go on with it where it went on, or make a new session of what is here: acode sync fork-off " + string(id)}
	switch state {
	case session.SyncForked:
		return e
	case session.SyncFenced:
		e.Code = session.ErrFenced
		return e
	}
	return nil
}
