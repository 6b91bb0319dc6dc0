package pgwire

import "time"

// Direction is a direction of bytes.
type Direction int

// The directions.
const (
	ToServer Direction = iota
	ToClient
)

// String returns the name of a direction.
func (d Direction) String() string {
	if d == ToServer {
		return "to server"
	}
	return "to client"
}

// Fault is a treatment of connections. The zero value forwards everything.
type Fault struct {
	// Cut ends a connection once; nil means none.
	Cut *Cut
	// ToServer is the line to the server.
	ToServer Line
	// ToClient is the line to the client.
	ToClient Line
	// Reset makes cut connections end by a reset, not in order.
	Reset bool
	// Refuse cuts new connections before a byte passes.
	Refuse bool
	// Judge is asked about each message; nil lets all pass. See Verdict.
	Judge func(Message) Verdict
}

// Cut ends the connection that reaches a number of bytes. It happens once. Later
// connections pass until Set gives another cut.
type Cut struct {
	Direction Direction
	// After counts bytes in that direction since Set over all connections. 0 means before
	// the first byte.
	After int64
	// Committed ends the connection when the server is ready again. Until then no more
	// bytes pass.
	Committed bool
}

// Line describes the transport of bytes in one direction.
type Line struct {
	// Hold stops all bytes until the fault changes.
	Hold bool
	// Delay is added to bytes sent from now on.
	Delay time.Duration
	// BytesPerSecond limits the rate; 0 means no limit.
	BytesPerSecond int
}

// line returns the line of a direction.
func (f *Fault) line(d Direction) Line {
	if d == ToServer {
		return f.ToServer
	}
	return f.ToClient
}

// Hole returns the fault of a missing network: connections are accepted, and no bytes
// pass either way.
func Hole() Fault { return Fault{ToServer: Line{Hold: true}, ToClient: Line{Hold: true}} }

// RoundTrip returns the fault of a distant network.
func RoundTrip(d time.Duration) Fault {
	return Fault{ToServer: Line{Delay: d / 2}, ToClient: Line{Delay: d - d/2}}
}

// CutAfter returns a fault that cuts a connection after a number of bytes in one
// direction.
func CutAfter(d Direction, n int64) Fault { return Fault{Cut: &Cut{Direction: d, After: n}} }

// LoseReply returns a fault that cuts a connection when the server has finished a request
// and n bytes of its reply since Set have reached the client.
func LoseReply(n int64) Fault {
	return Fault{Cut: &Cut{Direction: ToClient, After: n, Committed: true}}
}

// Message is one message of the protocol.
type Message struct {
	// Conn is the number of the connection, from 1.
	Conn      int
	Direction Direction
	// Type is the type in the protocol. It is 0 for the first messages, which have none.
	Type byte
	// Payload follows the length. It is valid until the judge returns.
	Payload []byte
}

// Ready reports whether m is the server's ReadyForQuery. The server has then finished the
// request, and has committed or rolled back its work outside of a transaction.
func (m Message) Ready() bool { return m.Direction == ToClient && m.Type == 'Z' }

// Request reports whether m ends a request. The server then commits work outside of a
// transaction and answers.
func (m Message) Request() bool {
	return m.Direction == ToServer && (m.Type == 'S' || m.Type == 'Q')
}

// Verdict decides about a message. The zero value lets it pass. A judge may take its
// time: later messages wait, and messages of the other direction do not. One goroutine
// for each connection and direction calls it.
type Verdict struct {
	// Cut ends the connection.
	Cut bool
	// After is the number of bytes of the message, header included, that pass before the
	// cut.
	After int
	// Drop discards the message and keeps the connection.
	Drop bool
}
