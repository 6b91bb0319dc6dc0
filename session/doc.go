// Package session is the domain: sessions, tasks and steps, the events that record them,
// the rules that they follow, and the codes that name what went wrong. It is pure:
// standard library only, no clock, no file, no network; equal arguments give equal
// results (FR-036).
//
// Invariants, cited by tests:
//
//	I1  A session changes only by Apply, one event after another in seq order.
//	I2  A state follows another only as the transition table allows.
//	I3  A completed step never becomes anything else (NFR-008).
//	I4  An idempotency key belongs to one attempt of one operation of one step (FR-029).
//	I5  Ordered by (time, id) and ordered by seq are one order (FR-034, FR-035, FR-038).
//	I6  The hash of an event covers each of its fields and the hash of the event before it.
package session
