// Package trust keeps which files of a workspace a person trusts to tell models how to
// work there, and reads these files.
//
// Invariants, cited by tests:
//
//	V1  A person trusts exact bytes at a path. One other byte, file or workspace is not
//	    trusted.
//	V2  Files are read once. The bytes that are shown, bound or given to a model are
//	    those that were hashed.
//	V3  Nothing in a workspace decides about trust: no link, no record planted there,
//	    and no character that a person cannot see.
package trust
