// Package crash kills programs at counted system calls and builds the disk images that a
// power cut could leave. It is test scaffolding for Linux; elsewhere the package is
// empty.
//
// A Tracer starts a program under ptrace and seccomp, follows all its threads and
// children, and counts their durable calls (writes, syncs, changes of directories, locks,
// starts of programs, requests over unix sockets) per role, over all threads at once: a
// count per thread or per call name would land anywhere in a Go program. At the Nth call
// of a role it kills chosen processes before, inside or after that call, or has the call
// fail.
//
//   - Survivors stay traced: without a tracer the filtered calls of a detached supervisor
//     would fail with ENOSYS, and with PTRACE_O_EXITKILL it would die with its tracer.
//   - Only processes that the tracer started, or their descendants, are ever signalled.
//   - The calls are recorded with their data, in order. From the records, Images builds
//     every kind of state that POSIX allows after a power cut: what no fsync of the file,
//     and of its directory, has made durable may be there, in part, or not at all. Real
//     file systems are kinder, so that pulling the plug would never show a missing fsync
//     of a directory.
//   - Precedes and DurableBefore check the order of calls, for bugs that no end state
//     shows.
//
// A judge that asks only that nothing bad happened passes a program that does nothing;
// each series needs a positive control.
package crash
