// Package pgtest gives tests a PostgreSQL of their own, and a PgBouncer in front of it.
// It is test scaffolding: the program never imports it.
//
// Database makes a fresh database in a cluster that all tests of a process share, or in
// the one that ACODE_TEST_POSTGRES names, as scripts/postgres starts it for a whole run.
// New makes a cluster for one test, which may stop it, kill it, restore it and change its
// settings.
//
//	G1  Only clusters that this package started are ever stopped, signalled or removed.
//	G2  A cluster ends, and its files go, with the process that started it, however that
//	    ends: a supervisor of its own session waits for the other end of a pipe to close.
//	G3  No two clusters have the same system identifier, though they are copies of one.
//	G4  The server listens on 127.0.0.1 and on a unix socket, and never runs as root.
//
// The programs are looked for in ACODE_PG_BIN, below /usr/lib/postgresql (the newest one)
// and in the PATH. Run by root they run as nobody.
package pgtest
