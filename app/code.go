package app

import (
	"context"
	"errors"
	"syscall"

	"github.com/acode-dev/acode/session"
)

// codeRow says of a code whether the same call may succeed later by itself, and what to do next
// where an error does not say it (FR-064). The table is the only place where both are chosen.
type codeRow struct {
	Code      session.Code
	Retryable bool
	Hint      session.Hint
}

func codes() []codeRow {
	return []codeRow{
		{session.ErrInternal, false, session.Words("this is a bug in acode; the log in the state directory says more; the session can be resumed")},
		{session.ErrStoreIO, false, session.Words("check the disk, then resume; what was acknowledged is kept")},
		{session.ErrDiskFull, true, session.Words("make room, then resume; what was acknowledged is kept")},
		{session.ErrReadOnly, false, session.Words("make the file system writable, then resume; what was acknowledged is kept")},
		{session.ErrUsage, false, session.Do(session.MoveHelp, "")},
		{session.ErrAmbiguous, false, session.Words("give more of the id")},
		{session.ErrUnknownID, false, session.Do(session.MoveList, "")},
		{session.ErrPlan, false, session.Then("nothing was changed; correct the plan file; to see its format", session.MovePlanSchema, "")},
		{session.ErrConfig, false, session.Then("nothing was changed; correct the configuration; to see its format", session.MoveConfigSchema, "")},
		{session.ErrNewer, false, session.Words("use an acode that is at least as new as the one that wrote the store")},
		{session.ErrStoreMode, false, session.Words("make the store yours alone: directories 0700, files 0600")},
		{session.ErrStoreNet, false, session.Words("put ACODE_HOME on a local file system")},
		{session.ErrWorkspace, false, session.Then("work in a project directory, or name this one with", session.MoveAllowWorkspace, "")},
		{session.ErrKey, false, session.Words("make the key available again; nothing was changed")},
		{session.ErrApproval, false, session.Do(session.MoveApproveResume, "")},
		{session.ErrTimeout, true, session.Words("resume goes on from the last checkpoint")},
		{session.ErrDenied, false, session.Words("resume asks again")},
		{session.ErrNoResumable, false, session.Then("start one with", session.MoveRun, "")},
		{session.ErrTerminal, false, session.Then("start a new session", session.MoveRun, "")},
		{session.ErrCancelled, false, session.Then("start a new session", session.MoveRun, "")},
		{session.ErrLocked, true, session.Then("wait for it; to see who holds what", session.MoveUnlock, "")},
		{session.ErrLockMode, false, session.Words("look at who changed the lock file before you restore its mode to 0600")},
		{session.ErrLockOwner, false, session.Words("look at who owns the lock file; the session is theirs")},
		{session.ErrLockHolder, false, session.Words("look at the process that holds the lock")},
		{session.ErrEnvironment, false, session.Then("look at the changes", session.MoveForecast, "")},
		{session.ErrFileChanged, false, session.Words("look at the file, then resume")},
		{session.ErrNoCheckpoint, false, session.Do(session.MoveVerify, "")},
		{session.ErrTampered, false, session.Do(session.MoveVerify, "")},
		{session.ErrOrder, false, session.Do(session.MoveVerify, "")},
		{session.ErrCorrupt, false, session.Do(session.MoveVerify, "")},
		{session.ErrPlanning, false, session.Do(session.MoveVerify, "")},
		{session.ErrConflict, false, session.Then("look at what happened", session.MoveHistory, "")},
		{session.ErrUncertain, false, session.Then("find out whether it happened, then", session.MoveAnswer, "")},
		{session.ErrCommand, false, session.Words("fix the cause, then resume: the step runs again as a new attempt")},
		{session.ErrStopped, false, session.Words("resume: the check of the step is asked first; without one the step runs again as a new attempt")},
		{session.ErrFileStep, false, session.Words("fix the cause, then resume: the step runs again as a new attempt")},
		{session.ErrEscape, false, session.Words("fix the path, then resume: the step runs again as a new attempt")},
		{session.ErrFenced, false, session.Then("another process went on with this session", session.MoveStatus, "")},
		{session.ErrForked, false, session.Then("another copy of this session went on; to make a new session of what is here", session.MoveForkOff, "")},
		{session.ErrOffline, true, session.Then("nothing is lost; work goes on locally and is delivered later", session.MoveSyncStatus, "")},
		{session.ErrRemoteAuth, false, session.Words("look at the role, the password file and the certificate; nothing is lost")},
		{session.ErrRemoteOld, false, session.Then("nothing is lost; the server's operator runs", session.MoveMigrate, "")},
		{session.ErrOtherRemote, false, session.Then("go back to the former address, or", session.MoveSyncRebind, "")},
		{session.ErrParked, false, session.Do(session.MoveSyncParked, "")},
		{session.ErrSyncDiffers, false, session.Then("what is only here is delivered again", session.MoveSyncStatus, "")},
		{session.ErrSyncOff, false, session.Words("name a server: ACODE_POSTGRES_URL or sync.url in the user's configuration")},
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
func Hint(err error) session.Hint { return rowOf(CodeOf(err)).Hint }

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
		Next: session.Words("the machine gives acode no more files, processes or memory (ulimit -a); give it more, then resume")}
}

// about has err, of the session short, name that session in what there is to do where only its code says that.
func about(short string, err error) error {
	var e *session.Error
	if errors.As(err, &e) && e.Next.IsZero() {
		if e.Next = Hint(err); e.Next.Do != "" {
			e.Next.Session = short
		}
	}
	return err
}
