// Package session is the domain of acode. It holds sessions, tasks and steps, the events
// that record them, the rules for these events, and the codes of failures. The package is
// pure: it imports only the standard library and reads no clock, file or network. Equal
// arguments give equal results (FR-036).
//
// The tests cite these invariants:
//
//	I1  Only Apply changes a session, one event after another in seq order.
//	I2  A session changes its state only as the transition table allows.
//	I3  A completed step never changes its status (NFR-008).
//	I4  An idempotency key belongs to one attempt of one operation of one step (FR-029).
//	I5  The order by (time, id) is the order by seq (FR-034, FR-035, FR-038).
//	I6  The hash of an event covers all its fields and the hash of the event before it.
package session
