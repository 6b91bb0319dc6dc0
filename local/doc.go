// Package local is the store of record: one SQLite database for each user, with blobs,
// keys and heads in files beside it. Everything that the package acknowledges is durable.
//
// Invariants, cited by tests:
//
//	L1  Events, their projections and a receipt's checkpoint are one commit (FR-017).
//	L2  Events and checkpoints are only added, never changed or removed.
//	L3  Each event has a later time than every event before it in the store.
//	L4  A session that loads equals its signed commit: each row, and each event above
//	    the newest valid checkpoint. No event is missing.
//	L5  A writer that lost its session to a later epoch writes nothing more.
//	L6  After a failed write, commit or fsync, the connection writes nothing more.
//	L7  Reading changes no byte of the database and needs no room on the disk.
//
// docs/format.md describes the bytes.
package local
