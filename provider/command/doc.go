// Package command runs the commands of a session under a supervisor. The supervisor is a
// detached process that outlives acode. Each command has a claim: a file, exclusive by
// idempotency key, that holds the truth about the command.
//
// The supervisor makes the claim durable as its last act before exec, so it never starts
// a claimed key again. The claim reserves the space for the exit record. Requests travel
// over a socket only and are never on disk. An answer on the socket only wakes the
// client, which then reads the record from the claim.
//
// Invariants, cited by tests:
//
//	C1  One key is started at most once, even if any process is killed at any instant,
//	    and never after it was terminated.
//	C2  A command is over when its claim can be locked, not because its pid is gone. It
//	    is not over while its leader is seen alive: the leader may have closed the
//	    inherited lock. Other processes of the command are found by its key and its
//	    process session. If the pids count in another PID namespace, the supervisor's
//	    lock says whether the supervisor lives.
//	C3  No command below the highest announced epoch is started.
//	C4  An outcome is reported only if there is an exit record; otherwise it is unknown.
//	C5  The command holds its output itself: the death of its readers does not touch it.
//	    It writes to a pipe, one for both streams unless a value is captured. The
//	    command's end of the pipe is open for reading too, so the command gets no
//	    SIGPIPE. The supervisor moves the bytes to the output file. If it is killed,
//	    acode does. If both are killed, the next resume does; until then the command
//	    waits once the pipe is full. A kill loses and repeats no byte. There is one
//	    exception: if the command ends while no process holds its pipe, the content of
//	    the pipe is lost, and the record says so. The exit record is written after the
//	    pipe is empty and the file is durable. A command on a terminal has a parent that
//	    holds the terminal and copies it to the pipe: only the death of that parent
//	    hangs the command up.
//	C6  Locks and claims decide; no message on a socket can make a record false.
//
// Only Linux can promise the following:
//
//   - descendants in other process sessions are ended (subreaper, /proc),
//   - a leader that closed the locked descriptor is still known,
//   - signals cannot reach a reused pid (pidfd),
//   - one file system is synced (syncfs),
//   - the middle of a long output is freed (punched holes),
//   - output goes through a pipe (splice),
//   - the peer of the socket is checked.
//
// On other systems acode signals the process group, syncs everything and does not limit
// outputs on disk. The socket lies in a directory of mode 0700.
//
// Without splice(2) a process copies the bytes of a pipe by reading and writing. A kill
// between the two loses the bytes that it has read. So on other systems the command
// writes to the file itself. There a script that opens /dev/stderr for writing truncates
// its earlier output.
package command
