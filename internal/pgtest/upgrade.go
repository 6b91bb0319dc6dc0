package pgtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// layout holds the folders of an installation, as pg_config names them.
type layout struct {
	bin, lib, share string
}

func (f *files) layout() (layout, error) {
	out, err := run(f.acct.command(f.program("pg_config"), "--bindir", "--pkglibdir", "--sharedir"))
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if err != nil || len(lines) != 3 {
		return layout{}, fmt.Errorf("pg_config: got %q, %w", out, err)
	}
	return layout{lines[0], lines[1], lines[2]}, nil
}

// below returns the same folders below root. A server searches its files relative to
// itself, so it works there.
func (l layout) below(root string) layout {
	at := func(dir string) string { return filepath.Join(root, "installed", dir) }
	return layout{at(l.bin), at(l.lib), at(l.share)}
}

// install copies the server, which finds the other files relative to its real path, and
// links the other files.
func (f *files) install(from, to layout) error {
	const links = `mkdir -p "$4" "$5" "${6%/*}"; cp "$1/postgres" "$4"; ln -s "$2"/*.so "$5"; ln -s "$3" "$6"`
	_, err := run(f.acct.command("/bin/sh", "-ec", links, "install", from.bin, from.lib, from.share, to.bin, to.lib, to.share))
	if err != nil {
		return fmt.Errorf("install: %w", err)
	}
	return nil
}

// Upgrade removes the library that the running server would load next, as an upgrade of
// its package does. Until the next Start, the first PL/pgSQL call of a connection fails
// with 58P01. The server must have Options.Own.
func (s *Server) Upgrade() {
	s.tb.Helper()
	if err := os.Rename(s.library(), s.library()+".old"); err != nil {
		s.tb.Fatalf("upgrade: %v", err)
	}
}

// upgraded ends an upgrade.
func (s *Server) upgraded() error {
	err := os.Rename(s.library()+".old", s.library())
	if os.IsNotExist(err) {
		// There was no upgrade.
		return nil
	}
	return err
}

func (s *Server) library() string { return filepath.Join(s.installed.lib, "plpgsql.so") }
