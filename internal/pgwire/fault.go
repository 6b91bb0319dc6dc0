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
	Cut      *Cut                  // ends a connection once; nil: none
	ToServer Line                  // how bytes to the server travel
	ToClient Line                  // how bytes to the client travel
	Reset    bool                  // connections that are cut end by a reset, not in order
	Refuse   bool                  // new connections are cut before a byte passes
	Judge    func(Message) Verdict // asked about each message; nil: all pass. See Verdict
}

// Cut ends the connection at which a number of bytes is reached. It happens once; later
// connections pass, until Set gives another one.
type Cut struct {
	Direction Direction
	After     int64 // bytes in that direction since Set, over all connections; 0: before the first
	Committed bool  // end it when the server is ready again; until then nothing more passes
}

// Line is how bytes travel in one direction.
type Line struct {
	Hold           bool          // nothing passes until the fault changes
	Delay          time.Duration // bytes that are sent from now on arrive so much later
	BytesPerSecond int           // 0: as fast as it goes
}

// line gives the line of a direction.
func (f *Fault) line(d Direction) Line {
	if d == ToServer {
		return f.ToServer
	}
	return f.ToClient
}

// Hole is a network that is gone: connections are accepted, and nothing passes either way.
func Hole() Fault { return Fault{ToServer: Line{Hold: true}, ToClient: Line{Hold: true}} }

// RoundTrip is a network that is far away.
func RoundTrip(d time.Duration) Fault {
	return Fault{ToServer: Line{Delay: d / 2}, ToClient: Line{Delay: d - d/2}}
}

// CutAfter cuts a connection after a number of bytes in one direction.
func CutAfter(d Direction, n int64) Fault { return Fault{Cut: &Cut{Direction: d, After: n}} }

// LoseReply cuts a connection when the server has done what it was asked for, and has let the
// client see n bytes of what it said since Set.
func LoseReply(n int64) Fault {
	return Fault{Cut: &Cut{Direction: ToClient, After: n, Committed: true}}
}

// Message is one message of the protocol.
type Message struct {
	Conn      int // number of the connection, from 1
	Direction Direction
	Type      byte   // as in the protocol; 0 is one of the first messages, which have none
	Payload   []byte // what follows the length; only until the judge returns
}

// Ready reports whether the server says with m that it has done what it was asked for, and
// has committed or rolled back what it did outside of a transaction.
func (m Message) Ready() bool { return m.Direction == ToClient && m.Type == 'Z' }

// Request reports whether m ends a request, so that the server commits what is outside of a
// transaction, and answers.
func (m Message) Request() bool {
	return m.Direction == ToServer && (m.Type == 'S' || m.Type == 'Q')
}

// Verdict is what becomes of a message. The zero value lets it pass. A judge may also take
// its time: the messages behind wait, and those of the other direction do not. It is called
// by one goroutine a connection and direction.
type Verdict struct {
	Cut   bool // ends the connection
	After int  // how many bytes of the message, header included, pass before the cut
	Drop  bool // the message does not pass, and the connection stays
}
