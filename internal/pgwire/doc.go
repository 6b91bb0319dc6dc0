// Package pgwire is a proxy before a PostgreSQL server that understands its protocol and
// breaks connections on purpose. It is test scaffolding: the program never imports it.
//
// A Proxy forwards everything until Set gives it a Fault: cut a connection after a number
// of bytes in one direction, hold one direction or both as a network that is gone does,
// slow them down, or ask a function about each message. Faults may change while
// connections are open. The bytes of each direction are counted from Set on, so that a
// test can first see how many a delivery takes and then cut after each of them.
//
//	P1  A cut lets exactly the bytes pass that were asked for, and then ends both sides.
//	P2  A cut with Committed comes after the server has said that it is ready again, so what
//	    the client asked for has happened, whatever part of the reply it saw.
//	P3  What is held is not lost: it passes when the hold ends, as after a partition.
//
// Establishing a TCP connection is the kernel's work, so it is neither held nor delayed.
// An encrypted connection passes as bytes without messages.
package pgwire
