// Package disk simulates a disk whose power can be cut at any write, with a real file
// system on it.
//
// A loop device writes to a file that this process serves through FUSE, so the disk sees
// every write and flush of the kernel in order. Cut returns a state that a loss of power
// may leave. All blocks before a flush are there, and any subset of the later writes,
// because a disk has its own cache and writes it in any order. Such a disk can be mounted
// again; the file system then recovers as after a real power cut.
//
// Foreign serves a file system that ignores case and whose calls can be made to fail.
//
// The package needs root, FUSE and loop devices. Possible reports whether they are
// available.
package disk
