// Package faults holds the tests that break the disk under acode: calls that fail, disks
// that are full, stores that are damaged, gone, or somebody else's. They build cmd/acode
// and run it as real processes.
//
// What must hold:
//
//	B1  What acode said is done has a receipt in the store, whatever call failed.
//	B2  After a failed write, sync or commit nothing more is written to the database or its log
//	    through the connection that saw it, except to stop cleanly when there was no room.
//	B3  acode stops with a code, exits 1 (3 or 18 where the store itself is refused), and says
//	    what is kept.
//	B4  status answers on the broken disk.
//	B5  Once the disk is whole again, resume completes: each effect once, nothing lost.
//	B6  A store, a checkpoint and an idempotency key of format 1 mean what they meant when
//	    they were written.
//	B7  All that holds too for a workspace whose file system keeps no modes, or whose calls fail
//	    at random, carried out or not.
//
// No judge asks acode about itself where it can look: it counts the lines of a ledger,
// compares the workspace with a computed tree, and reads copies of the store with
// sqlite3.
//
// As root, or where user namespaces are allowed, full and read-only disks are real mounts
// in a mount namespace of the tests' own, which ends with them. Elsewhere limits on the
// size of files take their place.
package faults
