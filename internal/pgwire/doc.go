// Package pgwire is a proxy in front of a PostgreSQL server. It understands the protocol
// and breaks connections on purpose. It is test scaffolding: the program never imports
// it.
//
// A Proxy forwards everything until Set gives it a Fault. A fault cuts a connection after
// a number of bytes in one direction, holds one direction or both like a missing network,
// slows them down, or asks a function about each message. Faults may change while
// connections are open. The proxy counts the bytes of each direction from Set on, so a
// test can first measure a delivery and then cut after each of its bytes.
//
//	P1  A cut lets exactly the requested bytes pass, and then ends both sides.
//	P2  A cut with Committed comes after the server's ReadyForQuery. So the client's
//	    request has happened, whichever part of the reply the client saw.
//	P3  Held bytes are not lost: they pass when the hold ends, as after a partition.
//
// The kernel establishes TCP connections, so the proxy neither holds nor delays them. An
// encrypted connection passes as bytes without messages.
package pgwire
