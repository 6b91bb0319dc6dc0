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

// call gives f its deadline, and returns its error as a fault. It returns the error of a
// parent context that ended as it is, because that is not the server's fault.
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

// asFault returns the fault in err. An error without a fault breaks the contract of
// Remote. asFault treats it as passing trouble, so that no row is parked for it.
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

// timedOut reports whether a smaller batch may avoid f.
func timedOut(f *session.SyncFault) bool {
	return f.SQLState == "57014" || errors.Is(f.Cause, context.DeadlineExceeded)
}

// broke reports whether a connection ended during a call. The call may have been too long
// for it.
func broke(f *session.SyncFault) bool { return f.Class == session.FaultOffline && !f.Safe }

// laneOnly reports whether f concerns rows that another session of the server holds.
// Other lanes continue then.
func laneOnly(f *session.SyncFault) bool {
	return f.Class == session.FaultServer && slices.Contains([]string{"40001", "40P01", "55P03", "57014"}, f.SQLState)
}

// Classes of errors that stop delivery and are no fault of a call.
const (
	classOtherDatabase = "other_database"
	classStore         = "store"
)

// aboutRows reports whether an SQLSTATE may come from the delivered rows. Those of
// connections, resources, operators and the system do not.
func aboutRows(state string) bool {
	return len(state) == 5 && !slices.Contains([]string{"08", "53", "57", "58"}, state[:2])
}

// otherDatabase is the error for a server of another identity.
type otherDatabase struct{ have, want string }

// Error names both databases.
func (o *otherDatabase) Error() string {
	return fmt.Sprintf("the address leads to database %s, and the store was delivered to %s", o.have, o.want)
}

// OtherDatabase returns the error for a server of identity have if want acknowledged the
// events.
func OtherDatabase(have, want string) error {
	return Envelope(&otherDatabase{have: have, want: want})
}

// storeTrouble is a failure of the store, not of the server.
type storeTrouble struct{ cause error }

// Error returns the cause.
func (t *storeTrouble) Error() string { return "the store is in trouble: " + t.cause.Error() }

// Unwrap makes errors.Is find the cause.
func (t *storeTrouble) Unwrap() error { return t.cause }

// stateOf returns the state that err puts the syncer into, the label of its class, and a
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

// stateOfClass maps a fault to the state while it lasts; for any other fault the state is
// retrying.
var stateOfClass = map[session.SyncFaultClass]session.SyncState{
	session.FaultOffline:    session.SyncOffline,
	session.FaultReadOnly:   session.SyncServerReadonly,
	session.FaultDiskFull:   session.SyncDiskFull,
	session.FaultAuth:       session.SyncAuthFailed,
	session.FaultUnmigrated: session.SyncServerUnmigrated,
	session.FaultTooNew:     session.SyncClientTooNew,
}

// Envelope returns the error that a person sees for a fault of the server. It is a
// *session.Error with ErrOffline, ErrRemoteAuth, ErrRemoteOld or ErrOtherRemote. The
// cause is text only, so that the deadline of a call does not look like that of the
// command. Envelope returns any other error as it is.
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

// envelope does the work of Envelope for a state and its reason, as a heartbeat keeps
// them. The reason ends with the SQLSTATE if a server answered.
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
		person(session.ErrOtherRemote, "nothing was sent and everything is kept", session.Then("set sync.url to the earlier database, or accept the new one", session.MoveSyncRebind, ""))
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
		case said("42704"): // undefined_object: acode itself asks for no missing object
			person(session.ErrRemoteOld, "the server does not know a parameter of its address, and everything is kept", session.Words("check the parameters behind the ? of sync.url"))
		default:
			person(session.ErrRemoteOld, "the server's schema is older than this acode needs, and everything is kept", session.Then("ask the server's administrator for", session.MoveMigrate, ""))
		}
	case session.SyncClientTooNew:
		person(session.ErrRemoteOld, "the server's schema is newer than this acode knows, and everything is kept", session.Words("install a newer acode"))
	}
	return e
}
