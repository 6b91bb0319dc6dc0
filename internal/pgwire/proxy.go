package pgwire

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Counts is what has passed since Set. Connections that only ask to cancel what another
// one does are left out, and are no matter for a Cut: clients make them behind
// everybody's back when a connection breaks.
type Counts struct {
	// bytes
	ToServer int64
	// bytes
	ToClient int64
	// how often the server began to answer: round trips
	Turns int
	// accepted
	Connections int
	// made by a fault
	Cuts int
}

// Proxy forwards connections to a server. It is safe for concurrent use, and ends with
// the test that made it.
type Proxy struct {
	upstream string
	listener net.Listener
	wg       sync.WaitGroup

	mu     sync.Mutex
	fault  Fault
	counts Counts
	// closed by Set
	changed chan struct{}
	conns   map[*conn]bool
	// number of the newest connection
	last   int
	closed bool
}

// New starts a proxy on a free port of 127.0.0.1. upstream is the server's host:port, or
// the path of its unix socket.
func New(tb testing.TB, upstream string) *Proxy {
	tb.Helper()
	return listen(tb, "tcp", "127.0.0.1:0", upstream)
}

// NewUnix starts a proxy at a unix socket in an existing folder, where clients find it as
// port 5432 of that folder.
func NewUnix(tb testing.TB, dir, upstream string) *Proxy {
	tb.Helper()
	return listen(tb, "unix", SocketPath(dir, 5432), upstream)
}

func listen(tb testing.TB, network, address, upstream string) *Proxy {
	tb.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		tb.Fatalf("pgwire: %v", err)
	}
	p := &Proxy{upstream: upstream, listener: l, changed: make(chan struct{}), conns: map[*conn]bool{}}
	p.wg.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

// Addr is where the proxy listens: host:port, or the path of its unix socket.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// URL gives the address of a database at the server, by way of the proxy.
func (p *Proxy) URL(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("address of the server: %w", err)
	}
	q := u.Query()
	q.Del("host")
	q.Del("port")
	u.Host = p.Addr()
	if dir, name := filepath.Split(p.Addr()); strings.HasPrefix(dir, "/") {
		u.Host = ""
		q.Set("host", filepath.Clean(dir))
		q.Set("port", strings.TrimPrefix(name, ".s.PGSQL."))
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// Set replaces the fault and starts to count anew. Connections that are open feel it with
// their next byte, and those that were held go on if they are no longer.
func (p *Proxy) Set(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.Cut != nil {
		once := *f.Cut // the caller's one may serve again
		f.Cut = &once
	}
	p.fault, p.counts = f, Counts{}
	close(p.changed)
	p.changed = make(chan struct{})
}

// Counts says what has passed since Set. Bytes are counted before they are written, so
// that none is with a peer and not yet counted.
func (p *Proxy) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts
}

// CutAll ends every open connection now, by a reset where reset says so, and gives their
// number.
func (p *Proxy) CutAll(reset bool) int {
	p.mu.Lock()
	open := make([]*conn, 0, len(p.conns))
	for c := range p.conns {
		open = append(open, c)
	}
	p.counts.Cuts += len(open)
	p.mu.Unlock()
	for _, c := range open {
		c.end(reset)
	}
	return len(open)
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // it was closed
		}
		if c := p.admit(client); c != nil {
			p.wg.Go(c.serve)
		}
	}
}

// admit makes a connection of what was accepted, or ends it and gives nil.
func (p *Proxy) admit(client net.Conn) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	p.counts.Connections++
	c := &conn{p: p, number: p.last, client: client, since: p.changed, done: make(chan struct{})}
	if p.closed || p.fault.Refuse {
		p.counts.Cuts++
		c.end(p.fault.Reset)
		return nil
	}
	p.conns[c] = true
	return c
}

// discount takes a connection back that turned out to be a request to cancel.
func (p *Proxy) discount(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.since == p.changed { // else it is not among those that are counted
		p.counts.Connections--
	}
}

func (p *Proxy) forget(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// now gives the fault, and a channel that is closed when it changes.
func (p *Proxy) now() (Fault, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault, p.changed
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close() // no more connections
	p.CutAll(false)
	p.wg.Wait()
}

// dial connects to the server.
func (p *Proxy) dial() (net.Conn, error) {
	if strings.HasPrefix(p.upstream, "/") {
		return net.Dial("unix", p.upstream)
	}
	return net.Dial("tcp", p.upstream)
}

// SocketPath is where a server whose unix sockets are in dir listens for a port.
func SocketPath(dir string, port int) string {
	return filepath.Join(dir, ".s.PGSQL."+strconv.Itoa(port))
}
