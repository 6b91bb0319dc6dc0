package command

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/process"
	"github.com/acode-dev/acode/session"
)

// lockFree reports whether no process holds the lock on f. It asks for a shared lock, so
// that two callers never see each other; holders have an exclusive lock.
func lockFree(f *os.File) (bool, error) {
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); {
	case err == nil:
		return true, unix.Flock(int(f.Fd()), unix.LOCK_UN)
	case errors.Is(err, unix.EWOULDBLOCK):
		return false, nil
	default:
		return false, fmt.Errorf("probe lock: %w", err)
	}
}

// look returns the record of key below dir and the claim that it comes from.
func look(dir, key string) (session.CommandRecord, claim, error) {
	rec, c, err := lookAt(claimPath(dir, key))
	if errors.Is(err, fs.ErrNotExist) {
		return session.CommandRecord{Key: key, State: session.CommandUnclaimed}, claim{}, nil
	}
	return rec, c, err
}

func lookAt(path string) (session.CommandRecord, claim, error) {
	f, err := openClaim(path)
	if err != nil {
		return session.CommandRecord{}, claim{}, err
	}
	defer func() { _ = f.Close() }()
	return lookIn(f, path)
}

// lookIn is lookAt with the claim open. If a command removed its claim, the supervisor
// has made another one for the record and unlocked this one. So lookIn looks again if the
// end is unknown and the name leads to another file.
func lookIn(f *os.File, path string) (session.CommandRecord, claim, error) {
	rec, c, err := judge(f)
	if err == nil && rec.State == session.CommandUnknown && samePath(f, path) != nil {
		return lookAt(path)
	}
	return rec, c, orHeld(f, err)
}

// judge reads the claim in f and returns the state of its command.
func judge(f *os.File) (session.CommandRecord, claim, error) { return judgeBy(f, lockFree) }

// judgeBy does the work of judge; unlocked says whether the lock is free.
func judgeBy(f *os.File, unlocked func(*os.File) (bool, error)) (session.CommandRecord, claim, error) {
	c, err := readClaim(f)
	if err != nil {
		return session.CommandRecord{}, c, err
	}
	free, err := unlocked(f)
	if err != nil {
		return session.CommandRecord{}, c, unread(c.Path, err)
	}
	if !free {
		rec, err := c.held(f)
		return rec, c, err
	}
	// The supervisor writes the exit record before it unlocks, so the record is final
	// now.
	if c.Exit == nil {
		if c, err = readClaim(f); err != nil {
			return session.CommandRecord{}, c, err
		}
	}
	rec, err := c.over(f)
	return rec, c, err
}

// rebooted reports whether the machine restarted since the claim was made. A start block
// or an exit block that was not synced by then may be torn: that is no damage.
func (c claim) rebooted() (bool, error) {
	boot, err := process.Boot()
	return err == nil && c.Header.Supervisor.Boot != boot, err
}

// over judges a claim whose lock, on f, is free.
func (c claim) over(f *os.File) (session.CommandRecord, error) {
	// most claims have a result and need no look at the machine
	if c.Exit != nil && c.StartErr == nil {
		return c.ended(), nil
	}
	rebooted, err := c.rebooted()
	switch {
	case err != nil:
		return session.CommandRecord{}, unread(c.Path, err)
	case rebooted && c.Exit != nil:
		return c.ended(), nil
	case rebooted:
		return c.unknown(restarted), nil
	case c.ExitErr != nil:
		return session.CommandRecord{}, corrupt(c.Path, c.ExitErr)
	case c.StartErr != nil:
		return session.CommandRecord{}, corrupt(c.Path, c.StartErr)
	}
	lives, err := c.leader().Alive()
	if err != nil {
		return session.CommandRecord{}, unread(c.Path, err)
	}
	// the leader closed the locked descriptor that it inherited
	if lives && !process.GroupsOnly {
		return c.record(session.CommandUnattended), nil
	}
	left, err := c.members(f)
	switch {
	case err != nil:
		return session.CommandRecord{}, unread(c.Path, err)
	case c.Start == nil && slices.ContainsFunc(left, func(p member) bool { return p.Session == p.PID }):
		// the supervisor was killed between fork and start block
		return c.record(session.CommandUnattended), nil
	case len(left) > 0:
		// the processes closed the locked descriptor
		return c.lingering(left), nil
	}
	return c.unknown(c.unsupervised()), nil
}

// members returns the processes that belong to the command. It reads the process table
// several times before it returns none: a process that forks and ends can slip through
// one reading.
func (c claim) members(f *os.File) (left []member, err error) {
	for again := 0; again < 4 && len(left) == 0 && err == nil; again++ {
		left, err = members(f, c.Header.Key, c.leader())
	}
	return left, err
}

// leader returns the first process of the command, or zero if none was recorded.
func (c claim) leader() process.ID {
	if c.Start == nil {
		return process.ID{}
	}
	return c.Start.Leader
}

// The reasons for an unknown outcome.
const (
	restarted    = "the machine restarted before the end of the command was recorded"
	unsupervised = "the supervisor was killed before the end of the command was recorded"
)

// unsupervised returns the reason, and adds that output may be lost if the command's pipe
// is still there.
func (c claim) unsupervised() string {
	for _, path := range outputPaths(filepath.Dir(c.Path), c.Header.Key, c.Header.Split) {
		if _, err := os.Lstat(path + pipeSuffix); err == nil {
			return unsupervised + "; its last output may be lost"
		}
	}
	return unsupervised
}

func (c claim) unknown(why string) session.CommandRecord {
	rec := c.record(session.CommandUnknown)
	rec.Why, rec.AliveUS = why, c.lastSign()
	return rec
}

// lastSign returns when the command was last known to live, in microseconds: the time of
// its claim, its start or its last output.
func (c claim) lastSign() int64 {
	last := c.Header.AtUS
	if c.Start != nil {
		last = max(last, c.Start.StartedUS)
	}
	for _, suffix := range outputSuffixes() {
		if info, err := os.Stat(strings.TrimSuffix(c.Path, claimSuffix) + suffix); err == nil {
			last = max(last, info.ModTime().UnixMicro())
		}
	}
	return last
}

// held judges a claim that a process holds: its supervisor, the command, or a process
// that the command left behind. While its supervisor lives the command counts as running.
// This is so even if the exit block is there already, because it may not be durable yet.
func (c claim) held(f *os.File) (session.CommandRecord, error) {
	if lives, err := c.supervised(); err != nil {
		return session.CommandRecord{}, unread(c.Path, err)
	} else if lives {
		return c.record(session.CommandRunning), nil
	}
	// The supervisor may have written the record between our reading and its death.
	if again, err := readClaim(f); err == nil {
		c = again
	}
	switch {
	case c.ExitErr != nil:
		return session.CommandRecord{}, corrupt(c.Path, c.ExitErr)
	case c.StartErr != nil:
		return session.CommandRecord{}, corrupt(c.Path, c.StartErr)
	case c.Exit != nil:
		return c.ended(), nil
	}
	lives, err := c.leader().Alive()
	if err != nil {
		return session.CommandRecord{}, unread(c.Path, err)
	}
	if lives {
		return c.record(session.CommandUnattended), nil
	}
	return c.lingers(f)
}

// supervised reports whether the supervisor that made the claim lives.
func (c claim) supervised() (bool, error) {
	by := c.Header.Supervisor
	lives, err := by.Alive()
	if lives || err != nil || !by.Elsewhere() {
		return lives, err
	}
	return supervisorLives(filepath.Dir(c.Path), &by)
}

// lingers judges a claim that is held by processes that the command left behind.
func (c claim) lingers(f *os.File) (session.CommandRecord, error) {
	left, err := c.members(f)
	if err != nil {
		return session.CommandRecord{}, unread(c.Path, err)
	}
	elsewhere := c.Header.Supervisor.Elsewhere()
	if (c.Start == nil || elsewhere) && c.leads(left) {
		return c.record(session.CommandUnattended), nil
	}
	// The leader may have been the last to hold the lock, and have ended since.
	if free, err := lockFree(f); err != nil || free {
		return c.unknown(c.unsupervised()), err
	}
	// the leader may hold it where this process cannot look
	if elsewhere && len(left) == 0 {
		return c.record(session.CommandUnattended), nil
	}
	return c.lingering(left), nil
}

func (c claim) lingering(left []member) session.CommandRecord {
	rec := c.record(session.CommandLingering)
	rec.Why = unsupervised + "; what it started still runs"
	for _, p := range left {
		rec.Left = append(rec.Left, describe(p.Process))
	}
	return rec
}

// leads reports whether the leader is among holders. It serves claims whose supervisor
// was killed between fork and start block, and claims whose pids count elsewhere. The
// leader leads a process session, or is about to.
func (c claim) leads(holders []member) bool {
	return slices.ContainsFunc(holders, func(p member) bool {
		return p.holds && (p.Session == p.PID || p.Session == c.Header.Supervisor.PID)
	})
}

func (c claim) record(state session.CommandState) session.CommandRecord {
	rec := session.CommandRecord{Key: c.Header.Key, State: state, Epoch: c.Header.Epoch, StartedUS: c.Header.AtUS, Elsewhere: c.Header.Supervisor.Elsewhere()}
	if c.Start != nil {
		rec.StartedUS = c.Start.StartedUS
		if !rec.Elsewhere {
			rec.PID = c.Start.Leader.PID
		}
	}
	return rec
}

func (c claim) ended() session.CommandRecord {
	rec := c.record(session.CommandFinished)
	e := c.Exit
	switch {
	case e.Void != "":
		rec.State, rec.Why, rec.EndedUS = session.CommandVoid, e.Void, e.EndedUS
		return rec
	case e.Unknown != "":
		rec.State, rec.Why, rec.EndedUS = session.CommandUnknown, e.Unknown, e.EndedUS
		return rec
	}
	rec.Exit, rec.Signal, rec.TimedOut, rec.Cancelled = e.Exit, e.Signal, e.TimedOut, e.Cancelled
	rec.StartError, rec.Starved, rec.EndedUS, rec.Lost = e.StartError, e.Starved, e.EndedUS, e.Lost
	for _, l := range e.Left {
		rec.Left = append(rec.Left, l.describe(c.Header.Supervisor))
	}
	if e.More > 0 {
		rec.Left = append(rec.Left, fmt.Sprintf("and %d more", e.More))
	}
	return rec
}

// isOver reports whether the state of a command is final.
func isOver(s session.CommandState) bool {
	switch s {
	case session.CommandFinished, session.CommandUnknown, session.CommandLingering, session.CommandVoid:
		return true
	}
	return false
}

// Records reads all claims below dir, ordered by start. It changes nothing. It returns
// none if the directory does not exist. unread has an error for each claim, and for the
// epoch file, that could not be read. ErrCorrupt is damage; ErrHeld in it means that a
// process of that command still runs.
func Records(dir string) (recs []session.CommandRecord, unread []error) {
	if err := checkEpoch(dir); err != nil {
		unread = append(unread, err)
	}
	entries, err := list(dir)
	if err != nil {
		return nil, append(unread, err)
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) != claimSuffix {
			continue
		}
		rec, c, err := lookAt(filepath.Join(dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			unread = append(unread, err)
			continue
		}
		rec.Stopped = c.stopped(rec)
		recs = append(recs, rec)
	}
	slices.SortStableFunc(recs, func(a, b session.CommandRecord) int { return cmp.Compare(a.StartedUS, b.StartedUS) })
	return recs, unread
}

// stopped names the stopped process because of which the command of rec does not
// continue.
func (c claim) stopped(rec session.CommandRecord) string {
	if rec.State != session.CommandRunning && rec.State != session.CommandUnattended || rec.Elsewhere {
		return ""
	}
	const said = "%s is stopped, as by Ctrl-Z: kill -CONT %d continues it"
	switch by := c.Header.Supervisor; {
	case by.Stopped():
		return fmt.Sprintf(said, "its supervisor", by.PID)
	case c.leader().Stopped():
		return fmt.Sprintf(said, "it", c.leader().PID)
	}
	return ""
}

// list returns the entries of dir, none if it does not exist.
func list(dir string) ([]os.DirEntry, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, unread(dir, err)
	}
	return entries, nil
}
