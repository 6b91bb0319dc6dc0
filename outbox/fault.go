package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/acode-dev/acode/session"
)

// call gives f its deadline, and makes its error a fault. An error of a parent that ended
// is returned as it is: nobody is to blame.
func call[T any](ctx context.Context, limit time.Duration, f func(context.Context) (T, error)) (T, error) {
	inner, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	v, err := f(inner)
	if err == nil {
		return v, nil
	}
	if ctx.Err() != nil {
		return v, ctx.Err()
	}
	return v, asFault(err)
}

// asFault finds the fault in err. An error without one broke the promise of Remote, and
// is taken for passing trouble, so that nothing is parked for it.
func asFault(err error) *session.SyncFault {
	var f *session.SyncFault
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, context.DeadlineExceeded):
		return &session.SyncFault{Class: session.FaultOffline, Cause: err}
	}
	return &session.SyncFault{Class: session.FaultServer, Cause: err}
}

// timedOut reports whether a smaller batch may cure f.
func timedOut(f *session.SyncFault) bool {
	return f.SQLState == "57014" || errors.Is(f.Cause, context.DeadlineExceeded)
}

// broke reports whether a connection ended under a call, which may have been too long for
// it.
func broke(f *session.SyncFault) bool { return f.Class == session.FaultOffline && !f.Safe }

// laneOnly reports whether f is about rows that somebody else holds, in which case other
// lanes go on.
func laneOnly(f *session.SyncFault) bool {
	return f.Class == session.FaultServer && slices.Contains([]string{"40001", "40P01", "55P03", "57014"}, f.SQLState)
}

// What stops delivery and is no fault of a call.
const (
	classOtherDatabase = "other_database"
	classStore         = "store"
)

// aboutRows reports whether an SQLSTATE may come from the rows that were sent. Those of
// connections, resources, operators and the system do not.
func aboutRows(state string) bool {
	return len(state) == 5 && !slices.Contains([]string{"08", "53", "57", "58"}, state[:2])
}

// otherDatabase is what a server of another identity is met with.
type otherDatabase struct{ have, want string }

// Error names both databases.
func (o *otherDatabase) Error() string {
	return fmt.Sprintf("the address leads to database %s, and the store was delivered to %s", o.have, o.want)
}

// OtherDatabase is the error for a server of identity have where want acknowledged
// events.
func OtherDatabase(have, want string) error {
	return Envelope(&otherDatabase{have: have, want: want})
}

// storeTrouble is a failure of the store, not of the server.
type storeTrouble struct{ cause error }

// Error gives the cause.
func (t *storeTrouble) Error() string { return "the store is in trouble: " + t.cause.Error() }

// Unwrap makes errors.Is find the cause.
func (t *storeTrouble) Unwrap() error { return t.cause }

// stateOf names the state that err puts the syncer into, the label of its class, and a
// reason.
func stateOf(err error) (state session.SyncState, class, reason string) {
	var f *session.SyncFault
	var o *otherDatabase
	switch {
	case errors.As(err, &f):
		return cmp.Or(stateOfClass[f.Class], session.SyncRetrying), string(f.Class), f.Reason()
	case errors.As(err, &o):
		return session.SyncOtherDatabase, classOtherDatabase, o.Error()
	}
	return session.SyncRetrying, classStore, err.Error()
}

// stateOfClass is what a store is in while a fault lasts; with any other it is retrying.
var stateOfClass = map[session.SyncFaultClass]session.SyncState{
	session.FaultOffline:    session.SyncOffline,
	session.FaultReadOnly:   session.SyncServerReadonly,
	session.FaultDiskFull:   session.SyncDiskFull,
	session.FaultAuth:       session.SyncAuthFailed,
	session.FaultUnmigrated: session.SyncServerUnmigrated,
	session.FaultTooNew:     session.SyncClientTooNew,
}

// Envelope makes what a person sees of a fault of the server: a *session.Error with
// ErrOffline, ErrRemoteAuth, ErrRemoteOld or ErrOtherRemote, that tells of its cause in
// words only: a deadline of a call is not that of the command. Any other error stays as
// it is.
func Envelope(err error) error {
	if err == nil {
		return nil
	}
	state, class, reason := stateOf(err)
	if class == classStore {
		return err
	}
	return envelope(state, reason)
}

// envelope is Envelope for a state and its reason, as a heartbeat keeps them. The reason
// ends with the SQLSTATE where a server answered.
func envelope(state session.SyncState, reason string) *session.Error {
	e := &session.Error{Code: session.ErrOffline, Message: "the server has trouble and everything is kept", Next: session.Do(session.MoveSyncStatus, ""), Retryable: true, Cause: errors.New(reason)}
	person := func(code session.Code, message string, next session.Hint) {
		e.Code, e.Message, e.Next, e.Retryable = code, message, next, false
	}
	said := func(sqlstate string) bool { return strings.HasSuffix(reason, "(SQLSTATE "+sqlstate+")") }
	switch state {
	case session.SyncOffline:
		e.Message = "the server cannot be reached and everything is kept"
	case session.SyncServerReadonly:
		e.Message = "the server takes no writes and everything is kept"
	case session.SyncDiskFull:
		e.Message = "the server has no room and everything is kept"
	case session.SyncOtherDatabase:
		person(session.ErrOtherRemote, "nothing was sent and everything is kept", session.Then("set sync.url to the database of before, or accept the new one", session.MoveSyncRebind, ""))
	case session.SyncAuthFailed:
		if !strings.Contains(reason, "(SQLSTATE ") {
			person(session.ErrRemoteAuth, "the server's certificate is not trusted, nothing was sent and everything is kept",
				session.Words("look at the host in sync.url, and name the file of the certificate's authority: sslrootcert in sync.url, or PGSSLROOTCERT"))
			break
		}
		person(session.ErrRemoteAuth, "the server refused role, password or right, and everything is kept", session.Then("check the role in sync.url and its password in ~/.pgpass, then", session.MoveSyncNow, ""))
	case session.SyncServerUnmigrated:
		switch {
		case said("3D000"): // invalid_catalog_name
			person(session.ErrRemoteOld, "the server has no such database, and everything is kept", session.Words("look at the database's name in sync.url, or ask the server's administrator for the database"))
		case said("42704"): // undefined_object: nothing of ours asks for one that is not there
			person(session.ErrRemoteOld, "the server does not know a parameter of its address, and everything is kept", session.Words("look at what stands behind the ? of sync.url"))
		default:
			person(session.ErrRemoteOld, "the server's schema is older than this acode needs, and everything is kept", session.Then("ask the server's administrator for", session.MoveMigrate, ""))
		}
	case session.SyncClientTooNew:
		person(session.ErrRemoteOld, "the server's schema is newer than this acode knows, and everything is kept", session.Words("install a newer acode"))
	}
	return e
}
