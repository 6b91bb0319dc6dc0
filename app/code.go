package app

import (
	"context"
	"errors"
	"syscall"

	"github.com/acode-dev/acode/session"
)

// hints returns the default next step of each code, for errors without one (FR-064). No
// other place chooses a default.
func hints() map[session.Code]session.Hint {
	verify := session.Do(session.MoveVerify, "")
	another := session.Then("start a new session", session.MoveRun, "")
	return map[session.Code]session.Hint{
		session.ErrInternal:     session.Words("this is a bug in acode; the log in the state directory says more; the session can be resumed"),
		session.ErrStoreIO:      session.Words("check the disk, then resume; all acknowledged work is kept"),
		session.ErrDiskFull:     session.Words("make room, then resume; all acknowledged work is kept"),
		session.ErrReadOnly:     session.Words("make the file system writable, then resume; all acknowledged work is kept"),
		session.ErrUsage:        session.Do(session.MoveHelp, ""),
		session.ErrAmbiguous:    session.Words("give more of the id"),
		session.ErrUnknownID:    session.Do(session.MoveList, ""),
		session.ErrPlan:         session.Then("nothing was changed; correct the plan file; to see its format", session.MovePlanSchema, ""),
		session.ErrConfig:       session.Then("nothing was changed; correct the configuration; to see its format", session.MoveConfigSchema, ""),
		session.ErrNewer:        session.Words("use an acode that is at least as new as the one that wrote the store"),
		session.ErrStoreMode:    session.Words("make the store yours alone: directories 0700, files 0600"),
		session.ErrStoreNet:     session.Words("put ACODE_HOME on a local file system"),
		session.ErrWorkspace:    session.Then("work in a project directory, or name this one with", session.MoveAllowWorkspace, ""),
		session.ErrKey:          session.Words("make the key available again; nothing was changed"),
		session.ErrApproval:     session.Do(session.MoveApproveResume, ""),
		session.ErrTimeout:      session.Words("resume continues from the last checkpoint"),
		session.ErrDenied:       session.Words("resume asks again"),
		session.ErrNoResumable:  session.Then("start one with", session.MoveRun, ""),
		session.ErrTerminal:     another,
		session.ErrCancelled:    another,
		session.ErrLocked:       session.Then("wait for it; to see who holds the locks", session.MoveUnlock, ""),
		session.ErrLockMode:     session.Words("look at who changed the lock file before you restore its mode to 0600"),
		session.ErrLockOwner:    session.Words("look at who owns the lock file; the session is theirs"),
		session.ErrLockHolder:   session.Words("look at the process that holds the lock"),
		session.ErrEnvironment:  session.Then("look at the changes", session.MoveForecast, ""),
		session.ErrFileChanged:  session.Words("look at the file, then resume"),
		session.ErrNoCheckpoint: verify,
		session.ErrTampered:     verify,
		session.ErrOrder:        verify,
		session.ErrCorrupt:      verify,
		session.ErrPlanning:     verify,
		session.ErrConflict:     session.Then("look at what happened", session.MoveHistory, ""),
		session.ErrUncertain:    session.Then("find out whether it happened, then", session.MoveAnswer, ""),
		session.ErrCommand:      session.Words("fix the cause, then resume: the step runs again as a new attempt"),
		session.ErrModel:        session.Words("resume asks the model again; all calls that it made are kept"),
		session.ErrLimit:        session.Words("resume allows as much again"),
		session.ErrStopped:      session.Words("resume: the check of the step is asked first; without one the step runs again as a new attempt"),
		session.ErrGaveUp:       session.Words("fix the cause, then resume: the model begins again, in a new conversation"),
		session.ErrFileStep:     session.Words("fix the cause, then resume: the step runs again as a new attempt"),
		session.ErrEscape:       session.Words("fix the path, then resume: the step runs again as a new attempt"),
		session.ErrFenced:       session.Then("another process continued this session", session.MoveStatus, ""),
		session.ErrForked:       session.Then("another copy of this session was continued; to make a new session from this copy", session.MoveForkOff, ""),
		session.ErrOffline:      session.Then("nothing is lost; work continues locally and is delivered later", session.MoveSyncStatus, ""),
		session.ErrRemoteAuth:   session.Words("look at the role, the password file and the certificate; nothing is lost"),
		session.ErrRemoteOld:    session.Then("nothing is lost; the server's operator runs", session.MoveMigrate, ""),
		session.ErrOtherRemote:  session.Then("go back to the former address, or", session.MoveSyncRebind, ""),
		session.ErrParked:       session.Do(session.MoveSyncParked, ""),
		session.ErrSyncDiffers:  session.Then("events that only this store has are delivered again", session.MoveSyncStatus, ""),
		session.ErrSyncOff:      session.Words("name a server: ACODE_POSTGRES_URL or sync.url in the user's configuration"),
	}
}

// CodeOf returns the code of an error. It is ErrTimeout for any passed deadline, and
// ErrInternal for an error without a code.
func CodeOf(err error) session.Code {
	if errors.Is(err, context.DeadlineExceeded) {
		return session.ErrTimeout
	}
	return session.CodeOf(err)
}

// Hint returns the default next step for an error that has none.
func Hint(err error) session.Hint {
	all := hints()
	if h, ok := all[CodeOf(err)]; ok {
		return h
	}
	return all[session.ErrInternal]
}

// Shortage returns an error that names the limit if err is caused by a limit of this
// process or of the machine. The failed call and acode are not to blame then. It returns
// other errors unchanged.
func Shortage(err error) error {
	starved := errors.Is(err, syscall.EAGAIN) && session.CodeOf(err) == session.ErrInternal // a held lock returns EAGAIN too
	for _, limit := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		starved = starved || errors.Is(err, limit)
	}
	if !starved {
		return err
	}
	return &session.Error{Code: session.ErrInternal, Message: err.Error(), Retryable: true,
		Next: session.Words("the machine gives acode no more files, processes or memory (ulimit -a); give it more, then resume")}
}

// about sets the next step of err where err has only a code, and names the session short
// in it.
func about(short string, err error) error {
	var e *session.Error
	if errors.As(err, &e) && e.Next.IsZero() {
		if e.Next = Hint(err); e.Next.Do != "" {
			e.Next.Session = short
		}
	}
	return err
}
