package terminal

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/acode-dev/acode/session"
)

// syncOff is what there is to say of sync while no server is configured.
const syncOff = "off (local only)"

// SyncView is how delivery to the server stands, as the store tells it: of one session, or of
// all. The zero value says that no server is configured. Times are microseconds since 1970, 0
// for never.
type SyncView struct {
	State     session.SyncState
	Link      session.SyncState // of the connection, where it is in trouble and State is another
	Reason    string            // of the connection's state, in words; may be empty
	Pending   uint64            // events that wait
	Sessions  int               // that have some
	SinceUS   int64             // when State began
	OldestUS  int64             // time of the oldest pending event
	LastUS    int64             // last success
	AttemptUS int64             // last attempt
	NextUS    int64             // next attempt
	Paused    bool              // a person paused delivery, whether something waits or not
	Verified  uint64            // seq up to where the server recomputed the chain; of one session
	Acked     uint64            // seq that the server acknowledged; of one session
	Server    string            // host, port and database
	Identity  string            // of the database that acknowledged
	Drainer   *Drainer
	Lanes     []LaneView // that need a person
	WentOn    []LaneView // settled: their sessions go on as others; SyncStatus and its JSON name them
	Now       time.Time
	Spell     func(session.Hint) string // says a hint as its door does; nil names the move
}

// Drainer is the process that delivers.
type Drainer struct {
	PID     int
	Command string
	BeatUS  int64 // its last heartbeat
}

// LaneView is a session that is parked, fenced or forked.
type LaneView struct {
	Short  string            `json:"short_id"`
	State  session.SyncState `json:"state"`
	Seq    uint64            `json:"seq,omitempty"`
	Reason string            `json:"reason"`
}

func (v SyncView) off() bool { return v.State == "" || v.State == session.SyncDisabled }

func (v SyncView) degraded() bool { return session.Degraded(v.State, v.Pending) }

// stopped reports whether a session waits for a person, which it may with nothing pending: the store of an
// older copy has less of it than the server.
func (v SyncView) stopped() bool {
	return v.State == session.SyncParked || v.State == session.SyncFenced || v.State == session.SyncForked
}

// Summary is the line after "Sync:".
func (v SyncView) Summary() string {
	switch {
	case v.off():
		return syncOff
	case !v.degraded() && v.stopped():
		return "nothing is pending, and a session waits for a person"
	case !v.degraded():
		return "Up to date ✓"
	}
	s := fmt.Sprintf("DEGRADED - %s pending", Plural(int(v.Pending), "event"))
	if v.Sessions > 1 {
		s += fmt.Sprintf(" in %d sessions", v.Sessions)
	}
	return s
}

// status is the line of a dry run.
func (v SyncView) status() string {
	switch {
	case v.off():
		return syncOff
	case !v.degraded():
		return "up to date"
	}
	return fmt.Sprintf("%s pending", Plural(int(v.Pending), "event"))
}

// why says in one line why a session begins in degraded mode, and since when. Nothing waits
// for the server, so it says that too (FR-047, FR-050).
func (v SyncView) why() []string {
	if !v.degraded() && !v.stopped() || v.State == session.SyncPending {
		return nil
	}
	line := v.stateLine()
	if v.Reason != "" {
		line += ": " + Clean(v.Reason)
	}
	lines := []string{line}
	if v.waitsForServer() {
		lines = append(lines, "Degraded mode: work goes on locally and is delivered later")
	}
	return lines
}

// details says why, since when, and what comes next.
func (v SyncView) details() []string {
	if !v.degraded() && !v.stopped() {
		return nil
	}
	lines := []string{"State: " + v.stateLine()}
	if v.Link != "" && v.Link != v.State {
		lines = append(lines, "Connection: "+string(v.Link)+" - "+v.meaning(v.Link, ""))
	}
	if v.OldestUS > 0 {
		lines = append(lines, "Oldest pending: "+v.ago(v.OldestUS))
	}
	last := "never"
	if v.LastUS > 0 {
		last = v.ago(v.LastUS)
	}
	lines = append(lines, "Last success: "+last)
	if v.AttemptUS > 0 {
		lines = append(lines, "Last sync attempt: "+v.ago(v.AttemptUS))
	}
	lines = append(lines, v.outlook()...)
	for _, l := range v.Lanes {
		lines = append(lines, l.String())
	}
	return lines
}

// trouble says what is wrong with the server for the process that delivers, although nothing is pending.
func (v SyncView) trouble() []string {
	if v.degraded() || v.stopped() || !v.State.Faulty() || v.Drainer == nil {
		return nil
	}
	lines := []string{"Connection: " + string(v.State) + " - " + v.meaning(v.State, "")}
	if v.LastUS > 0 {
		lines = append(lines, "Last success: "+v.ago(v.LastUS))
	}
	return append(lines, v.outlook()...)
}

// outlook says when the server is tried again, and why it has to be.
func (v SyncView) outlook() (lines []string) {
	if v.NextUS > 0 {
		lines = append(lines, "Next retry: "+v.until(v.NextUS))
	}
	if v.Reason != "" {
		lines = append(lines, "Reason: "+sentence(Clean(v.Reason)))
	}
	return lines
}

// String gives "abc123 is parked at event 17: reason", cleaned.
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

// stateLine ends with what to do, where that is not to wait.
func (v SyncView) stateLine() string {
	since, about := "", ""
	for _, l := range v.Lanes {
		if l.State == v.State && (v.State == session.SyncFenced || v.State == session.SyncForked) {
			about = l.Short
			break
		}
	}
	means := v.meaning(v.State, about)
	if v.SinceUS > 0 {
		since = ", since " + v.ago(v.SinceUS)
	}
	switch {
	case means == "":
		return string(v.State) + since
	case stateMeaning(v.State, about).Do != "":
		return string(v.State) + since + " - " + means
	}
	return string(v.State) + " - " + means + since
}

// meaning says a state in words, with what to do where that is not to wait; short is the session that
// what to do is about, if it is one.
func (v SyncView) meaning(s session.SyncState, short string) string {
	return v.say(stateMeaning(s, short))
}

func (v SyncView) say(h session.Hint) string {
	if v.Spell == nil {
		return Clean(h.String())
	}
	return Clean(v.Spell(h))
}

func stateMeaning(s session.SyncState, short string) session.Hint {
	switch s {
	case session.SyncPending:
		return session.Words("waiting for its turn")
	case session.SyncRetrying:
		return session.Words("the server has passing trouble")
	case session.SyncOffline:
		return session.Words("the server cannot be reached")
	case session.SyncServerReadonly:
		return session.Words("the server takes no writes")
	case session.SyncDiskFull:
		return session.Words("the server has no room")
	case session.SyncAuthFailed:
		return session.Words("the server refuses this role, or its certificate is not trusted")
	case session.SyncServerUnmigrated:
		return session.Then("the server's operator runs", session.MoveMigrate, "")
	case session.SyncClientTooNew:
		return session.Words("server and program do not fit; bring both to one version")
	case session.SyncOtherDatabase:
		return session.Then("the address leads to another database; see", session.MoveSyncRebind, "")
	case session.SyncParked:
		return session.Then("the server refused an event; see", session.MoveSyncParked, "")
	case session.SyncFenced:
		return session.Then("the session was taken over elsewhere; see", session.MoveForkOff, short)
	case session.SyncForked:
		return session.Then("another copy of the session went on; see", session.MoveForkOff, short)
	case session.SyncPaused:
		return session.Then("a person paused it; go on with", session.MoveSyncUnpause, "")
	case session.SyncSynced, session.SyncDisabled:
	}
	return session.Hint{}
}

// sentence begins s with a capital.
func sentence(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}

// reassurance closes a status while the server is what is missing (FR-048, FR-049).
const reassurance = "Note: Session continues locally. Sync will resume when remote is available."

func (v SyncView) waitsForServer() bool {
	switch v.State {
	case session.SyncOffline, session.SyncRetrying, session.SyncServerReadonly, session.SyncDiskFull:
		return v.Pending > 0
	}
	return false
}

func (v SyncView) ago(us int64) string { return agoShort(v.Now, time.UnixMicro(us)) }

func (v SyncView) until(us int64) string {
	left := time.UnixMicro(us).Sub(v.Now)
	if left < time.Second {
		return "now"
	}
	return strings.TrimSuffix(agoShort(v.Now, v.Now.Add(-left)), " ago")
}

// SyncStatus writes how the whole store's delivery stands. It needs no network.
func SyncStatus(w io.Writer, v SyncView) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Sync: %s\n", v.Summary())
	for _, l := range append(v.details(), v.trouble()...) {
		fmt.Fprintf(&b, "  %s\n", l)
	}
	if v.Paused && (v.State != session.SyncPaused || !v.degraded()) {
		fmt.Fprintf(&b, "%s\n", v.say(session.Then("Paused: what comes next waits for", session.MoveSyncUnpause, "")))
	}
	if !v.off() {
		fmt.Fprintf(&b, "Server: %s\n", cmp.Or(Clean(v.Server), "not reached yet"))
		if v.Identity != "" {
			fmt.Fprintf(&b, "Database: %s\n", Clean(v.Identity))
		}
		if v.Drainer == nil {
			fmt.Fprintf(&b, "Delivered by: nobody now; %s\n", v.say(session.Then("a run, a resume or a syncer does it, and so does", session.MoveSyncNow, "")))
		} else {
			fmt.Fprintf(&b, "Delivered by: pid %d (%s), heartbeat %s\n", v.Drainer.PID, Clean(v.Drainer.Command), v.ago(v.Drainer.BeatUS))
		}
	}
	if v.waitsForServer() {
		fmt.Fprintf(&b, "\n%s\n", reassurance)
	}
	for _, l := range v.WentOn {
		fmt.Fprintf(&b, "%s: %s\n", l.Short, Clean(l.Reason))
	}
	return write(w, b.String())
}

// syncJSON is the form of a SyncView for scripts. Times are null when there was none.
type syncJSON struct {
	State    session.SyncState `json:"state"`
	Link     session.SyncState `json:"connection,omitempty"` // only where it is in trouble and state is another
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

// stampUS gives a time for scripts; nil for 0.
func stampUS(us int64) *string {
	if us == 0 {
		return nil
	}
	s := stamp(time.UnixMicro(us))
	return &s
}

func newSyncJSON(v SyncView) syncJSON {
	state := v.State
	if v.off() {
		state = session.SyncDisabled
	}
	out := syncJSON{
		State: state, Link: v.Link, Degraded: v.degraded(), Paused: v.Paused, Pending: v.Pending, Sessions: v.Sessions, Acked: v.Acked, Verified: v.Verified, Reason: v.Reason,
		Since: stampUS(v.SinceUS), Oldest: stampUS(v.OldestUS), Last: stampUS(v.LastUS), Attempt: stampUS(v.AttemptUS), Next: stampUS(v.NextUS),
		Server: v.Server, Identity: v.Identity, Lanes: append([]LaneView{}, v.Lanes...),
	}
	if d := v.Drainer; d != nil {
		out.Drainer = &drainerJSON{PID: d.PID, Command: d.Command, Heartbeat: stampUS(d.BeatUS)}
	}
	return out
}

// SyncStatusJSON writes the same for scripts.
func SyncStatusJSON(w io.Writer, v SyncView) error {
	return JSON(w, struct {
		V      int        `json:"v"`
		Sync   syncJSON   `json:"sync"`
		WentOn []LaneView `json:"went_on,omitempty"`
	}{jsonVersion, newSyncJSON(v), v.WentOn})
}
