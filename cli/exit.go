package cli

import (
	"errors"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
)

// exitRow says what one code means to a script (FR-063). The table is the only place where exit
// statuses are chosen; app chooses the hints.
type exitRow struct {
	Code session.Code
	Exit int
}

func exitTable() []exitRow {
	return []exitRow{
		{session.ErrInternal, 1},
		{session.ErrStoreIO, 1},
		{session.ErrDiskFull, 1},
		{session.ErrReadOnly, 1},
		{session.ErrUsage, 2},
		{session.ErrAmbiguous, 2},
		{session.ErrUnknownID, 2},
		{session.ErrPlan, 2},
		{session.ErrConfig, 3},
		{session.ErrNewer, 3},
		{session.ErrStoreMode, 3},
		{session.ErrStoreNet, 3},
		{session.ErrWorkspace, 3},
		{session.ErrKey, 3},
		{session.ErrApproval, 10},
		{session.ErrTimeout, 11},
		{session.ErrDenied, 12},
		{session.ErrNoResumable, 14},
		{session.ErrTerminal, 15},
		{session.ErrCancelled, 15},
		{session.ErrLocked, 16},
		{session.ErrLockMode, 16},
		{session.ErrLockOwner, 16},
		{session.ErrLockHolder, 16},
		{session.ErrEnvironment, 17},
		{session.ErrFileChanged, 17},
		{session.ErrNoCheckpoint, 18},
		{session.ErrTampered, 18},
		{session.ErrOrder, 18},
		{session.ErrCorrupt, 18},
		{session.ErrPlanning, 19},
		{session.ErrConflict, 20},
		{session.ErrUncertain, 20},
		{session.ErrCommand, 22},
		{session.ErrStopped, 22},
		{session.ErrFileStep, 22},
		{session.ErrEscape, 22},
		{session.ErrFenced, 23},
		{session.ErrForked, 23},
		{session.ErrOffline, 1},
		{session.ErrRemoteAuth, 3},
		{session.ErrRemoteOld, 3},
		{session.ErrOtherRemote, 3},
		{session.ErrParked, 1},
		{session.ErrSyncDiffers, 1},
		{session.ErrSyncOff, 3},
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

// exitOf gives the exit status of an error; 0 for nil.
func exitOf(err error) int {
	if err == nil {
		return 0
	}
	var sig interface{ ExitStatus() int }
	if errors.As(err, &sig) {
		return sig.ExitStatus()
	}
	return rowOf(app.CodeOf(err)).Exit
}

// ExitAs ends the program with the status that code c decides, when all was explained already.
func ExitAs(c session.Code) error { return quietExit(rowOf(c).Exit) }

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
