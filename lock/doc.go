// Package lock lets one process execute a session, and one session execute in a
// workspace.
//
// The lock is flock(2): the kernel gives it back the instant its holder dies, and nothing
// else ends it, however old it is. What a lock file says is information for people and
// for readers that take no lock; of a holder in another PID namespace, whose pid says
// nothing, they ask the lock. The file is never removed and never truncated to nothing:
// removing it would let two processes lock two files of one name. Only the file of a
// session that shares its workspace is locked in common, by that session and its command:
// it keeps out who does not share.
//
// Invariants, cited by tests:
//
//	K1  Of any number of processes that see the same file at a path, one holds its lock. The
//	    directory of a workspace is locked itself too, since it may have several paths.
//	K2  A lock file is a regular file of mode 0600 that belongs to the user; what was checked
//	    is the descriptor that is locked (LOCK-001, LOCK-002).
//	K3  A holder whose file was removed or replaced is not told: another may hold the new file
//	    beside it. The epoch that the store checks in each write fences the older one.
//	K4  Commands never inherit a session's lock, nor that of the directory; they do inherit the
//	    command lock of their workspace.
package lock
