// Package crash kills programs at counted system calls, and builds the disk images that a
// power cut could leave. It is test scaffolding for Linux; on other systems the package
// is empty.
//
// A Tracer starts a program under ptrace and seccomp and follows all its threads and
// children. It counts their durable calls per role: writes, syncs, changes of
// directories, locks, starts of programs, and requests over unix sockets. The count
// covers all threads at once, because a Go program moves calls between threads. At the
// Nth call of a role the tracer kills chosen processes before, inside or after that call,
// or makes the call fail.
//
//   - Survivors stay traced. Without a tracer the filtered calls of a detached supervisor
//     would fail with ENOSYS. With PTRACE_O_EXITKILL it would die with its tracer.
//   - The tracer signals only processes that it started, and their descendants.
//   - The calls are recorded with their data, in order. From the records, Images builds
//     every kind of state that POSIX allows after a power cut. A change that no fsync of
//     the file and of its directory made durable may be there, in part, or not at all.
//     Real file systems lose less, so a real power cut would never show a missing fsync
//     of a directory.
//   - Precedes and DurableBefore check the order of calls, for bugs that no end state
//     shows.
//
// A check that only rules out bad events passes a program that does nothing. Each series
// of tests needs a positive control.
package crash
