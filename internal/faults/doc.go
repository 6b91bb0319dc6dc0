// Package faults holds the tests that break the disk under acode. Calls fail, disks are
// full, and stores are damaged, missing, or owned by another user. The tests build
// cmd/acode and run it as real processes.
//
// These invariants must hold:
//
//	B1  Each step that acode reported done has a receipt in the store, whichever call
//	    failed.
//	B2  After a failed write, sync or commit, the connection that saw it writes nothing
//	    more to the database or its log, except to stop cleanly when there was no room.
//	B3  acode stops with a code, exits 1 (3 or 18 if it refuses the store itself), and
//	    says which data is kept.
//	B4  status answers on the broken disk.
//	B5  Once the disk works again, resume completes: each effect once, nothing lost.
//	B6  A store, a checkpoint and an idempotency key of format 1 keep their meaning.
//	B7  The same holds for a workspace whose file system keeps no modes, or whose calls
//	    fail at random, with or without an effect.
//
// The tests observe from outside acode where they can. They count the lines of a ledger,
// compare the workspace with a computed tree, and read copies of the store with sqlite3.
//
// As root, or with user namespaces, full and read-only disks are real mounts in the
// tests' own mount namespace, which ends with them. Otherwise limits on the size of files
// replace them.
package faults
