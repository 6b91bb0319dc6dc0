package pgtest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acode-dev/acode/internal/pgtest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// G1, G3, G4: two clusters are separate, neither runs as root, and one survives the end
// of the other.
func TestTwoClustersAreTwo(t *testing.T) {
	t.Parallel()
	a, b := pgtest.New(t, pgtest.Options{}), pgtest.New(t, pgtest.Options{Durable: true})
	const identity = "SELECT system_identifier FROM pg_control_system()"
	if x, y := a.Psql(identity), b.Psql(identity); x == y || x == "" {
		t.Errorf("system identifiers: got %q and %q, want two", x, y)
	}
	const settings = "SELECT current_setting('fsync'), current_setting('full_page_writes')"
	if got := a.Psql(settings); got != "off|off" {
		t.Errorf("settings: got %q, want off|off", got)
	}
	if got := b.Psql(settings); got != "on|on" {
		t.Errorf("settings when durable: got %q, want on|on", got)
	}
	dir := t.TempDir()
	// No other user can reach it then.
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	taken := pgtest.New(t, pgtest.Options{Conf: map[string]string{"port": portOf(a)}, Dir: dir})
	if got := pgtest.Psql(t, taken.URL("postgres", "postgres"), "SHOW port"); got != portOf(taken) || got == portOf(a) {
		t.Errorf("port where another server has it: got %s, want %s and not %s", got, portOf(taken), portOf(a))
	}
	info, err := os.Stat(filepath.Join(a.Root, "data"))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("data: got %v, %v, want mode 0700", info.Mode(), err)
	}
	if got := pgtest.Psql(t, a.URL("postgres", "postgres"), "SELECT inet_server_addr()"); got != "127.0.0.1" {
		t.Errorf("server's address: got %q, want 127.0.0.1", got)
	}
	a.Kill9()
	if x, y := b.Psql("SELECT 1"), taken.Psql("SELECT 1"); x != "1" || y != "1" {
		t.Errorf("the others after one was killed: got %q and %q, want 1", x, y)
	}
}

// The subtests share one cluster.
func TestServer(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t, pgtest.Options{Own: true, Conf: map[string]string{"wal_writer_delay": "10s", "work_mem": "5MB"}})
	t.Run("stops_and_starts", func(t *testing.T) { stopsAndStarts(t, s) })
	t.Run("kill_9_loses_what_was_not_flushed", func(t *testing.T) { kill9Loses(t, s) })
	t.Run("settings", func(t *testing.T) { settings(t, s) })
	t.Run("ends_by_itself", func(t *testing.T) { endsByItself(t, s) })
	t.Run("upgrade", func(t *testing.T) { upgrade(t, s) })
	t.Run("restore", func(t *testing.T) { restore(t, s) })
}

// Commits survive every kind of stop, and the server recovers only after a crash.
func stopsAndStarts(t *testing.T, s *pgtest.Server) {
	s.Psql("CREATE TABLE kept (n int)")
	stops := []struct {
		name  string
		stop  func()
		crash bool
	}{
		{"smart", func() { s.Stop(pgtest.Smart) }, false},
		{"fast", func() { s.Stop(pgtest.Fast) }, false},
		{"immediate", func() { s.Stop(pgtest.Immediate) }, true},
		{"kill_9", s.Kill9, true},
	}
	for i, c := range stops {
		s.Psql("INSERT INTO kept VALUES (1)")
		if left := serversOf(t, s.Root); len(left) < 5 {
			t.Errorf("%s: processes before: got %q, want a server's", c.name, left)
		}
		before := strings.Count(s.Log(), "not properly shut down")
		c.stop()
		if s.Pid() != 0 {
			t.Errorf("%s: Pid: got %d, want 0", c.name, s.Pid())
		}
		if left := serversOf(t, s.Root); len(left) > 0 {
			t.Errorf("%s: processes: got %q, want none", c.name, left)
		}
		if _, err := pgx.Connect(t.Context(), s.URL("postgres", "postgres")); err == nil {
			t.Errorf("%s: connected to a server that is stopped", c.name)
		}
		s.Launch()
		s.Ready()
		if got := s.Psql("SELECT count(*) FROM kept"); got != string(rune('1'+i)) {
			t.Errorf("%s: rows: got %s, want %d", c.name, got, i+1)
		}
		if crashed := strings.Count(s.Log(), "not properly shut down") > before; crashed != c.crash {
			t.Errorf("%s: recovered: got %v, want %v", c.name, crashed, c.crash)
		}
	}
}

// A killed server loses commits that it acknowledged with synchronous_commit=off, and
// none with it on.
func kill9Loses(t *testing.T, s *pgtest.Server) {
	s.Psql("CREATE TABLE t (n int)")
	for setting, want := range map[string]string{"off": "0", "on": "1"} {
		s.SetConf("synchronous_commit", setting)
		s.Psql("TRUNCATE t; CHECKPOINT")
		s.Psql("INSERT INTO t VALUES (1)")
		locks, err := filepath.Glob(filepath.Join(s.Root, ".s.PGSQL.*.lock"))
		if err != nil || len(locks) != 1 {
			t.Fatalf("lock files: got %v, %v, want one", locks, err)
		}
		// A kill while the server writes the file leaves it empty.
		if err := os.Truncate(locks[0], 0); err != nil {
			t.Fatal(err)
		}
		s.Kill9()
		s.Start()
		if got := s.Psql("SELECT count(*) FROM t"); got != want {
			t.Errorf("synchronous_commit=%s: rows after kill -9: got %s, want %s", setting, got, want)
		}
	}
}

// The next connection sees a changed setting and its reset.
func settings(t *testing.T, s *pgtest.Server) {
	if got := s.Psql("SHOW work_mem"); got != "5MB" {
		t.Errorf("work_mem: got %s, want 5MB", got)
	}
	s.SetConf("work_mem", "7MB")
	s.SetConf("application_name", "it's")
	if got := s.Psql("SELECT current_setting('work_mem'), setting FROM pg_file_settings WHERE name = 'application_name'"); got != "7MB|it's" {
		t.Errorf("settings: got %s, want 7MB|it's", got)
	}
	s.SetConf("work_mem", "")
	if got := s.Psql("SHOW work_mem"); got != "4MB" {
		t.Errorf("work_mem taken back: got %s, want the server's 4MB", got)
	}
	s.SetConf("max_connections", "17")
	if got := s.Psql("SHOW max_connections"); got == "17" {
		t.Errorf("max_connections before a restart: got %s, want the one of before", got)
	}
	s.Restart(pgtest.Fast)
	if got := s.Psql("SHOW max_connections"); got != "17" {
		t.Errorf("max_connections: got %s, want 17", got)
	}
}

// Connections over TCP need a password, and the superuser needs none over the socket.
func TestScram(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t, pgtest.Options{Scram: true, Stopped: true})
	s.Start()
	s.Psql("CREATE ROLE device LOGIN PASSWORD '" + s.Password + "'")
	for _, role := range []string{"postgres", "device"} {
		if got := pgtest.Psql(t, s.URL("postgres", role), "SELECT current_user"); got != role {
			t.Errorf("current_user: got %s, want %s", got, role)
		}
	}
	wrong := strings.Replace(s.URL("postgres", "device"), s.Password, "wrong", 1)
	if _, err := pgx.Connect(context.Background(), wrong); err == nil || !strings.Contains(err.Error(), "28P01") {
		t.Errorf("wrong password: got %v, want 28P01", err)
	}
}

// Stop and Start notice a server that ended by itself.
func endsByItself(t *testing.T, s *pgtest.Server) {
	s.SetConf("restart_after_crash", "off")
	conn, err := pgx.Connect(t.Context(), s.URL("postgres", "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(int(conn.PgConn().PID()), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if status := s.Wait(); status != 1 || s.Pid() != 0 {
		t.Errorf("Wait: got status %d, process %d, want 1 and none", status, s.Pid())
	}
	if err := s.Signal(0); err == nil {
		t.Error("Signal: got nil, want an error")
	}
	s.Start()
}

// A server whose package was upgraded cannot load more libraries until it restarts.
func upgrade(t *testing.T, s *pgtest.Server) {
	const call = "DO 'BEGIN END'"
	open := func() *pgx.Conn {
		conn, err := pgx.Connect(t.Context(), s.URL("postgres", "postgres"))
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	loaded := open()
	if _, err := loaded.Exec(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	s.Upgrade()
	if _, err := loaded.Exec(t.Context(), call); err != nil {
		t.Errorf("a connection that had loaded it: %v", err)
	}
	var refused *pgconn.PgError
	if _, err := open().Exec(t.Context(), call); !errors.As(err, &refused) || refused.Code != "58P01" {
		t.Errorf("a new connection: got %v, want 58P01", err)
	}
	s.Restart(pgtest.Immediate)
	s.Psql(call)
}

// A failed method ends the test with a reason.
func TestFailures(t *testing.T) {
	t.Parallel()
	address := pgtest.Database(t)
	r := &recorder{}
	t.Cleanup(func() { r.cleanups[0]() })
	stopped := pgtest.New(r, pgtest.Options{Stopped: true})
	for name, c := range map[string]struct {
		part func()
		want string
	}{
		"statement":      {func() { pgtest.Psql(r, address, "SELECT 1/0") }, "division by zero"},
		"folder":         {func() { pgtest.New(r, pgtest.Options{Dir: "/nonexistent"}) }, "/nonexistent"},
		"bouncer":        {func() { pgtest.Bouncer(r, "postgres://%zz") }, "parse"},
		"not_running":    {func() { stopped.Stop(pgtest.Fast) }, "does not run"},
		"no_end":         {func() { stopped.Wait() }, "does not run"},
		"nobody_to_kill": {func() { stopped.Kill9() }, "does not run"},
		"not_its_own":    {func() { stopped.Upgrade() }, "plpgsql"},
		"no_backup":      {func() { stopped.BaseBackup("x") }, "No such file"},
		"not_ready":      {func() { stopped.Ready() }, "ended"},
	} {
		if got := r.try(c.part); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q in it", name, got, c.want)
		}
	}
	if got := r.try(func() { pgtest.Psql(r, address, "SELECT 1") }); got != "" {
		t.Errorf("control: got %q, want nothing", got)
	}
	stopped.SetConf("nosuch", "1")
	if got := r.try(stopped.Start); !strings.Contains(got, `unrecognized configuration parameter "nosuch"`) {
		t.Errorf("setting: got %q, want the server's error", got)
	}
	stopped.SetConf("nosuch", "")
	if got := r.try(stopped.Start); got != "" {
		t.Errorf("Start after a failure: got %q, want nothing", got)
	}
	if got := r.try(stopped.Start); !strings.Contains(got, "the server runs") {
		t.Errorf("Start twice: got %q, want that it runs", got)
	}
	if got := r.try(func() { stopped.SetConf("work_mem", "x") }); !strings.Contains(got, "work_mem") {
		t.Errorf("SetConf of nonsense: got %q, want the name of the setting", got)
	}
	if got := r.try(func() { stopped.Restore("/nonexistent") }); !strings.Contains(got, "/nonexistent") {
		t.Errorf("Restore: got %q, want the name of the backup", got)
	}
}

func portOf(s *pgtest.Server) string {
	_, port, _ := strings.Cut(s.Addr(), ":")
	return port
}
