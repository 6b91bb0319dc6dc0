package pgwire_test

import (
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/acode-dev/acode/internal/pgwire"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
)

// A judge sees each message of a delivery whole and in order.
func TestJudgeSeesMessages(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	var mu sync.Mutex
	seen := map[pgwire.Direction]string{}
	requests, readies := 0, 0
	p.proxy.Set(pgwire.Fault{Judge: func(m pgwire.Message) pgwire.Verdict {
		mu.Lock()
		defer mu.Unlock()
		if m.Type == 0 {
			m.Type = '!'
		}
		if m.Request() {
			requests++
		}
		if m.Ready() && string(m.Payload) == "I" {
			readies++
		}
		seen[m.Direction] += string(m.Type)
		return pgwire.Verdict{}
	}})
	conn := p.connect(t)
	if err := insert(t.Context(), conn, 1); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	// The number of parameters depends on the version.
	server := strings.ReplaceAll(seen[pgwire.ToClient], "S", "")
	want := map[pgwire.Direction]string{pgwire.ToServer: "!PBDES", pgwire.ToClient: "RKZ12nCZ"}
	if diff := cmp.Diff(want, map[pgwire.Direction]string{pgwire.ToServer: seen[pgwire.ToServer], pgwire.ToClient: server}); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	if requests != 1 || readies != 2 {
		t.Errorf("got %d requests and %d readies, want 1 and 2", requests, readies)
	}
}

// A judge cuts repeatedly inside a message of its choice, and drops one.
func TestJudgeDecides(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	// ReadyForQuery has six bytes.
	for n := range 7 {
		conn := p.connect(t)
		p.proxy.Set(pgwire.Fault{Judge: func(m pgwire.Message) pgwire.Verdict {
			return pgwire.Verdict{Cut: m.Ready(), After: n}
		}})
		err := insert(t.Context(), conn, int64(n))
		if (err == nil) != (n == 6) {
			t.Errorf("cut after %d bytes of ReadyForQuery: got %v", n, err)
		}
		if got := p.rows(t, int64(n)); got != 1 {
			t.Errorf("cut after %d bytes of ReadyForQuery: got %d rows, want 1", n, got)
		}
		p.proxy.Set(pgwire.Fault{})
	}
	conn := p.connect(t)
	p.proxy.Set(pgwire.Fault{Judge: func(m pgwire.Message) pgwire.Verdict {
		return pgwire.Verdict{Drop: m.Direction == pgwire.ToClient && m.Type == 'C'}
	}})
	tag, err := conn.Exec(t.Context(), "INSERT INTO t VALUES (99)", pgx.QueryExecModeExec)
	if err != nil || tag.String() != "" || p.rows(t, 99) != 1 {
		t.Errorf("without CommandComplete: got %q, %v, %d rows, want an empty tag and a row", tag, err, p.rows(t, 99))
	}
}

// The proxy refuses new connections and cuts open ones on demand.
func TestRefuseAndCutAll(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	conn := p.connect(t)
	p.proxy.Set(pgwire.Fault{Refuse: true, Reset: true})
	if _, err := pgx.Connect(t.Context(), p.url); err == nil {
		t.Error("Connect: got nil, want an error")
	}
	if err := insert(t.Context(), conn, 1); err != nil {
		t.Errorf("a connection that was open: %v", err)
	}
	if got := p.proxy.CutAll(true); got != 1 {
		t.Errorf("CutAll: got %d, want 1", got)
	}
	if err := insert(t.Context(), conn, 2); err == nil {
		t.Error("after CutAll: got no error")
	}
	if c := p.proxy.Counts(); c.Cuts < 2 {
		t.Errorf("Counts: got %+v, want the refused ones and the one that was cut", c)
	}
}

// Server and proxy work at a unix socket. Without a server the proxy ends connections.
func TestUnixSocket(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	var dir string
	var port int
	err := p.direct.QueryRow(t.Context(), "SELECT current_setting('unix_socket_directories'), current_setting('port')::int").Scan(&dir, &port)
	if err != nil {
		t.Fatal(err)
	}
	proxy := pgwire.NewUnix(t, t.TempDir(), pgwire.SocketPath(dir, port))
	through, err := proxy.URL(p.url)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), through)
	if err != nil {
		t.Fatal(err)
	}
	if err := insert(t.Context(), conn, 5); err != nil || p.rows(t, 5) != 1 || proxy.Counts().ToServer == 0 {
		t.Errorf("over the socket: got %v, %d rows, %+v", err, p.rows(t, 5), proxy.Counts())
	}
	nobody := pgwire.New(t, filepath.Join(t.TempDir(), "nobody"))
	lost, err := nobody.URL(p.url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pgx.Connect(t.Context(), lost); err == nil {
		t.Error("Connect without a server: got nil, want an error")
	}
	if _, err := nobody.URL("postgres://%zz"); err == nil {
		t.Error("URL of no address: got nil, want an error")
	}
}

// echo starts a server that gives answer to a request for encryption and sends back all
// bytes.
func echo(t *testing.T, answer byte) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := io.ReadFull(conn, make([]byte, 8)); err != nil {
					return
				}
				if _, err := conn.Write([]byte{answer}); err != nil {
					return
				}
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return l.Addr().String()
}

// After a positive answer to a request for encryption, bytes pass unchanged. After a
// refusal messages follow, and other bytes end the connection.
func TestEncryptedPasses(t *testing.T) {
	t.Parallel()
	const opaque = "\x00\x00\x00\x01 is no length"
	for name, c := range map[string]struct {
		code   uint32
		answer byte
		passes bool
	}{
		"tls":     {80877103, 'S', true},
		"gss":     {80877104, 'G', true},
		"refused": {80877103, 'N', false},
	} {
		p := pgwire.New(t, echo(t, c.answer))
		p.Set(pgwire.Fault{Judge: func(m pgwire.Message) pgwire.Verdict {
			// The judge does not see encrypted bytes.
			return pgwire.Verdict{Drop: len(m.Payload) > 4}
		}})
		conn, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write(binary.BigEndian.AppendUint32([]byte{0, 0, 0, 8}, c.code)); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 1+len(opaque))
		if _, err := io.ReadFull(conn, got[:1]); err != nil || got[0] != c.answer {
			t.Fatalf("%s: answer: got %q, %v", name, got[0], err)
		}
		if _, err := conn.Write([]byte(opaque)); err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadFull(conn, got[1:])
		if passes := err == nil && string(got[1:]) == opaque; passes != c.passes {
			t.Errorf("%s: got %q, %v, want that it passes: %v", name, got[1:], err, c.passes)
		}
	}
}
