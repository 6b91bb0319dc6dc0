package pgwire

import (
	"bufio"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// chunkBytes is how much is read before it is passed on, unless a message is longer.
const chunkBytes = 32 << 10

// queueChunks is the most chunks on their way in one direction.
const queueChunks = 64

// conn is a client's connection and its connection to the server.
type conn struct {
	p      *Proxy
	number int
	client net.Conn
	// server is nil until the server was reached.
	server net.Conn
	// since identifies the last Set before the connection.
	since chan struct{}

	// mu guards server and the end.
	mu    sync.Mutex
	ended bool
	// done is closed at the end.
	done chan struct{}
	// asked means that the client requested encryption, so the answer is a single byte.
	asked atomic.Bool
	// raw means that the connection is encrypted, so messages are not visible.
	raw atomic.Bool
	// begun belongs to the reader of the client: its first messages are over.
	begun bool
	// cancel means that the connection only cancels the request of another one.
	cancel atomic.Bool
	// answer means that the client has sent bytes since the server's last bytes.
	answer atomic.Bool
}

// chunk is bytes on their way in one direction.
type chunk struct {
	bytes []byte
	// due is when the chunk arrives; nil means at once.
	due *time.Timer
	// ready means that it ends with the server's ReadyForQuery.
	ready bool
	// cut means that a fault ends the connection after it.
	cut bool
	// last means that its sender ended the connection after it.
	last bool
	// reset goes with last: the sender did not end the connection in order.
	reset bool
}

// serve forwards a connection to its end. It connects to the server only when bytes may
// pass, as behind a missing network.
func (c *conn) serve() {
	defer c.p.forget(c)
	defer c.end(false)
	if !c.passable() {
		return
	}
	server, err := c.p.dial()
	if err != nil {
		c.end(true)
		return
	}
	if !c.attach(server) {
		return
	}
	var wg sync.WaitGroup
	for d, ends := range map[Direction][2]net.Conn{ToServer: {c.client, server}, ToClient: {server, c.client}} {
		queue := make(chan chunk, queueChunks)
		wg.Go(func() { c.read(d, bufio.NewReaderSize(ends[0], chunkBytes), queue) })
		wg.Go(func() { c.write(d, ends[1], queue) })
	}
	wg.Wait()
}

// passable waits until bytes may pass to the server. It returns false if the connection
// ended before.
func (c *conn) passable() bool {
	for {
		f, changed := c.p.now()
		if !f.ToServer.Hold {
			return true
		}
		select {
		case <-c.done:
			return false
		case <-changed:
		}
	}
}

// attach makes server the other side. It returns false if the connection has ended.
func (c *conn) attach(server net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		// The connection is unused.
		_ = server.Close()
		return false
	}
	c.server = server
	return true
}

// end ends both sides, once.
func (c *conn) end(reset bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.ended = true
	close(c.done)
	for _, side := range []net.Conn{c.client, c.server} {
		if tcp, ok := side.(*net.TCPConn); ok && reset {
			// Close then sends a reset.
			_ = tcp.SetLinger(0)
		}
		if side != nil {
			// An error belongs to the peer.
			_ = side.Close()
		}
	}
}

// read gathers the bytes that arrive in a direction and asks the judge about them.
func (c *conn) read(d Direction, r *bufio.Reader, queue chan<- chunk) {
	for {
		k, err := c.gather(d, r)
		if err != nil {
			k.last, k.reset = true, !errors.Is(err, io.EOF)
		}
		if delay := c.delay(d); delay > 0 {
			k.due = time.NewTimer(delay)
		}
		select {
		case <-c.done:
			return
		case queue <- k:
		}
		if k.last || k.cut {
			return
		}
	}
}

func (c *conn) delay(d Direction) time.Duration {
	f, _ := c.p.now()
	return f.line(d).Delay
}

// gather reads the available messages, up to about chunkBytes.
func (c *conn) gather(d Direction, r *bufio.Reader) (chunk, error) {
	var k chunk
	for {
		b, m, err := c.next(d, r)
		if err != nil {
			return k, err
		}
		k.add(b, m, c.judge(m))
		if k.cut || k.ready || r.Buffered() < 5 || len(k.bytes) >= chunkBytes {
			return k, nil
		}
	}
}

// add appends a message according to the verdict.
func (k *chunk) add(b []byte, m Message, v Verdict) {
	switch {
	case v.Cut:
		b = b[:min(max(v.After, 0), len(b))]
		k.cut = true
	case v.Drop:
		return
	default:
		k.ready = m.Ready()
	}
	k.bytes = append(k.bytes, b...)
}

// judge asks the fault's judge about a message. Encrypted bytes are not messages.
func (c *conn) judge(m Message) Verdict {
	f, _ := c.p.now()
	if f.Judge == nil || c.raw.Load() {
		return Verdict{}
	}
	return f.Judge(m)
}

// next reads a message. If its sender ends in the middle, next drops the part, like a
// server.
func (c *conn) next(d Direction, r *bufio.Reader) ([]byte, Message, error) {
	m := Message{Conn: c.number, Direction: d}
	// The next message depends on the bytes of the other side.
	if _, err := r.Peek(1); err != nil {
		return nil, m, err
	}
	switch {
	case c.raw.Load():
		b := make([]byte, r.Buffered())
		_, err := io.ReadFull(r, b)
		return b, m, err
	case d == ToServer && !c.begun:
		b, err := c.first(r)
		if err == nil {
			m.Payload = b[4:]
		}
		return b, m, err
	case d == ToClient && c.asked.CompareAndSwap(true, false):
		b, err := r.ReadByte()
		c.raw.Store(b == 'S' || b == 'G')
		return []byte{b}, m, err
	}
	b, err := readMessage(r)
	if err == nil {
		m.Type, m.Payload = b[0], b[5:]
	}
	return b, m, err
}

// first reads one of a client's first messages.
func (c *conn) first(r *bufio.Reader) ([]byte, error) {
	b, code, err := readStartup(r)
	switch code {
	case sslRequest, gssRequest:
		c.asked.Store(true)
	case cancelRequest:
		c.cancel.Store(true)
		c.p.discount(c)
		c.begun = true
	default:
		c.begun = true
	}
	return b, err
}
