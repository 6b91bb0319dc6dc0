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

// Counts counts the traffic since Set. Connections that only cancel a request do not
// count, and a Cut ignores them. Clients make them in the background when a connection
// breaks.
type Counts struct {
	// ToServer is in bytes.
	ToServer int64
	// ToClient is in bytes.
	ToClient int64
	// Turns counts how often the server began to answer, which is the number of round
	// trips.
	Turns int
	// Connections counts accepted connections.
	Connections int
	// Cuts counts connections that a fault cut.
	Cuts int
}

// Proxy forwards connections to a server. It is safe for concurrent use and ends with the
// test that made it.
type Proxy struct {
	upstream string
	listener net.Listener
	wg       sync.WaitGroup

	mu     sync.Mutex
	fault  Fault
	counts Counts
	// changed is closed by Set.
	changed chan struct{}
	conns   map[*conn]bool
	// last is the number of the newest connection.
	last   int
	closed bool
}

// New starts a proxy on a free port of 127.0.0.1. upstream is the server's host:port, or
// the path of its unix socket.
func New(tb testing.TB, upstream string) *Proxy {
	tb.Helper()
	return listen(tb, "tcp", "127.0.0.1:0", upstream)
}

// NewUnix starts a proxy at a unix socket in an existing folder. Clients find it as port
// 5432 of that folder.
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

// Addr returns the proxy's address: host:port, or the path of its unix socket.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// URL returns the address of a server's database by way of the proxy.
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

// Set replaces the fault and resets the counts. It applies to open connections from their
// next byte on. Held connections continue if the new fault does not hold them.
func (p *Proxy) Set(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.Cut != nil {
		// The caller may use its copy again.
		once := *f.Cut
		f.Cut = &once
	}
	p.fault, p.counts = f, Counts{}
	close(p.changed)
	p.changed = make(chan struct{})
}

// Counts returns the traffic since Set. Bytes are counted before they are written, so a
// peer never has bytes that are not counted.
func (p *Proxy) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts
}

// CutAll ends every open connection now, by a reset if reset is true, and returns their
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
			// The proxy was closed.
			return
		}
		if c := p.admit(client); c != nil {
			p.wg.Go(c.serve)
		}
	}
}

// admit makes a conn for an accepted connection, or closes it and returns nil.
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

// discount removes a connection from the counts that turned out to be a cancel request.
func (p *Proxy) discount(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// The counts include only connections since the last Set.
	if c.since == p.changed {
		p.counts.Connections--
	}
}

func (p *Proxy) forget(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// now returns the fault, and a channel that is closed when the fault changes.
func (p *Proxy) now() (Fault, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault, p.changed
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	// No more connections arrive.
	_ = p.listener.Close()
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

// SocketPath returns the path of the unix socket for a port in dir.
func SocketPath(dir string, port int) string {
	return filepath.Join(dir, ".s.PGSQL."+strconv.Itoa(port))
}
