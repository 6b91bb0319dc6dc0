package app

import (
	"context"
	"errors"
	"strings"
	"syscall"

	"github.com/acode-dev/acode/session"
)

// codeRow says of a code whether the same call may succeed later by itself, and what to do next
// where an error does not say it (FR-064). The table is the only place where both are chosen.
type codeRow struct {
	Code      session.Code
	Retryable bool
	Hint      string
}

func codes() []codeRow {
	const look = "look at what happened: acode session history ID"
	return []codeRow{
		{session.ErrInternal, false, "this is a bug in acode; the log in the state directory says more; the session can be resumed"},
		{session.ErrStoreIO, false, "check the disk, then resume; what was acknowledged is kept"},
		{session.ErrDiskFull, true, "make room, then resume; what was acknowledged is kept"},
		{session.ErrReadOnly, false, "make the file system writable, then resume; what was acknowledged is kept"},
		{session.ErrUsage, false, "acode --help"},
		{session.ErrAmbiguous, false, "give more of the id"},
		{session.ErrUnknownID, false, "acode session list --all"},
		{session.ErrPlan, false, "mend the plan file; acode schema plan describes it; nothing was changed"},
		{session.ErrConfig, false, "mend the configuration; acode schema config describes it; nothing was changed"},
		{session.ErrNewer, false, "use an acode that is at least as new as the one that wrote the store"},
		{session.ErrStoreMode, false, "make the store yours alone: directories 0700, files 0600"},
		{session.ErrStoreNet, false, "put ACODE_HOME on a local file system"},
		{session.ErrWorkspace, false, "work in a project directory, or name this one with --allow-workspace"},
		{session.ErrKey, false, "make the key available again; nothing was changed"},
		{session.ErrApproval, false, "acode approve ID, then acode resume ID"},
		{session.ErrTimeout, true, "resume goes on from the last checkpoint"},
		{session.ErrDenied, false, "resume asks anew"},
		{session.ErrNoResumable, false, "start one with: acode run --plan FILE"},
		{session.ErrTerminal, false, "start a new session: acode run --plan FILE"},
		{session.ErrCancelled, false, "start a new session: acode run --plan FILE"},
		{session.ErrLocked, true, "wait for it, or resume with --wait; acode session unlock explains who holds what"},
		{session.ErrLockMode, false, "look at who changed the lock file before you restore its mode to 0600"},
		{session.ErrLockOwner, false, "look at who owns the lock file; the session is theirs"},
		{session.ErrLockHolder, false, "look at the process that holds the lock"},
		{session.ErrEnvironment, false, "look at the changes: acode resume --dry-run ID"},
		{session.ErrFileChanged, false, "look at the file, then resume"},
		{session.ErrNoCheckpoint, false, "acode verify ID"},
		{session.ErrTampered, false, "acode verify ID"},
		{session.ErrOrder, false, "acode verify ID"},
		{session.ErrCorrupt, false, "acode verify ID"},
		{session.ErrPlanning, false, "acode verify ID"},
		{session.ErrConflict, false, look},
		{session.ErrUncertain, false, "find out whether it happened, then: acode resume ID --uncertain=<rerun|done|fail>"},
		{session.ErrCommand, false, "mend the cause, then resume: the step runs again as a new attempt"},
		{session.ErrStopped, false, "resume: the check of the step is asked first; without one the step runs again as a new attempt"},
		{session.ErrFileStep, false, "mend the cause, then resume: the step runs again as a new attempt"},
		{session.ErrEscape, false, "mend the path, then resume: the step runs again as a new attempt"},
		{session.ErrFenced, false, "another process went on with this session: acode status ID"},
		{session.ErrForked, false, "another copy of this session went on: acode status ID, then acode sync fork-off ID"},
		{session.ErrOffline, true, "nothing is lost; work goes on locally and is delivered later: acode sync status"},
		{session.ErrRemoteAuth, false, "look at the role, the password file and the certificate; nothing is lost"},
		{session.ErrRemoteOld, false, "the server's operator runs: acode admin migrate; nothing is lost"},
		{session.ErrOtherRemote, false, "go back to the former address, or: acode sync rebind"},
		{session.ErrParked, false, "acode sync parked list"},
		{session.ErrSyncDiffers, false, "acode sync status; what is only here is delivered again"},
		{session.ErrSyncOff, false, "name a server: ACODE_POSTGRES_URL or sync.url in the user's configuration"},
	}
}

func rowOf(c session.Code) codeRow {
	for _, r := range codes() {
		if r.Code == c {
			return r
		}
	}
	return codes()[0]
}

// CodeOf gives the code of an error: of any deadline that passed ErrTimeout, of an error that has
// none ErrInternal.
func CodeOf(err error) session.Code {
	if errors.Is(err, context.DeadlineExceeded) {
		return session.ErrTimeout
	}
	return session.CodeOf(err)
}

// Hint is what to do next about an error that does not say it itself.
func Hint(err error) string { return rowOf(CodeOf(err)).Hint }

// Retryable reports whether a call that ended with err may succeed later by itself.
func Retryable(err error) bool {
	var e *session.Error
	return errors.As(err, &e) && e.Retryable || rowOf(CodeOf(err)).Retryable
}

// Shortage makes an error that a limit of this process or of the machine is behind say so: neither the call that
// met the limit nor a bug is the cause. Other errors stay what they are.
func Shortage(err error) error {
	starved := errors.Is(err, syscall.EAGAIN) && session.CodeOf(err) == session.ErrInternal // a lock that is held says that too
	for _, limit := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		starved = starved || errors.Is(err, limit)
	}
	if !starved {
		return err
	}
	return &session.Error{Code: session.ErrInternal, Message: err.Error(), Retryable: true,
		Next: "the machine gives acode no more files, processes or memory (ulimit -a); give it more, then resume"}
}

// about has err, of the session short, name that session in what there is to do where only its code says that.
func about(short string, err error) error {
	var e *session.Error
	if errors.As(err, &e) && e.Next == "" {
		e.Next = strings.ReplaceAll(Hint(err), " ID", " "+short)
	}
	return err
}
