package pgtest_test

import (
	"testing"

	"github.com/acode-dev/acode/internal/pgtest"
)

// A restored server keeps its identity and loses later commits. The same holds for
// another server that begins with the backup.
func restore(t *testing.T, s *pgtest.Server) {
	const state = "SELECT (SELECT count(*) FROM r), (SELECT system_identifier FROM pg_control_system())"
	s.Psql("CREATE TABLE r (n int); INSERT INTO r VALUES (1)")
	then := s.Psql(state)
	backup := s.BaseBackup("one")
	s.Psql("INSERT INTO r VALUES (2)")
	if now := s.Psql(state); now == then {
		t.Fatalf("state: got %s twice, want a row more", now)
	}
	port := s.Port
	s.SetConf("work_mem", "9MB")
	s.Restore(backup)
	if got := s.Psql(state); got != then {
		t.Errorf("after Restore: got %s, want %s", got, then)
	}
	if got := s.Psql("SELECT current_setting('port')::int, current_setting('work_mem')"); got != portOf(s)+"|9MB" || port != s.Port {
		t.Errorf("settings after Restore: got %s, want %d|9MB", got, port)
	}
	// The backup does not change.
	s.Psql("INSERT INTO r VALUES (3)")
	other := pgtest.New(t, pgtest.Options{Backup: backup})
	if got := other.Psql(state); got != then || other.Port == s.Port {
		t.Errorf("New from a backup: got %s at %s, want %s elsewhere", got, other.Addr(), then)
	}
}
