// Package remote is the PostgreSQL mirror: delivery of events by one statement,
// the server's answer, and what an administrator does to the schema.
//
// Invariants, cited by tests:
//
//	S1  The head row of a session, under its lock, makes (session, seq) unique and the chain
//	    whole: a delivery extends the chain, repeats it, or is filed as a fork.
//	S2  No state of a connection is relied upon, so a pooler in transaction mode may sit between.
//	S3  Every call has a deadline that the server enforces first.
//	S4  A device's role reaches the functions, nothing else.
//	S5  Nothing in a payload can stop a delivery or a projection: it travels as bytes, and what
//	    PostgreSQL cannot hold is flagged when it is read.
//	S6  No error repeats a password.
//
// Server is what a device's role may do; it implements the outbox's Remote. Migrate,
// AddDevice, RevokeDevice, ListDevices, ReadStatus, VerifyAll and Prune are an
// administrator's.
package remote
