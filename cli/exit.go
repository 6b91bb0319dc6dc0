package cli

import (
	"context"
	"errors"
	"syscall"

	"github.com/acode-dev/acode/session"
)

// exitRow says what one code means to a script and to a person (FR-063, FR-064). The table
// is the only place where exit statuses and hints are chosen.
type exitRow struct {
	Code session.Code
	Exit int
	Hint string
}

func exitTable() []exitRow {
	const look = "look at what happened: acode session history ID"
	return []exitRow{
		{session.ErrInternal, 1, "this is a bug in acode; the log in the state directory says more; the session can be resumed"},
		{session.ErrStoreIO, 1, "check the disk, then resume; what was acknowledged is kept"},
		{session.ErrDiskFull, 1, "make room, then resume; what was acknowledged is kept"},
		{session.ErrReadOnly, 1, "make the file system writable, then resume; what was acknowledged is kept"},
		{session.ErrUsage, 2, "acode --help"},
		{session.ErrAmbiguous, 2, "give more of the id"},
		{session.ErrUnknownID, 2, "acode session list --all"},
		{session.ErrPlan, 2, "mend the plan file; acode schema plan describes it; nothing was changed"},
		{session.ErrConfig, 3, "mend the configuration; acode schema config describes it; nothing was changed"},
		{session.ErrNewer, 3, "use an acode that is at least as new as the one that wrote the store"},
		{session.ErrStoreMode, 3, "make the store yours alone: directories 0700, files 0600"},
		{session.ErrStoreNet, 3, "put ACODE_HOME on a local file system"},
		{session.ErrWorkspace, 3, "work in a project directory, or name this one with --allow-workspace"},
		{session.ErrKey, 3, "make the key available again; nothing was changed"},
		{session.ErrApproval, 10, "acode approve ID, then acode resume ID"},
		{session.ErrTimeout, 11, "resume goes on from the last checkpoint"},
		{session.ErrDenied, 12, "resume asks anew"},
		{session.ErrNoResumable, 14, "start one with: acode run --plan FILE"},
		{session.ErrTerminal, 15, "start a new session: acode run --plan FILE"},
		{session.ErrCancelled, 15, "start a new session: acode run --plan FILE"},
		{session.ErrLocked, 16, "wait for it, or resume with --wait; acode session unlock explains who holds what"},
		{session.ErrLockMode, 16, "look at who changed the lock file before you restore its mode to 0600"},
		{session.ErrLockOwner, 16, "look at who owns the lock file; the session is theirs"},
		{session.ErrLockHolder, 16, "look at the process that holds the lock"},
		{session.ErrEnvironment, 17, "look at the changes: acode resume --dry-run ID"},
		{session.ErrFileChanged, 17, "look at the file, then resume"},
		{session.ErrNoCheckpoint, 18, "acode verify ID"},
		{session.ErrTampered, 18, "acode verify ID"},
		{session.ErrOrder, 18, "acode verify ID"},
		{session.ErrCorrupt, 18, "acode verify ID"},
		{session.ErrPlanning, 19, "acode verify ID"},
		{session.ErrConflict, 20, look},
		{session.ErrUncertain, 20, "find out whether it happened, then: acode resume ID --uncertain=<rerun|done|fail>"},
		{session.ErrCommand, 22, "mend the cause, then resume: the step runs again as a new attempt"},
		{session.ErrStopped, 22, "resume: the check of the step is asked first; without one the step runs again as a new attempt"},
		{session.ErrFileStep, 22, "mend the cause, then resume: the step runs again as a new attempt"},
		{session.ErrEscape, 22, "mend the path, then resume: the step runs again as a new attempt"},
		{session.ErrFenced, 23, "another process went on with this session: acode status ID"},
		{session.ErrForked, 23, "another copy of this session went on: acode status ID, then acode sync fork-off ID"},
		{session.ErrOffline, 1, "nothing is lost; work goes on locally and is delivered later: acode sync status"},
		{session.ErrRemoteAuth, 3, "look at the role, the password file and the certificate; nothing is lost"},
		{session.ErrRemoteOld, 3, "the server's operator runs: acode admin migrate; nothing is lost"},
		{session.ErrOtherRemote, 3, "go back to the former address, or: acode sync rebind"},
		{session.ErrParked, 1, "acode sync parked list"},
		{session.ErrSyncDiffers, 1, "acode sync status; what is only here is delivered again"},
		{session.ErrSyncOff, 3, "name a server: ACODE_POSTGRES_URL or sync.url in the user's configuration"},
	}
}

// exitMeaning says what an exit status means.
type exitMeaning struct {
	Exit    int
	Meaning string
}

func exitMeanings() []exitMeaning {
	return []exitMeaning{
		{0, "done"},
		{1, "failed in general: disk, store, or a bug"},
		{2, "wrong usage or plan file"},
		{3, "wrong configuration, store, workspace or key"},
		{10, "approval needed and nobody can be asked"},
		{11, "out of time"},
		{12, "approval denied"},
		{14, "no resumable session"},
		{15, "the session is in a terminal state"},
		{16, "locked"},
		{17, "the environment changed"},
		{18, "checkpoint or journal corrupt"},
		{19, "planning failed"},
		{20, "idempotency conflict or uncertain step"},
		{22, "a task failed"},
		{23, "fenced: another process took over"},
		{129, "paused by SIGHUP"},
		{130, "paused by SIGINT"},
		{143, "paused by SIGTERM"},
	}
}

func rowOf(c session.Code) exitRow {
	for _, r := range exitTable() {
		if r.Code == c {
			return r
		}
	}
	return exitTable()[0]
}

// exitOf gives the exit status and the hint of an error; 0 for nil.
func exitOf(err error) (int, string) {
	if err == nil {
		return 0, ""
	}
	var sig interface{ ExitStatus() int }
	if errors.As(err, &sig) {
		return sig.ExitStatus(), ""
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return rowOf(session.ErrTimeout).Exit, rowOf(session.ErrTimeout).Hint
	}
	r := rowOf(session.CodeOf(err))
	return r.Exit, r.Hint
}

// shortage makes an error that a limit of this process or of the machine is behind say so: whatever met
// that limit is not what is wrong, nor is it a bug. Other errors stay what they are.
func shortage(err error) error {
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

// exitOfResult gives the exit status of a session that stopped. A failed task is 22 whatever
// made it fail, or 11 when only its time-out did and the session can go on.
func exitOfResult(r session.Result) int {
	switch {
	case r.Signal != 0:
		return 128 + r.Signal
	case r.Code == "":
		return 0
	case r.State == session.Failed, r.Reason == session.ReasonTaskFailed && r.Code != session.ErrTimeout:
		return rowOf(session.ErrCommand).Exit
	}
	return rowOf(r.Code).Exit
}
