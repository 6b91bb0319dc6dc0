package terminal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
)

// syncOff is the state of sync while no server is configured.
const syncOff = "off (local only)"

// delivery describes the delivery to the server in words.
type delivery struct {
	app.Delivery
	// spell returns a hint as its reader types it.
	spell func(session.Hint) string
}

// LaneView is app.Lane for scripts.
type LaneView struct {
	Short  string            `json:"short_id"`
	State  session.SyncState `json:"state"`
	Seq    uint64            `json:"seq,omitempty"`
	Reason string            `json:"reason"`
}

func (d delivery) off() bool { return d.State == "" || d.State == session.SyncDisabled }

func (d delivery) degraded() bool { return session.Degraded(d.State, d.Events) }

// stopped reports whether a session waits for a person. That can happen with nothing
// pending: an older copy of a store has fewer events than the server.
func (d delivery) stopped() bool {
	return d.State == session.SyncParked || d.State == session.SyncFenced || d.State == session.SyncForked
}

// summary is the text after "Sync:".
func (d delivery) summary() string {
	switch {
	case d.off():
		return syncOff
	case !d.degraded() && d.stopped():
		return "nothing is pending, and a session waits for a person"
	case !d.degraded():
		return "Up to date ✓"
	}
	s := fmt.Sprintf("DEGRADED - %s pending", Plural(int(d.Events), "event"))
	if d.Sessions > 1 {
		s += fmt.Sprintf(" in %d sessions", d.Sessions)
	}
	return s
}

// status is the text of a dry run.
func (d delivery) status() string {
	switch {
	case d.off():
		return syncOff
	case !d.degraded():
		return "up to date"
	}
	return fmt.Sprintf("%s pending", Plural(int(d.Events), "event"))
}

// why explains in one line why a session begins in degraded mode, and since when. When
// only the server is missing, a second line says that work continues (FR-047, FR-050).
func (d delivery) why() []string {
	if !d.degraded() && !d.stopped() || d.State == session.SyncPending {
		return nil
	}
	line := d.stateLine()
	if d.Reason != "" {
		line += ": " + Clean(d.Reason)
	}
	lines := []string{line}
	if d.waitsForServer() {
		lines = append(lines, "Degraded mode: work continues locally and is delivered later")
	}
	return lines
}

// details explains the state, since when it holds, and the next attempt.
func (d delivery) details() []string {
	if !d.degraded() && !d.stopped() {
		return nil
	}
	lines := []string{"State: " + d.stateLine()}
	if d.Link != "" && d.Link != d.State {
		lines = append(lines, d.connection(d.Link))
	}
	if d.OldestUS > 0 {
		lines = append(lines, "Oldest pending: "+d.ago(d.OldestUS))
	}
	last := "never"
	if d.LastUS > 0 {
		last = d.ago(d.LastUS)
	}
	lines = append(lines, "Last success: "+last)
	if d.AttemptUS > 0 {
		lines = append(lines, "Last sync attempt: "+d.ago(d.AttemptUS))
	}
	lines = append(lines, d.outlook()...)
	for _, l := range d.Lanes {
		lines = append(lines, LaneView(l).String())
	}
	return lines
}

// trouble describes the trouble of the delivering process with the server although
// nothing is pending.
func (d delivery) trouble() []string {
	if d.degraded() || d.stopped() || !d.State.Faulty() || !d.Delivers {
		return nil
	}
	lines := []string{d.connection(d.State)}
	if d.LastUS > 0 {
		lines = append(lines, "Last success: "+d.ago(d.LastUS))
	}
	return append(lines, d.outlook()...)
}

func (d delivery) connection(s session.SyncState) string {
	return "Connection: " + string(s) + " - " + d.say(d.meaning(s))
}

// outlook says when the server is tried again, and why.
func (d delivery) outlook() (lines []string) {
	if d.NextUS > 0 {
		lines = append(lines, "Next retry: "+d.until(d.NextUS))
	}
	if d.Reason != "" {
		lines = append(lines, "Reason: "+sentence(Clean(d.Reason)))
	}
	return lines
}

// String returns "abc123 is parked at event 17: reason", cleaned.
func (l LaneView) String() string {
	s := Clean(l.Short) + " is " + string(l.State)
	if l.Seq > 0 {
		s += fmt.Sprintf(" at event %d", l.Seq)
	}
	if l.Reason != "" {
		s += ": " + Clean(l.Reason)
	}
	return s
}

// stateLine returns the state with its meaning, and with the next command when waiting
// does not help.
func (d delivery) stateLine() string {
	since := ""
	if d.SinceUS > 0 {
		since = ", since " + d.ago(d.SinceUS)
	}
	switch h := d.meaning(d.State); {
	case h.IsZero():
		return string(d.State) + since
	case h.Do != "":
		return string(d.State) + since + " - " + d.say(h)
	default:
		return string(d.State) + " - " + d.say(h) + since
	}
}

func (d delivery) say(h session.Hint) string { return Clean(d.spell(h)) }

// meaning describes a state in words, with the next command when waiting does not help.
// That command names the first session in this state.
func (d delivery) meaning(s session.SyncState) session.Hint {
	h := map[session.SyncState]session.Hint{
		session.SyncPending:          session.Words("waiting for its turn"),
		session.SyncRetrying:         session.Words("the server has a temporary problem"),
		session.SyncOffline:          session.Words("the server cannot be reached"),
		session.SyncServerReadonly:   session.Words("the server does not accept writes"),
		session.SyncDiskFull:         session.Words("the disk of the server is full"),
		session.SyncAuthFailed:       session.Words("the server refuses this role, or its certificate is not trusted"),
		session.SyncServerUnmigrated: session.Then("ask the operator of the server to run", session.MoveMigrate, ""),
		session.SyncClientTooNew:     session.Words("server and program do not match; update both to the same version"),
		session.SyncOtherDatabase:    session.Then("the address leads to another database; see", session.MoveSyncRebind, ""),
		session.SyncParked:           session.Then("the server refused an event; see", session.MoveSyncParked, ""),
		session.SyncFenced:           session.Then("the session was taken over elsewhere; see", session.MoveForkOff, ""),
		session.SyncForked:           session.Then("another copy of the session was continued; see", session.MoveForkOff, ""),
		session.SyncPaused:           session.Then("a person paused it; continue with", session.MoveSyncUnpause, ""),
	}[s]
	at := slices.IndexFunc(d.Lanes, func(l app.Lane) bool { return l.State == s })
	if h.Do == session.MoveForkOff && at >= 0 {
		h.Session = d.Lanes[at].Short
	}
	return h
}

// sentence returns s with a capital first letter.
func sentence(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}

// reassurance ends a status while only the server is missing (FR-048, FR-049).
const reassurance = "Note: Session continues locally. Sync will resume when remote is available."

func (d delivery) waitsForServer() bool {
	switch d.State {
	case session.SyncOffline, session.SyncRetrying, session.SyncServerReadonly, session.SyncDiskFull:
		return d.Events > 0
	}
	return false
}

func (d delivery) ago(us int64) string { return agoShort(d.Now, time.UnixMicro(us)) }

func (d delivery) until(us int64) string {
	left := time.UnixMicro(us).Sub(d.Now)
	if left < time.Second {
		return "now"
	}
	return strings.TrimSuffix(agoShort(d.Now, d.Now.Add(-left)), " ago")
}

// SyncStatus prints the delivery of the whole store, and the sessions that continue under
// another id. It needs no network.
func (p Page) SyncStatus(of app.Delivery, wentOn []LaneView) error {
	if p.JSON {
		return p.json(struct {
			V      int        `json:"v"`
			Sync   syncJSON   `json:"sync"`
			WentOn []LaneView `json:"went_on,omitempty"`
		}{jsonVersion, newSyncJSON(of), wentOn})
	}
	d := delivery{of, p.Spell}
	var b strings.Builder
	fmt.Fprintf(&b, "Sync: %s\n", d.summary())
	for _, l := range append(d.details(), d.trouble()...) {
		fmt.Fprintf(&b, "  %s\n", l)
	}
	if d.Paused && (d.State != session.SyncPaused || !d.degraded()) {
		fmt.Fprintf(&b, "%s\n", d.say(session.Then("Paused: new events wait for", session.MoveSyncUnpause, "")))
	}
	if !d.off() {
		fmt.Fprintf(&b, "Server: %s\n", cmp.Or(Clean(d.Address), "not reached yet"))
		if d.Remote != "" {
			fmt.Fprintf(&b, "Database: %s\n", Clean(d.Remote))
		}
		if !d.Delivers {
			fmt.Fprintf(&b, "Delivered by: no process now; %s\n", d.say(session.Then("a run, a resume and a syncer deliver, and so does", session.MoveSyncNow, "")))
		} else {
			fmt.Fprintf(&b, "Delivered by: pid %d (%s), heartbeat %s\n", d.PID, Clean(d.Command), d.ago(d.BeatUS))
		}
	}
	if d.waitsForServer() {
		fmt.Fprintf(&b, "\n%s\n", reassurance)
	}
	for _, l := range wentOn {
		fmt.Fprintf(&b, "%s: %s\n", l.Short, Clean(l.Reason))
	}
	return p.write(b.String())
}

// syncJSON is app.Delivery for scripts. Times are null when there was none.
type syncJSON struct {
	State session.SyncState `json:"state"`
	// Link is set only when the connection is in trouble and differs from State.
	Link     session.SyncState `json:"connection,omitempty"`
	Degraded bool              `json:"degraded"`
	Paused   bool              `json:"paused"`
	Pending  uint64            `json:"events_pending"`
	Sessions int               `json:"sessions_pending"`
	Acked    uint64            `json:"acknowledged_seq,omitempty"`
	Verified uint64            `json:"verified_seq,omitempty"`
	Reason   string            `json:"reason"`
	Since    *string           `json:"since"`
	Oldest   *string           `json:"oldest_pending_at"`
	Last     *string           `json:"last_success_at"`
	Attempt  *string           `json:"last_attempt_at"`
	Next     *string           `json:"next_attempt_at"`
	Server   string            `json:"server"`
	Identity string            `json:"database"`
	Drainer  *drainerJSON      `json:"drainer"`
	Lanes    []LaneView        `json:"lanes"`
}

type drainerJSON struct {
	PID       int     `json:"pid"`
	Command   string  `json:"command"`
	Heartbeat *string `json:"heartbeat_at"`
}

// stampUS formats a time for scripts; nil for 0.
func stampUS(us int64) *string {
	if us == 0 {
		return nil
	}
	s := stamp(time.UnixMicro(us))
	return &s
}

func newSyncJSON(v app.Delivery) syncJSON {
	out := syncJSON{
		State: cmp.Or(v.State, session.SyncDisabled), Link: v.Link, Degraded: session.Degraded(v.State, v.Events),
		Paused: v.Paused, Pending: v.Events, Sessions: v.Sessions, Acked: v.Acked, Verified: v.Verified, Reason: v.Reason,
		Since: stampUS(v.SinceUS), Oldest: stampUS(v.OldestUS), Last: stampUS(v.LastUS),
		Attempt: stampUS(v.AttemptUS), Next: stampUS(v.NextUS),
		Server: v.Address, Identity: v.Remote, Lanes: []LaneView{},
	}
	if v.Delivers {
		out.Drainer = &drainerJSON{PID: v.PID, Command: v.Command, Heartbeat: stampUS(v.BeatUS)}
	}
	for _, l := range v.Lanes {
		out.Lanes = append(out.Lanes, LaneView(l))
	}
	return out
}
