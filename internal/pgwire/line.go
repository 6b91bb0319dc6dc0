package pgwire

import (
	"net"
	"time"
)

// slice is how often a slow line lets bytes pass.
const slice = 10 * time.Millisecond

// write passes the bytes on according to the fault, until the connection ends.
func (c *conn) write(d Direction, to net.Conn, queue <-chan chunk) {
	// No more bytes pass: a cut waits for the server, or the peer is gone.
	lost := false
	for {
		var k chunk
		select {
		case <-c.done:
			return
		case k = <-queue:
		}
		if !c.arrive(k) {
			return
		}
		if !lost {
			ok := false
			if lost, ok = c.pass(d, to, k); !ok {
				return
			}
		}
		if k.cut || k.last || lost && k.ready {
			c.finish(d, k, lost)
			return
		}
	}
}

// arrive waits until a chunk is due. It returns false if the connection ended before.
func (c *conn) arrive(k chunk) bool {
	if k.due == nil {
		return true
	}
	select {
	case <-c.done:
		k.due.Stop()
		return false
	case <-k.due.C:
		return true
	}
}

// finish ends the connection after its last chunk. The sender's end is held with the
// bytes, because a missing network also hides the end.
func (c *conn) finish(d Direction, k chunk, lost bool) {
	if k.last && !lost && !k.cut {
		if c.permit(d, 0).open {
			c.end(k.reset)
		}
		return
	}
	// A cut by bytes is already counted.
	c.cut(!lost)
}

// cut ends the connection by a fault.
func (c *conn) cut(count bool) {
	c.p.mu.Lock()
	reset := c.p.fault.Reset
	if count {
		c.p.counts.Cuts++
	}
	c.p.mu.Unlock()
	c.end(reset)
}

// pass writes a chunk. lost means that no more bytes may pass, although the connection
// ends later. ok means that the connection continues.
func (c *conn) pass(d Direction, to net.Conn, k chunk) (lost, ok bool) {
	for b := k.bytes; len(b) > 0; {
		g := c.permit(d, len(b))
		if !g.open {
			return false, false
		}
		if g.bytes > 0 {
			if _, err := to.Write(b[:g.bytes]); err != nil {
				// The reader learns how the connection ended, and its last bytes.
				return true, true
			}
			b = b[g.bytes:]
		}
		switch {
		case g.cut && g.committed:
			return true, true
		case g.cut:
			c.cut(false)
			return false, false
		}
		if !c.pause(g.pause) {
			return false, false
		}
	}
	return false, true
}

// pause waits. It returns false if the connection ended before.
func (c *conn) pause(d time.Duration) bool {
	if d == 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c.done:
		return false
	case <-t.C:
		return true
	}
}

// grant is the permission for the next bytes.
type grant struct {
	// open means that the connection continues.
	open  bool
	bytes int
	// pause is the wait after the bytes.
	pause time.Duration
	// cut means that a cut follows the bytes.
	cut bool
	// committed means that the cut waits for the server.
	committed bool
}

// permit waits while a direction is held. Then it returns how many of n bytes may pass,
// and counts them.
func (c *conn) permit(d Direction, n int) grant {
	for {
		g, changed := c.p.grant(c, d, n)
		if changed == nil {
			return g
		}
		select {
		case <-c.done:
			return grant{}
		case <-changed:
		}
	}
}

// grant decides about n bytes. A channel that is not nil signals when to ask again.
func (p *Proxy) grant(c *conn, d Direction, n int) (grant, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	line := p.fault.line(d)
	if line.Hold {
		return grant{}, p.changed
	}
	g := grant{open: true, bytes: n}
	if line.BytesPerSecond > 0 {
		g.bytes = min(n, max(1, int(int64(line.BytesPerSecond)*int64(slice)/int64(time.Second))))
		g.pause = time.Duration(g.bytes) * time.Second / time.Duration(line.BytesPerSecond)
	}
	if c.cancel.Load() {
		return g, nil
	}
	passed := &p.counts.ToServer
	if d == ToClient {
		passed = &p.counts.ToClient
	}
	if cut := p.fault.Cut; cut != nil && cut.Direction == d && n > 0 && *passed+int64(g.bytes) >= cut.After {
		g.bytes = int(max(cut.After-*passed, 0))
		g.cut, g.committed = true, cut.Committed
		// A cut happens once.
		p.fault.Cut = nil
		p.counts.Cuts++
	}
	*passed += int64(g.bytes)
	p.turn(c, d, g.bytes)
	return g, nil
}

// turn counts a round trip when the server begins to answer.
func (p *Proxy) turn(c *conn, d Direction, n int) {
	switch {
	case n == 0:
	case d == ToServer:
		c.answer.Store(true)
	case c.answer.CompareAndSwap(true, false):
		p.counts.Turns++
	}
}
