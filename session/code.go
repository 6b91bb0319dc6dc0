package session

import "errors"

// Code names a failure that somebody can act on. A Code is itself an error, so that
// callers match it with errors.Is; the exit status is chosen from it alone.
type Code string

// Error implements error.
func (c Code) Error() string { return string(c) }

// The codes, in the groups of the exit table. Names of 011.c are kept as they are.
const (
	// no resumable session found
	ErrNoResumable Code = "ACODE-RESUME-001"
	// the session is completed, failed or cancelled
	ErrTerminal Code = "ACODE-RESUME-002"
	// another process executes the session or workspace
	ErrLocked Code = "ACODE-RESUME-003"
	// the environment is not what the session left
	ErrEnvironment Code = "ACODE-RESUME-004"
	// no valid checkpoint, or a journal that is not trusted
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

	// an HMAC does not match, or the store is older than its heads
	ErrTampered Code = "CKPT-001"
	// a file is not what was hashed before
	ErrFileChanged Code = "FILE-001"

	// time order and seq order differ (FR-038)
	ErrOrder Code = "ACODE-JOURNAL-001"
	// the chain, a blob or the database is damaged
	ErrCorrupt Code = "ACODE-JOURNAL-002"
	// the store was written by a newer acode
	ErrNewer Code = "ACODE-STORE-001"
	// the store belongs to somebody else or is open to others
	ErrStoreMode Code = "ACODE-STORE-002"
	// the store lies on a network file system
	ErrStoreNet Code = "ACODE-STORE-003"
	// the store could not be read or written
	ErrStoreIO Code = "ACODE-STORE-004"
	// no room left
	ErrDiskFull Code = "ACODE-STORE-005"
	// the file system or the store is read-only
	ErrReadOnly Code = "ACODE-STORE-006"
	// the key that sealed or signed is not at hand
	ErrKey Code = "ACODE-KEY-001"
	// another process took the session over
	ErrFenced Code = "ACODE-FENCE-001"
	// the server has another history of the session
	ErrForked Code = "ACODE-FENCE-002"

	// the server cannot be reached, or has passing trouble
	ErrOffline Code = "ACODE-SYNC-001"
	// the server refused role, password or right
	ErrRemoteAuth Code = "ACODE-SYNC-002"
	// the server's schema and this program do not fit
	ErrRemoteOld Code = "ACODE-SYNC-003"
	// the address leads to another database than before
	ErrOtherRemote Code = "ACODE-SYNC-004"
	// the server refused a row
	ErrParked Code = "ACODE-SYNC-005"
	// store and server do not hold the same
	ErrSyncDiffers Code = "ACODE-SYNC-006"
	// no server is configured
	ErrSyncOff Code = "ACODE-SYNC-007"

	// the plan file is wrong
	ErrPlan Code = "ACODE-PLAN-001"
	// the configuration is wrong
	ErrConfig Code = "ACODE-CONFIG-001"
	// the workspace is refused
	ErrWorkspace Code = "ACODE-WORKSPACE-001"
	// a path leaves the workspace or is no regular file
	ErrEscape Code = "ACODE-WORKSPACE-002"
	// a file step cannot be carried out as written
	ErrFileStep Code = "ACODE-STEP-001"
	// a command failed
	ErrCommand Code = "ACODE-STEP-002"
	// a step or session ran out of time
	ErrTimeout Code = "ACODE-STEP-003"
	// it cannot be known whether an effect happened
	ErrUncertain Code = "ACODE-STEP-004"
	// acode ended a command: a cancel, or a second signal
	ErrStopped Code = "ACODE-STEP-005"
	// approval is needed and nobody can be asked
	ErrApproval Code = "ACODE-APPROVAL-001"
	// approval was denied
	ErrDenied Code = "ACODE-APPROVAL-002"
	// the session was cancelled from elsewhere
	ErrCancelled Code = "ACODE-SESSION-001"
	// the command line is wrong
	ErrUsage Code = "ACODE-USAGE-001"
	// an id prefix fits several sessions
	ErrAmbiguous Code = "ACODE-USAGE-002"
	// no session has this id
	ErrUnknownID Code = "ACODE-USAGE-003"
	// acode broke a promise of its own
	ErrInternal Code = "ACODE-INTERNAL-001"
)

// Ordered reports whether c is the failure of a command that acode itself ended, by its
// timeout, a cancel or a second signal. The command may have done its work by then, so
// that its check is asked before it runs again.
func (c Code) Ordered() bool { return c == ErrTimeout || c == ErrStopped }

// Error is the one envelope of a failure that a person or a script can meet (FR-063,
// FR-064).
type Error struct {
	// what kind of failure; decides exit status and hint
	Code Code
	// what happened and what was kept, one sentence
	Message string
	// file:line:column, path or seq; empty when there is none
	Place string
	// what to do next; empty leaves the hint to the code's own
	Next Hint
	// the same call may succeed later
	Retryable bool
	// nil when the message says all
	Cause error
}

// Error gives the message, its place and its cause, without code or hint.
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

// Unwrap makes errors.Is find the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is makes errors.Is(err, code) true for the envelope's own code.
func (e *Error) Is(target error) bool {
	c, ok := target.(Code)
	return ok && c == e.Code
}

// CodeOf returns the code that err carries, the outermost first, or ErrInternal.
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
