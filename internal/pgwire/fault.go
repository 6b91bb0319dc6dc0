package pgwire

import "time"

// Direction is which way bytes go.
type Direction int

// The directions.
const (
	ToServer Direction = iota
	ToClient
)

// String gives the name of a direction.
func (d Direction) String() string {
	if d == ToServer {
		return "to server"
	}
	return "to client"
}

// Fault is what a proxy does to its connections. The zero value forwards everything.
type Fault struct {
	// ends a connection once; nil: none
	Cut *Cut
	// how bytes to the server travel
	ToServer Line
	// how bytes to the client travel
	ToClient Line
	// connections that are cut end by a reset, not in order
	Reset bool
	// new connections are cut before a byte passes
	Refuse bool
	// asked about each message; nil: all pass. See Verdict
	Judge func(Message) Verdict
}

// Cut ends the connection at which a number of bytes is reached. It happens once; later
// connections pass, until Set gives another one.
type Cut struct {
	Direction Direction
	// bytes in that direction since Set, over all connections; 0: before the first
	After int64
	// end it when the server is ready again; until then nothing more passes
	Committed bool
}

// Line is how bytes travel in one direction.
type Line struct {
	// nothing passes until the fault changes
	Hold bool
	// bytes that are sent from now on arrive so much later
	Delay time.Duration
	// 0: as fast as it goes
	BytesPerSecond int
}

// line gives the line of a direction.
func (f *Fault) line(d Direction) Line {
	if d == ToServer {
		return f.ToServer
	}
	return f.ToClient
}

// Hole is a network that is gone: connections are accepted, and nothing passes either
// way.
func Hole() Fault { return Fault{ToServer: Line{Hold: true}, ToClient: Line{Hold: true}} }

// RoundTrip is a network that is far away.
func RoundTrip(d time.Duration) Fault {
	return Fault{ToServer: Line{Delay: d / 2}, ToClient: Line{Delay: d - d/2}}
}

// CutAfter cuts a connection after a number of bytes in one direction.
func CutAfter(d Direction, n int64) Fault { return Fault{Cut: &Cut{Direction: d, After: n}} }

// LoseReply cuts a connection when the server has done what it was asked for, and has let
// the client see n bytes of what it said since Set.
func LoseReply(n int64) Fault {
	return Fault{Cut: &Cut{Direction: ToClient, After: n, Committed: true}}
}

// Message is one message of the protocol.
type Message struct {
	// number of the connection, from 1
	Conn      int
	Direction Direction
	// as in the protocol; 0 is one of the first messages, which have none
	Type byte
	// what follows the length; only until the judge returns
	Payload []byte
}

// Ready reports whether the server says with m that it has done what it was asked for,
// and has committed or rolled back what it did outside of a transaction.
func (m Message) Ready() bool { return m.Direction == ToClient && m.Type == 'Z' }

// Request reports whether m ends a request, so that the server commits what is outside of
// a transaction, and answers.
func (m Message) Request() bool {
	return m.Direction == ToServer && (m.Type == 'S' || m.Type == 'Q')
}

// Verdict is what becomes of a message. The zero value lets it pass. A judge may also
// take its time: the messages behind wait, and those of the other direction do not. It is
// called by one goroutine a connection and direction.
type Verdict struct {
	// ends the connection
	Cut bool
	// how many bytes of the message, header included, pass before the cut
	After int
	// the message does not pass, and the connection stays
	Drop bool
}
