package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Options says what kind of cluster New makes. The zero value is a fast one, whose durable
// writes do not wait for the disk, and which trusts everybody on this machine.
type Options struct {
	Durable bool              // fsync and full page writes, as in production
	Scram   bool              // roles need the password that URL names; the superuser has it
	Conf    map[string]string // more settings of postgresql.conf
	Dir     string            // an existing folder, open to everybody, to make the cluster in; empty: /tmp
	Backup  string            // what BaseBackup gave: begin with that, identity included
	Stopped bool              // do not start it
	Own     bool              // it has programs of its own, for Upgrade
}

// Mode is how a server is stopped: how much it waits for.
type Mode string

// The modes, by the names of pg_ctl.
const (
	Smart     Mode = "smart"     // waits until all clients have left
	Fast      Mode = "fast"      // ends their connections, and writes a checkpoint
	Immediate Mode = "immediate" // ends as in a crash; the next start recovers
)

// Server is a cluster of a test's own. Its methods end the test when they fail; they are for
// one goroutine at a time. Everything goes when the test ends.
type Server struct {
	Port     int    // on 127.0.0.1; it stays the same for the server's life
	Root     string // its folder: socket, data, log and backups
	Password string // of the superuser; empty unless Scram

	tb        testing.TB
	files     *files
	super     *supervisor
	conf      map[string]string
	installed layout // its own programs; empty: it has none
}

// New makes a cluster, and starts it unless o says not to.
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

// newServer gives a server that must be closed even where it fails halfway.
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

// launch starts a new server. A port that somebody took meanwhile is exchanged.
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

// freePort finds a port that nobody listens on, below those that systems give to outgoing
// connections, so that it stays free while the server is down.
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

// configure writes the settings where the server reads them after its own.
func (s *Server) configure() error {
	if err := s.files.write(filepath.Join(s.data(), "postgresql.conf"), render(s.conf)); err != nil {
		return fmt.Errorf("write postgresql.conf: %w", err)
	}
	return nil
}

// Start starts the server and waits until it takes connections, recovery included.
func (s *Server) Start() {
	s.tb.Helper()
	if err := s.start(); err != nil {
		s.tb.Fatalf("start: %v", err)
	}
}

// Launch starts the server and waits for nothing.
func (s *Server) Launch() {
	s.tb.Helper()
	if err := s.begin(); err != nil {
		s.tb.Fatalf("launch: %v", err)
	}
}

func (s *Server) start() error {
	if err := s.begin(); err != nil {
		return err
	}
	return s.ready()
}

func (s *Server) begin() error {
	if s.installed.lib != "" {
		if err := s.upgraded(); err != nil {
			return err
		}
	}
	_, err := s.super.start()
	return err
}

// Ready waits until a server that Launch started takes connections.
func (s *Server) Ready() {
	s.tb.Helper()
	if err := s.ready(); err != nil {
		s.tb.Fatalf("ready: %v", err)
	}
}

// ready looks at the socket until the server answers there, or has ended.
func (s *Server) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := connect(ctx, s.SocketURL("postgres", superuser))
		if err == nil {
			return conn.Close(ctx)
		}
		if !s.alive() {
			status, _ := s.super.wait(patience) // its log says more
			return fmt.Errorf("the server ended with status %d: %s", status, s.Log())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the server takes no connections: %w: %s", err, s.Log())
		case <-tick.C:
		}
	}
}

// Stop stops the server and waits until it is gone.
func (s *Server) Stop(m Mode) {
	s.tb.Helper()
	if err := s.stop(m); err != nil {
		s.tb.Fatalf("stop: %v", err)
	}
}

func (s *Server) stop(m Mode) error {
	if err := s.Signal(stopSignals()[m]); err != nil {
		return err
	}
	_, err := s.super.wait(patience)
	return err
}

// Wait waits until a server that is about to end by itself is gone, and gives its exit status.
func (s *Server) Wait() int {
	s.tb.Helper()
	status, err := s.super.wait(patience)
	if err != nil {
		s.tb.Fatalf("wait: %v", err)
	}
	return status
}

// alive reports whether the server's first process has not ended yet: its supervisor removes
// the file that names it, and until then nobody else has its number.
func (s *Server) alive() bool {
	_, err := os.Stat(filepath.Join(s.Root, "pid"))
	return err == nil
}

func stopSignals() map[Mode]syscall.Signal {
	return map[Mode]syscall.Signal{Smart: syscall.SIGTERM, Fast: syscall.SIGINT, Immediate: syscall.SIGQUIT}
}

// Restart stops the server in a mode and starts it again.
func (s *Server) Restart(m Mode) {
	s.tb.Helper()
	s.Stop(m)
	s.Start()
}

// Pid is the process id of the server's first process; 0 while it is stopped.
func (s *Server) Pid() int { return s.super.pid }

// Signal sends a signal to the server's first process.
func (s *Server) Signal(sig syscall.Signal) error {
	if s.super.pid == 0 || !s.alive() {
		return errors.New("signal: the server does not run")
	}
	return syscall.Kill(s.super.pid, sig)
}

// Kill9 kills every process of the server at once, as a failure of its machine would, and
// waits until all are gone. Start recovers.
func (s *Server) Kill9() {
	s.tb.Helper()
	if s.super.pid == 0 || !s.alive() {
		s.tb.Fatal("kill -9: the server does not run")
	}
	if err := killTree(s.super.pid); err != nil {
		s.tb.Fatalf("kill -9: %v", err)
	}
	if _, err := s.super.wait(patience); err != nil {
		s.tb.Fatalf("kill -9: %v", err)
	}
}

// URL is the address of a database on 127.0.0.1 for a role.
func (s *Server) URL(db, role string) string {
	who := url.User(role)
	if s.Password != "" {
		who = url.UserPassword(role, s.Password)
	}
	u := url.URL{Scheme: "postgres", User: who, Host: s.Addr(), Path: "/" + db, RawQuery: "sslmode=disable"}
	return u.String()
}

// SocketURL is the address of a database at the unix socket, where the superuser needs no
// password.
func (s *Server) SocketURL(db, role string) string {
	q := url.Values{"host": {s.Root}, "port": {strconv.Itoa(s.Port)}, "sslmode": {"disable"}}
	u := url.URL{Scheme: "postgres", User: url.User(role), Path: "/" + db, RawQuery: q.Encode()}
	return u.String()
}

// Addr is where the server listens, as host:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)) }

// Log is what the server has written to its log.
func (s *Server) Log() string {
	b, err := os.ReadFile(filepath.Join(s.Root, "log"))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// SetConf changes a setting; an empty value takes the server's default. It returns when new
// connections see it, or where it needs a restart, when the next Start will; clients that are
// connected see it before their next statement.
func (s *Server) SetConf(name, value string) {
	s.tb.Helper()
	if s.conf[name] = value; value == "" {
		maps.DeleteFunc(s.conf, func(k, _ string) bool { return k == name })
	}
	if err := s.configure(); err != nil {
		s.tb.Fatalf("set %s: %v", name, err)
	}
	if s.super.pid == 0 {
		return
	}
	if err := s.reload(); err != nil {
		s.tb.Fatalf("set %s: %v", name, err)
	}
}

// reload has the server read its settings, and waits until it has.
func (s *Server) reload() error {
	const loaded = "SELECT pg_conf_load_time()"
	before, err := s.query(loaded)
	if err != nil {
		return err
	}
	if err := s.Signal(syscall.SIGHUP); err != nil {
		return err
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		now, err := s.query(loaded)
		if err != nil {
			return err
		}
		if now != before {
			return s.refused()
		}
		select {
		case <-limit.C:
			return errors.New("the server did not read its settings")
		case <-tick.C:
		}
	}
}

// refused says which settings the server does not take, but for those that need a restart, for
// which it says so of good ones, too.
func (s *Server) refused() error {
	wrong, err := s.query("SELECT coalesce(string_agg(concat_ws(': ', name, error), ', '), '') " +
		"FROM pg_file_settings LEFT JOIN pg_settings USING (name) WHERE error <> '' AND context IS DISTINCT FROM 'postmaster'")
	if err == nil && wrong != "" {
		err = errors.New(wrong)
	}
	return err
}

func (s *Server) close() {
	if err := s.super.close(); err != nil {
		s.tb.Errorf("pgtest: %v", err)
	}
}
