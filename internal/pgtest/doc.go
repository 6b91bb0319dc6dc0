// Package pgtest gives tests their own PostgreSQL, and a PgBouncer in front of it. It is
// test scaffolding: the program never imports it.
//
// Database makes a new database in a cluster that all tests of a process share, or in the
// one that ACODE_TEST_POSTGRES names. scripts/postgres starts such a cluster for a whole
// run. New makes a cluster for one test, which may stop it, kill it, restore it and
// change its settings.
//
//	G1  Only clusters that this package started are ever stopped, signalled or removed.
//	G2  A cluster and its files end with the process that started it, however that
//	    process ends: a supervisor in its own session waits for the other end of a pipe
//	    to close.
//	G3  No two clusters have the same system identifier, although they are copies of
//	    one.
//	G4  The server listens on 127.0.0.1 and on a unix socket, and never runs as root.
//
// The programs are searched in ACODE_PG_BIN, below /usr/lib/postgresql (the newest one)
// and in the PATH. Under root they run as the user "nobody".
package pgtest
