package session

import (
	"errors"
	"time"
)

// Code names a kind of failure that a person or a script can act on. A Code is an error,
// so callers match it with errors.Is. The exit status depends only on the code.
type Code string

// Error returns the code as text.
func (c Code) Error() string { return string(c) }

// The codes, in the groups of the table of exit statuses. The requirements fix the names
// of the first three groups and of FILE-001.
const (
	// no resumable session found
	ErrNoResumable Code = "ACODE-RESUME-001"
	// the session is completed, failed or cancelled
	ErrTerminal Code = "ACODE-RESUME-002"
	// another process executes the session or workspace
	ErrLocked Code = "ACODE-RESUME-003"
	// the environment has changed since the session stopped
	ErrEnvironment Code = "ACODE-RESUME-004"
	// no valid checkpoint, or a journal that cannot be trusted
	ErrNoCheckpoint Code = "ACODE-RESUME-005"
	// no continuation could be planned
	ErrPlanning Code = "ACODE-RESUME-006"
	// one idempotency key, two payloads
	ErrConflict Code = "ACODE-RESUME-007"

	// the lock file has other permissions than 0600
	ErrLockMode Code = "LOCK-001"
	// the lock file belongs to another user
	ErrLockOwner Code = "LOCK-002"
	// a live holder is not acode
	ErrLockHolder Code = "LOCK-003"

	// an HMAC does not match, or the store is older than the copies of its latest commits
	ErrTampered Code = "CKPT-001"
	// a file differs from its recorded hash
	ErrFileChanged Code = "FILE-001"

	// time order and seq order differ (FR-038)
	ErrOrder Code = "ACODE-JOURNAL-001"
	// the chain, a blob or the database is damaged
	ErrCorrupt Code = "ACODE-JOURNAL-002"
	// the store was written by a newer acode
	ErrNewer Code = "ACODE-STORE-001"
	// the store belongs to another user, or other users can read it
	ErrStoreMode Code = "ACODE-STORE-002"
	// the store lies on a network file system
	ErrStoreNet Code = "ACODE-STORE-003"
	// the store could not be read or written
	ErrStoreIO Code = "ACODE-STORE-004"
	// the disk is full
	ErrDiskFull Code = "ACODE-STORE-005"
	// the file system or the store is read-only
	ErrReadOnly Code = "ACODE-STORE-006"
	// the key for decryption or signatures is missing
	ErrKey Code = "ACODE-KEY-001"
	// another process took the session over
	ErrFenced Code = "ACODE-FENCE-001"
	// the server has another history of the session
	ErrForked Code = "ACODE-FENCE-002"

	// the server cannot be reached or has a temporary problem
	ErrOffline Code = "ACODE-SYNC-001"
	// the server refused the role, the password or an operation
	ErrRemoteAuth Code = "ACODE-SYNC-002"
	// the server's schema and this program are not compatible
	ErrRemoteOld Code = "ACODE-SYNC-003"
	// the address leads to a different database than before
	ErrOtherRemote Code = "ACODE-SYNC-004"
	// the server refused a row
	ErrParked Code = "ACODE-SYNC-005"
	// the store and the server hold different data
	ErrSyncDiffers Code = "ACODE-SYNC-006"
	// no server is configured
	ErrSyncOff Code = "ACODE-SYNC-007"

	// the plan file is wrong
	ErrPlan Code = "ACODE-PLAN-001"
	// the configuration is wrong
	ErrConfig Code = "ACODE-CONFIG-001"
	// the workspace is refused
	ErrWorkspace Code = "ACODE-WORKSPACE-001"
	// a path leaves the workspace or is not a regular file
	ErrEscape Code = "ACODE-WORKSPACE-002"
	// a file step cannot be carried out as written
	ErrFileStep Code = "ACODE-STEP-001"
	// a command failed
	ErrCommand Code = "ACODE-STEP-002"
	// a step or session ran out of time
	ErrTimeout Code = "ACODE-STEP-003"
	// the outcome of a command is unknown
	ErrUncertain Code = "ACODE-STEP-004"
	// acode ended a command because of a cancel or a second signal
	ErrStopped Code = "ACODE-STEP-005"
	// a model gave no answer
	ErrModel Code = "ACODE-MODEL-001"
	// a limit of a person is reached
	ErrLimit Code = "ACODE-LIMIT-001"
	// a model gave up
	ErrGaveUp Code = "ACODE-STEP-006"
	// approval is needed and no one can be asked
	ErrApproval Code = "ACODE-APPROVAL-001"
	// approval was denied
	ErrDenied Code = "ACODE-APPROVAL-002"
	// another process cancelled the session
	ErrCancelled Code = "ACODE-SESSION-001"
	// the command line is wrong
	ErrUsage Code = "ACODE-USAGE-001"
	// several sessions have ids with this prefix
	ErrAmbiguous Code = "ACODE-USAGE-002"
	// no session has this id
	ErrUnknownID Code = "ACODE-USAGE-003"
	// acode found an error of its own
	ErrInternal Code = "ACODE-INTERNAL-001"
)

// Ordered reports whether c is the failure of a command that acode itself ended after a
// timeout, a cancel or a second signal. The command may have finished its work by then.
// acode therefore runs its check before it runs the command again.
func (c Code) Ordered() bool { return c == ErrTimeout || c == ErrStopped }

// Error is the form of every failure that reaches a person or a script (FR-063, FR-064).
type Error struct {
	// Code names the kind of failure and decides the exit status and the default hint.
	Code Code
	// Message is one sentence: what failed and what was kept.
	Message string
	// Place is file:line:column, a path or a seq; it may be empty.
	Place string
	// Next says what to do next. If it is zero, the hint of the code applies.
	Next Hint
	// Retryable says that the same call may succeed later.
	Retryable bool
	// Wait is how long the other side asks to wait before the next call; 0 if it does not
	// say.
	Wait time.Duration
	// Cause is nil if the message is complete.
	Cause error
}

// Error returns the place, the message and the cause, without code and hint.
func (e *Error) Error() string {
	s := e.Message
	if e.Place != "" {
		s = e.Place + ": " + s
	}
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is reports whether target is the code of e.
func (e *Error) Is(target error) bool {
	c, ok := target.(Code)
	return ok && c == e.Code
}

// CodeOf returns the outermost code in the chain of err, or ErrInternal if there is none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	var c Code
	if errors.As(err, &c) {
		return c
	}
	return ErrInternal
}
