package pgwire

import (
	"net"
	"time"
)

// slice is how often a slow line lets something pass.
const slice = 10 * time.Millisecond

// write lets what was read pass, as the fault wants it, until the connection ends.
func (c *conn) write(d Direction, to net.Conn, queue <-chan chunk) {
	lost := false // nothing more passes: a cut waits for the server, or the peer is gone
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

// arrive waits until a chunk is due, and reports false when the connection ended before.
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

// finish ends the connection behind its last chunk. The sender's own end is held with the
// bytes, so that nobody learns of it through a network that is gone.
func (c *conn) finish(d Direction, k chunk, lost bool) {
	if k.last && !lost && !k.cut {
		if c.permit(d, 0).open {
			c.end(k.reset)
		}
		return
	}
	c.cut(!lost) // a cut by bytes is counted already
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

// pass writes a chunk. lost says that nothing more shall pass, though the connection is
// to end later; ok that it goes on.
func (c *conn) pass(d Direction, to net.Conn, k chunk) (lost, ok bool) {
	for b := k.bytes; len(b) > 0; {
		g := c.permit(d, len(b))
		if !g.open {
			return false, false
		}
		if g.bytes > 0 {
			if _, err := to.Write(b[:g.bytes]); err != nil {
				return true, true // its reader learns how it ended, and what it said before
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

// pause waits, and reports false when the connection ended before.
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

// grant is what may pass now.
type grant struct {
	// the connection goes on
	open  bool
	bytes int
	// to wait behind them
	pause time.Duration
	// a cut comes behind them
	cut bool
	// and it waits for the server
	committed bool
}

// permit waits while a direction is held, and then says how many of n bytes may pass,
// which it counts.
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

// grant decides about n bytes; a channel that is not nil says when to ask again.
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
		p.fault.Cut = nil // it happens once
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
