// Package lock lets one process execute a session, and one session execute in a
// workspace.
//
// The lock is flock(2). The kernel releases it at the moment its holder dies. Nothing
// else ends it, however old it is. The text in a lock file is for people and for
// readers that take no lock. The pid of a holder in another PID namespace says nothing,
// so readers try the lock of such a holder. The file is never removed, because two
// processes could then lock two files of one name. It is never truncated to nothing
// either. The file of a session that shares its workspace is the only one with a shared
// lock: that session and its command hold it together. It keeps out sessions that do
// not share.
//
// Invariants, cited by tests:
//
//	K1  Of any number of processes that see the same file at a path, one holds its lock.
//	    The directory of a workspace is locked too, because it may have several paths.
//	K2  A lock file is a regular file of mode 0600 that belongs to the user. The checks
//	    are made on the descriptor that is locked (LOCK-001, LOCK-002).
//	K3  A holder is not told that its file was removed or replaced, and another process
//	    may hold the new file. The store checks the epoch in each write, which fences
//	    the older holder.
//	K4  Commands never inherit the lock of a session or of the directory. They do
//	    inherit the command lock of their workspace.
package lock
