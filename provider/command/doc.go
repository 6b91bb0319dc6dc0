// Package command runs the commands of a session under a detached supervisor that
// outlives acode, and keeps the truth about each in its claim, a file exclusive by
// idempotency key.
//
// The claim is made durable as the last act before exec, so a key that was claimed is
// never started again; the exit record stands in room that the claim reserved. Requests
// travel over a socket only and are never on disk; what the socket answers is a wake, and
// the record is read from the claim.
//
// Invariants, cited by tests:
//
//	C1  One key is started at most once, whoever is killed at whatever instant, and never once
//	    it was terminated.
//	C2  A command is over when its claim can be locked, never because a pid is gone, and not
//	    while its leader, which may have closed what it inherited, is seen alive. What else
//	    it started is found by its key and its process session. Where pids
//	    count in another PID namespace, the supervisor's lock says whether that lives.
//	C3  Nothing below the highest announced epoch is started.
//	C4  An outcome is given only when the exit record stands; otherwise it is unknown.
//	C5  The command holds its output itself: the death of its readers does not touch it. It
//	    writes to a pipe, one for both streams unless a value is captured, whose end in the
//	    command is open for reading too. So it gets no SIGPIPE. The supervisor moves the bytes
//	    to the file that keeps them, acode where the supervisor is killed, and the next resume
//	    where both are: until then the command waits once the pipe is full. No byte is lost or
//	    repeated by a kill. Only where the command ends while no one holds its pipe, what the
//	    pipe held is lost, and the record says so. The exit record comes after the pipe is
//	    empty and the file durable. A command on a terminal has a parent that holds the terminal and
//	    copies it to the pipe: only the death of that parent hangs the command up.
//	C6  Locks and claims decide; what comes over a socket cannot make a record false.
//
// What only Linux can promise: descendants in other process sessions are ended
// (subreaper, /proc), a leader that closed the locked descriptor is still known, signals
// cannot meet a reused pid (pidfd), one file system is synced (syncfs), the middle of a
// long output is given back (punched holes), output goes through a pipe (splice), and the
// peer of the socket is checked. Elsewhere the process group is signalled, everything is
// synced, outputs are not capped on disk, and the socket lies in a directory of mode
// 0700.
//
// Without splice(2) a process copies the bytes of a pipe by reading and writing, and
// loses those between the two when it is killed. So elsewhere the command writes to the
// file itself, and a script that opens /dev/stderr for writing truncates what it wrote
// before.
package command
