package cli

import (
	"errors"
	"slices"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

// exitCodes lists each exit status, its meaning for a script and the codes that lead to
// it (FR-063). Exit statuses are chosen only here; app chooses the hints.
func exitCodes() []terminal.ExitCode {
	row := func(exit int, meaning string, codes ...session.Code) terminal.ExitCode {
		return terminal.ExitCode{Exit: exit, Meaning: meaning, Codes: append([]session.Code{}, codes...)}
	}
	return []terminal.ExitCode{
		row(0, "done"),
		row(1, "failed in general: disk, store, a model without an answer, or a bug", session.ErrInternal, session.ErrStoreIO, session.ErrDiskFull,
			session.ErrReadOnly, session.ErrOffline, session.ErrParked, session.ErrSyncDiffers, session.ErrModel),
		row(2, "wrong usage or plan file", session.ErrUsage, session.ErrAmbiguous, session.ErrUnknownID, session.ErrPlan),
		row(3, "wrong configuration, store, workspace or key", session.ErrConfig, session.ErrNewer, session.ErrStoreMode,
			session.ErrStoreNet, session.ErrWorkspace, session.ErrKey, session.ErrRemoteAuth, session.ErrRemoteOld,
			session.ErrOtherRemote, session.ErrSyncOff),
		row(10, "approval needed and no one can be asked", session.ErrApproval),
		row(11, "out of time", session.ErrTimeout),
		row(12, "approval denied", session.ErrDenied),
		row(14, "no resumable session", session.ErrNoResumable),
		row(15, "the session is in a terminal state", session.ErrTerminal, session.ErrCancelled),
		row(16, "locked", session.ErrLocked, session.ErrLockMode, session.ErrLockOwner, session.ErrLockHolder),
		row(17, "the environment changed", session.ErrEnvironment, session.ErrFileChanged),
		row(18, "checkpoint or journal corrupt", session.ErrNoCheckpoint, session.ErrTampered, session.ErrOrder, session.ErrCorrupt),
		row(19, "planning failed", session.ErrPlanning),
		row(20, "idempotency conflict or uncertain step", session.ErrConflict, session.ErrUncertain),
		row(21, "paused by a limit", session.ErrLimit),
		row(22, "a task failed", session.ErrCommand, session.ErrStopped, session.ErrFileStep, session.ErrEscape, session.ErrGaveUp),
		row(23, "fenced: another process took over", session.ErrFenced, session.ErrForked),
		row(129, "paused by SIGHUP"),
		row(130, "paused by SIGINT"),
		row(143, "paused by SIGTERM"),
	}
}

// exitFor returns the exit status of a code; 1 for an unknown code.
func exitFor(code session.Code) int {
	for _, c := range exitCodes() {
		if slices.Contains(c.Codes, code) {
			return c.Exit
		}
	}
	return 1
}

// exitOf returns the exit status of an error; 0 for nil.
func exitOf(err error) int {
	if err == nil {
		return 0
	}
	var said quietExit
	if errors.As(err, &said) {
		return int(said)
	}
	return exitFor(app.CodeOf(err))
}

// ExitAs returns an error that ends the program with the exit status of c and prints
// nothing, because the command has already explained it.
func ExitAs(c session.Code) error { return quietExit(exitFor(c)) }

// exitOfResult returns the exit status of a session that stopped. A failed task gives 22
// for every cause but one: it gives 11 when its time-out alone stopped it and the session
// can continue.
func exitOfResult(r session.Result) int {
	switch {
	case r.Signal != 0:
		return 128 + r.Signal
	case r.Code == "":
		return 0
	case r.State == session.Failed, r.Reason == session.ReasonTaskFailed && r.Code != session.ErrTimeout && r.Code != session.ErrPlanning:
		return exitFor(session.ErrCommand)
	}
	return exitFor(r.Code)
}
