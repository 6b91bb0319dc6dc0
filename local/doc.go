// Package local is the store of record: one SQLite database a user, with the blobs, the
// keys and the heads beside it. What it acknowledges is durable.
//
// Invariants, cited by tests:
//
//	L1  Events, the projections of them, and the checkpoint of a receipt are one commit (FR-017).
//	L2  Events and checkpoints are only ever added.
//	L3  The time of an event is later than that of every event before it in the store.
//	L4  A session that loads is what its signed commit says: each row, each event above the
//	    newest valid checkpoint, and no event less.
//	L5  A writer that lost its session to a later epoch writes nothing more.
//	L6  After a write, a commit or an fsync failed, nothing is written through that connection again.
//	L7  Reading changes no byte of the database and needs no room on the disk.
//
// The bytes are described in docs/format.md.
package local
