// Package remote is the PostgreSQL mirror. It delivers events by one statement, reads the
// server's answers, and changes the schema for an administrator.
//
// Invariants, cited by tests:
//
//	S1  The head row of a session, under its lock, makes (session, seq) unique and the
//	    chain whole: a delivery extends the chain, repeats it, or is filed as a fork.
//	S2  No call depends on the state of a connection, so a pooler in transaction mode
//	    may sit between.
//	S3  Every call has a deadline that the server enforces first.
//	S4  A device's role can use the functions, nothing else.
//	S5  No payload can stop a delivery or a projection: it travels as bytes. Content
//	    that PostgreSQL cannot hold is flagged when it is read.
//	S6  No error repeats a password.
//	S7  An event of a type that the server does not know is kept. Once the projection
//	    functions know the type, the typed tables are as if they had always known it.
//
// Server has the calls that a device's role may use; it implements the outbox's Remote.
// Migrate, AddDevice, RevokeDevice, ListDevices, ReadStatus, VerifyAll and Prune are for
// an administrator.
package remote
