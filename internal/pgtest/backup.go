package pgtest

import (
	"fmt"
	"path/filepath"
)

// BaseBackup copies the running server's cluster with pg_basebackup. It returns the
// folder of the copy, for Restore and Options.Backup. name is a plain name that no other
// backup has.
func (s *Server) BaseBackup(name string) string {
	s.tb.Helper()
	dir := filepath.Join(s.Root, "backup-"+name)
	_, err := run(s.files.acct.command(s.files.program("pg_basebackup"), "--pgdata="+dir, "--wal-method=stream",
		"--checkpoint=fast", "--no-sync", "--dbname="+s.SocketURL("postgres", superuser)))
	if err != nil {
		s.tb.Fatalf("base backup: %v", err)
	}
	return dir
}

// Restore deletes the cluster, as after the loss of a disk, replaces it by a backup and
// starts it at the same address with the current settings. Commits after the backup are
// lost. Identity and roles are those of the backup.
func (s *Server) Restore(backup string) {
	s.tb.Helper()
	if err := s.restore(backup); err != nil {
		s.tb.Fatalf("restore: %v", err)
	}
}

func (s *Server) restore(backup string) error {
	if s.super.pid != 0 {
		if err := s.stop(Immediate); err != nil {
			return err
		}
	}
	old := filepath.Join(s.Root, "lost")
	if _, err := run(s.files.acct.command("mv", s.data(), old)); err != nil {
		return err
	}
	if err := s.files.copyTo(s.data(), backup); err != nil {
		return err
	}
	if _, err := run(s.files.acct.command("rm", "-rf", old)); err != nil {
		return err
	}
	if err := s.configure(); err != nil {
		return err
	}
	if err := s.start(); err != nil {
		return fmt.Errorf("%s: %w", backup, err)
	}
	return nil
}
