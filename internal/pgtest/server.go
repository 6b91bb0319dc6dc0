package pgtest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Options describe the cluster that New makes. The zero value is a fast cluster: durable
// writes do not wait for the disk, and every local user is trusted.
type Options struct {
	// Durable turns on fsync and full page writes, as in production.
	Durable bool
	// Scram makes roles need the password that URL contains. The superuser has that
	// password.
	Scram bool
	// Conf holds more settings of postgresql.conf.
	Conf map[string]string
	// Dir is an existing public folder for the cluster; empty means /tmp.
	Dir string
	// Backup is a result of BaseBackup. The cluster begins with it, identity included.
	Backup string
	// Stopped leaves the cluster stopped.
	Stopped bool
	// Own gives the cluster its own programs, for Upgrade.
	Own bool
}

// Server is a test's own cluster. Its methods end the test when they fail. Only one
// goroutine may use it at a time. It is removed when the test ends.
type Server struct {
	// Port is on 127.0.0.1 and stays the same for the server's life.
	Port int
	// Root is the server's folder: socket, data, log and backups.
	Root string
	// Password is the superuser's; it is empty unless Scram is set.
	Password string

	tb    testing.TB
	files *files
	super *supervisor
	conf  map[string]string
	// installed holds the server's own programs; empty means none.
	installed layout
}

// New makes a cluster and starts it, unless o.Stopped is set.
func New(tb testing.TB, o Options) *Server {
	tb.Helper()
	s, err := newServer(tb, o)
	if s != nil {
		tb.Cleanup(s.close)
	}
	if err != nil {
		tb.Fatalf("pgtest.New: %v", err)
	}
	return s
}

// newServer returns a server that the caller must close even after an error.
func newServer(tb testing.TB, o Options) (*Server, error) {
	f, err := template()
	if err != nil {
		return nil, err
	}
	from, err := f.layout()
	if err != nil {
		return nil, err
	}
	super, err := supervise(f.acct, o.Dir, func(root string) []string {
		if o.Own {
			return server(from.below(root).bin, root)
		}
		return server(f.bin, root)
	})
	if err != nil {
		return nil, err
	}
	s := &Server{Root: super.root, tb: tb, files: f, super: super}
	if err := s.fill(o); err != nil {
		return s, err
	}
	if o.Own {
		s.installed = from.below(s.Root)
		if err := f.install(from, s.installed); err != nil {
			return s, err
		}
	}
	s.Port, err = freePort()
	if err != nil {
		return s, err
	}
	s.conf = settings(s.Root, s.Port, o)
	if err := s.configure(); err != nil || o.Stopped && !o.Scram {
		return s, err
	}
	return s, s.launch(o)
}

// fill makes the cluster's files.
func (s *Server) fill(o Options) error {
	from := s.files.data
	if o.Backup != "" {
		from = o.Backup
	}
	if err := s.files.copyTo(s.data(), from); err != nil {
		return err
	}
	if err := s.files.write(filepath.Join(s.data(), "pg_hba.conf"), access(o.Scram)); err != nil {
		return fmt.Errorf("write pg_hba.conf: %w", err)
	}
	if o.Backup != "" {
		return nil
	}
	return s.files.identify(s.data())
}

// launch starts a new server. If its port was taken meanwhile, it chooses another one.
func (s *Server) launch(o Options) error {
	err := s.start()
	for try := 0; err != nil && try < 3 && strings.Contains(s.Log(), "Address already in use"); try++ {
		if s.Port, err = freePort(); err != nil {
			return err
		}
		s.conf["port"] = strconv.Itoa(s.Port)
		if err = s.configure(); err == nil {
			err = s.start()
		}
	}
	if err != nil || !o.Scram {
		return err
	}
	s.Password = rand.Text()
	if _, err = s.psql("postgres", "ALTER ROLE "+superuser+" PASSWORD '"+s.Password+"'"); err != nil || !o.Stopped {
		return err
	}
	return s.stop(Fast)
}

// freePort finds a free port below the range of outgoing connections, so that it stays
// free while the server is down.
func freePort() (int, error) {
	for range 100 {
		n, err := rand.Int(rand.Reader, big.NewInt(15000))
		if err != nil {
			return 0, err
		}
		port := 17000 + int(n.Int64())
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		return port, l.Close()
	}
	return 0, errors.New("no free port on 127.0.0.1")
}

func (s *Server) data() string { return filepath.Join(s.Root, "data") }

// URL returns the address of a database on 127.0.0.1 for a role.
func (s *Server) URL(db, role string) string {
	who := url.User(role)
	if s.Password != "" {
		who = url.UserPassword(role, s.Password)
	}
	u := url.URL{Scheme: "postgres", User: who, Host: s.Addr(), Path: "/" + db, RawQuery: "sslmode=disable"}
	return u.String()
}

// SocketURL returns the address of a database at the unix socket, where the superuser
// needs no password.
func (s *Server) SocketURL(db, role string) string {
	q := url.Values{"host": {s.Root}, "port": {strconv.Itoa(s.Port)}, "sslmode": {"disable"}}
	u := url.URL{Scheme: "postgres", User: url.User(role), Path: "/" + db, RawQuery: q.Encode()}
	return u.String()
}

// Addr returns the server's address as host:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)) }

// Log returns the content of the server's log.
func (s *Server) Log() string {
	b, err := os.ReadFile(filepath.Join(s.Root, "log"))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func (s *Server) close() {
	if err := s.super.close(); err != nil {
		s.tb.Errorf("pgtest: %v", err)
	}
}
