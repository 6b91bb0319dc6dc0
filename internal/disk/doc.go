// Package disk is a disk whose power can be cut at any write, with a real file system on
// it.
//
// A loop device writes to a file that this process serves through FUSE, so that every
// write and every flush that the kernel sends is seen, in order. Cut gives the disk as a
// loss of power may leave it: what a flush had followed is there, and of all later writes
// any subset, because a disk keeps them in a cache of its own and writes them when it
// likes. Such a disk can be mounted again: the file system then recovers as it does after
// a real power cut.
//
// Foreign serves a file system for which case does not count, and whose calls can be made
// to fail.
//
// It needs root, FUSE and loop devices; Possible says whether they are there.
package disk
