package pgtest

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// settings are what a server of tests needs. One that is not durable survives kill -9,
// and only a failure of the machine harms it.
func settings(root string, port int, o Options) map[string]string {
	conf := map[string]string{
		"listen_addresses":           "127.0.0.1",
		"port":                       fmt.Sprint(port),
		"unix_socket_directories":    root,
		"dynamic_shared_memory_type": "mmap", // so that nothing of it outlives the cluster's files
		"shared_buffers":             "64MB",
		"timezone":                   "UTC",
		"log_line_prefix":            "%m [%p] %q%u@%d ",
		"fsync":                      "off",
		"full_page_writes":           "off",
	}
	if o.Durable {
		conf["fsync"], conf["full_page_writes"] = "on", "on"
	}
	maps.Copy(conf, o.Conf)
	return conf
}

// render writes settings as postgresql.conf does.
func render(conf map[string]string) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(conf)) {
		fmt.Fprintf(&out, "%s = '%s'\n", name, strings.ReplaceAll(conf[name], "'", "''"))
	}
	return out.String()
}

// access says who may connect how: over the socket, whose folder is private, the
// superuser.
func access(scram bool) string {
	method := "trust"
	if scram {
		method = "scram-sha-256"
	}
	return "local all,replication " + superuser + " trust\n" +
		"local all all " + method + "\n" +
		"host all,replication all 127.0.0.1/32 " + method + "\n"
}

// configure writes the settings where the server reads them after its own.
func (s *Server) configure() error {
	if err := s.files.write(filepath.Join(s.data(), "postgresql.conf"), render(s.conf)); err != nil {
		return fmt.Errorf("write postgresql.conf: %w", err)
	}
	return nil
}

// SetConf changes a setting; an empty value takes the server's default. It returns when
// new connections see it, or where it needs a restart, when the next Start will; clients
// that are connected see it before their next statement.
func (s *Server) SetConf(name, value string) {
	s.tb.Helper()
	if s.conf[name] = value; value == "" {
		delete(s.conf, name)
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

// refused says which settings the server does not take, but for those that need a
// restart, for which it says so of good ones, too.
func (s *Server) refused() error {
	wrong, err := s.query("SELECT coalesce(string_agg(concat_ws(': ', name, error), ', '), '') " +
		"FROM pg_file_settings LEFT JOIN pg_settings USING (name) WHERE error <> '' AND context IS DISTINCT FROM 'postmaster'")
	if err == nil && wrong != "" {
		err = errors.New(wrong)
	}
	return err
}
